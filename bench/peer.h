//! Sockets for the load generators: one epoll loop, Dask's framing, nothing else.
//!
//! The bench has its own loop instead of protocol/net on purpose: what measures the scheduler must
//! not share its faults, and a floor wants the fewest instructions between two kernel calls.
//! Whatever a message handler queues on a peer leaves in one write when the bytes that were read
//! have been handled.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/wire/frames.h"
#include "protocol/wire/message.h"
#include "protocol/wire/writer.h"

namespace bench {

using protocol::Message;
using protocol::MessageWriter;
using protocol::OutMessage;
using protocol::Value;

double wall_now();

class Peers;

//! One connection. Owned by Peers; gone after its `on_closed` has run.
class Peer {
 public:
  Peer(Peers& peers, int fd) : peers_(peers), fd_(fd) {}
  ~Peer();

  //! Called with each message after the handshake.
  std::function<void(Peer&, const Message&)> on_message;
  std::function<void(Peer&)> on_closed;

  //! Queues a message. Small pieces are copied together, large ones are kept as they are.
  void send(const OutMessage& message);
  //! Writes what can be written at once and closes, soon.
  void close();
  bool closing() const { return closing_; }
  bool greeted() const { return greeted_; }

 private:
  friend class Peers;
  void on_readable();
  void flush();
  void enlist();
  bool unsent() const { return !queue_.empty() || !tail_.empty(); }

  Peers& peers_;
  int fd_;
  protocol::FrameReader reader_;
  Message message_;
  std::deque<protocol::Slice> queue_;  // what to write, then `tail_`
  std::string tail_;
  std::size_t sent_ = 0;  // bytes of queue_.front() written
  bool greeted_ = false;
  bool closing_ = false;
  bool writable_wanted_ = false;
  bool queued_ = false;  // on Peers::unsent_
};

class Peers {
 public:
  Peers();
  ~Peers();

  //! Listens on loopback; returns the port. `accepted` is called for each new connection.
  std::uint16_t listen(std::function<void(Peer&)> accepted);
  //! Connects (loopback: at once) and greets. Ends the program if nobody listens.
  Peer& connect(std::uint16_t port);
  //! Calls `fire` every `seconds` from run().
  void every(double seconds, std::function<void()> fire);
  void run();
  void stop() { stopped_ = true; }
  std::uint64_t kernel_calls = 0;

 private:
  friend class Peer;
  struct Listener {
    int fd;
    std::function<void(Peer&)> accepted;
  };
  struct Alarm {
    double period;
    double due;
    std::function<void()> fire;
  };

  Peer& adopt(int fd);
  void watch(Peer& peer, bool writable, bool fresh);
  void drop(Peer& peer);
  int fire_alarms();
  void flush_unsent();

  int epoll_;
  bool stopped_ = false;
  std::vector<std::unique_ptr<Peer>> peers_;         // by descriptor
  std::vector<std::unique_ptr<Listener>> listeners_;  // by descriptor
  std::vector<Alarm> alarms_;
  std::vector<int> unsent_;  // descriptors with something to write
};

//! Port of `tcp://127.0.0.1:PORT`; ends the program on anything else.
std::uint16_t loopback_port(std::string_view address);

}  // namespace bench
