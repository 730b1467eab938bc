//! One TCP connection that speaks Dask's framing.
//!
//! Reading: `co_await connection->read()` gives the next message or the reason there is none. At
//! most one coroutine reads at a time. When nobody reads, a bounded amount is taken from the
//! socket and then the peer has to wait. When a turn of the loop has lasted long enough, read()
//! waits for the next turn even if a message is there, so no peer can hold up the others.
//!
//! Writing: `send` queues; what was queued in a turn leaves together when the turn ends, and what
//! is queued while a write is in flight leaves together when that write has ended. A peer that
//! lets more than `Limits::outbox_bytes_max` pile up is closed with a reason.
//!
//! Answers to: distributed/comm/tcp.py, TCP.
#pragma once

#include <uv.h>

#include <coroutine>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "protocol/base/bytes.h"
#include "protocol/base/limits.h"
#include "protocol/base/result.h"
#include "protocol/net/address.h"
#include "protocol/net/loop.h"
#include "protocol/net/outbox.h"
#include "protocol/wire/frames.h"

namespace protocol {

class Connection final : public Flushable, public std::enable_shared_from_this<Connection> {
 public:
  using Ref = std::shared_ptr<Connection>;

  //! A socket that is not connected yet; accept or connect it, then call start().
  static Ref create(Loop& loop);
  ~Connection() override;

  uv_tcp_t* socket() { return &socket_; }
  //! The socket is connected: set its options and begin to read.
  void start(int timeout_seconds = 30);

  const Address& peer() const { return peer_; }
  const Address& local() const { return local_; }
  //! The loop's clock in ms, as of the start of the turn.
  std::uint64_t loop_ms() { return uv_now(loop_.uv()); }
  //! Both ends are on this machine.
  bool same_host() const { return peer_.host == local_.host; }
  bool closed() const { return closed_; }
  //! Why it was closed; only after closed().
  const Error& reason() const { return *reason_; }

  class Reader;
  //! The next message.
  Reader read();
  //! The messages that have arrived and that nobody has read yet.
  const std::deque<Frames>& unread() const { return inbox_; }
  //! Before the handshake is done one short message may arrive, and what comes behind it is not looked
  //! at: a peer that has greeted may send a long one at once. Afterwards the usual limits hold.
  void lift_handshake_limits();
  //! Large frames that arrive from now on can be given to another process (shared_memory.h).
  void share_large_frames() { frames_.share_large_frames(); }

  //! Queues one message. No-op once closed.
  void send(const OutMessage& message);
  //! Called right before queued bytes are written, to add what was held back to be batched.
  void before_flush(Callback hook) { before_flush_ = std::move(hook); }
  //! Asks for a flush at the end of this turn.
  void flush_soon();
  void flush() override;
  //! Bytes queued or being written.
  std::size_t unsent_bytes() const { return outbox_.bytes(); }

  //! Writes what is queued by the end of this turn, then closes.
  void close();
  //! Closes at once; a pending read() gets `reason` in the next turn, after what was received.
  void abort(Error reason);
  //! Called once, when it is closed for whatever reason.
  void on_close(Callback hook) { on_close_ = std::move(hook); }

 private:
  explicit Connection(Loop& loop) : loop_(loop) {}

  void on_bytes(ssize_t count);
  void take_messages();
  void on_written(int status);
  void deliver();
  void deliver_later();
  void hold_or_resume_socket();
  void finish_closing();

  Loop& loop_;
  uv_tcp_t socket_;
  uv_shutdown_t shutdown_;
  Ref self_;  //!< keeps us alive until libuv has let go of the socket
  Address peer_;
  Address local_;
  FrameReader frames_;
  std::deque<Frames> inbox_;
  std::size_t inbox_bytes_ = 0;
  std::coroutine_handle<> waiting_;
  bool reading_ = false;
  bool greeted_ = false;  //!< the limits are lifted
  bool deliver_deferred_ = false;
  Outbox outbox_;
  Callback before_flush_;
  Callback on_close_;
  bool flush_asked_ = false;
  bool closing_ = false;        //!< to be closed when everything is written
  bool shut_down_ = false;      //!< nothing more is written
  bool closed_ = false;
  std::optional<Error> reason_;
};

//! Awaitable of Connection::read.
class Connection::Reader {
 public:
  explicit Reader(Ref connection) : connection_(std::move(connection)) {}
  bool await_ready() const;
  void await_suspend(std::coroutine_handle<> awaiter);
  Result<Frames> await_resume();

 private:
  Ref connection_;
};

}  // namespace protocol
