//! Reading a stream op by op, and the small waits that keep turns short.
//!
//! A stream carries arrays of op-maps. StreamReader hands them out one at a time, in order, across
//! messages; between ops it gives the loop back when the turn has lasted long enough. A message that
//! is no such thing ends the stream with one line in the log.
//!
//! Answers to: distributed/core.py, Server.handle_stream.
#pragma once

#include <optional>
#include <utility>

#include "protocol/net/async.h"
#include "protocol/net/connection.h"
#include "protocol/net/loop.h"
#include "protocol/wire/message.h"
#include "protocol/wire/ops.h"

namespace scheduler {

class Server;

//! Frame 0 of this size and more is parsed on the thread pool.
inline constexpr std::size_t kLargeHeader = 1u << 20;

//! A message whose frame 0 has this size is not kept for its memory to be used again.
inline constexpr std::size_t kHeavyHeader = 256 * 1024;

inline bool is_large(const protocol::Message& message) {
  return !message.frames().empty() && message.frames()[0].size() >= kLargeHeader;
}

//! Waits until the next turn of the loop.
struct NextTurn {
  protocol::Loop& loop;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> awaiter) const {
    loop.defer([awaiter] { awaiter.resume(); });
  }
  void await_resume() const noexcept {}
};
inline NextTurn next_turn(protocol::Loop& loop) { return {loop}; }

//! Runs `work` on the thread pool and waits for it.
template <class Work>
struct Offload {
  protocol::Loop& loop;
  const Work& work;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> awaiter) const {
    loop.offload([this] { work(); }, [awaiter] { awaiter.resume(); });
  }
  void await_resume() const noexcept {}
};
template <class Work>
Offload<Work> offload(protocol::Loop& loop, const Work& work) {
  return {loop, work};
}

//! Waits for some time.
protocol::Async<void> sleep(protocol::Loop& loop, double seconds);

class StreamReader {
 public:
  StreamReader(Server& server, protocol::Connection::Ref connection)
      : server_(server), connection_(std::move(connection)) {}

  struct Op {
    const protocol::Message& message;  //!< until the next message is read
    protocol::Value value;
    protocol::Op kind;
  };
  //! Waits for the next message; false at the end of the stream.
  protocol::Async<bool> next_message();
  //! The next op of the message; nothing if there is none left.
  std::optional<Op> next_op();
  //! All that is still needed of this op has been copied: gives back the memory of its message,
  //! if that is worth it and no other op follows in it.
  void forget_message();
  //! This turn has lasted long enough: wait for the next one before the next op.
  bool tired();

  //! Says in the log, a few times, that an op was left out.
  void ignore(const Op& op, const protocol::Error& error);
  //! Closes the connection because of what it sent, and says so in the log.
  void fail(const protocol::Error& error);

 private:
  Server& server_;
  protocol::Connection::Ref connection_;
  protocol::Message message_;
  std::uint32_t at_ = 0;    //!< node of the next op
  std::uint32_t left_ = 0;  //!< ops left in this message
  std::uint32_t since_check_ = 0;
  std::uint32_t ignored_ = 0;
  bool ended_ = false;      //!< what has arrived since is not looked at
};

}  // namespace scheduler
