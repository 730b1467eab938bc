//! The sending half of a stream: op-maps that leave as one array per write.
//!
//! Ops gather in a batch; the batch is closed and written when the turn ends and no write is in
//! flight. So an idle peer gets an op at once, and a busy one gets many ops in one message. A peer
//! for which many small messages are dear (a Python client) can have an interval: an op after a
//! pause leaves at once, the next ones together at the end of the interval. The interval grows while
//! messages stay large, because then the peer is busy and each message costs it more than the wait.
//! Who knows how much the peer still waits for says so (Pace).
//! A batch that grows while a write is in flight is closed in pieces of kBatchMax, so that nothing
//! large is ever moved in memory, and the peer can act on one piece while the next one comes.
//!
//! Answers to: distributed/batched.py, BatchedSend.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "protocol/net/connection.h"
#include "protocol/net/loop.h"
#include "protocol/wire/writer.h"

namespace protocol {

//! How soon a peer with an interval wants the next op.
enum class Pace : std::uint8_t {
  at_once,  //!< it waits for nothing else
  steady,   //!< by the interval
  relaxed,  //!< by a longer one: so much is to come that nobody is held up
};

class StreamSender {
 public:
  StreamSender() = default;
  StreamSender(const StreamSender&) = delete;
  StreamSender& operator=(const StreamSender&) = delete;
  ~StreamSender() { detach(); }

  //! Ops sent so far and from now on go to this connection.
  void attach(Connection::Ref connection) {
    connection_ = std::move(connection);
    connection_->before_flush([this] { close_batch(); });
    if (!batch_.empty()) connection_->flush_soon();
  }
  void detach() {
    if (connection_) connection_->before_flush(nullptr);
    if (timer_) timer_->stop();
    connection_ = nullptr;
  }
  struct Intervals {
    std::uint64_t least_ms, relaxed_ms, most_ms;
  };
  //! Messages follow each other at this distance at least; under load it grows up to the most.
  void set_interval(Loop& loop, Intervals intervals) {
    intervals_ = intervals;
    interval_ms_ = intervals.least_ms;
    timer_ = std::make_unique<Timer>(loop);
  }
  //! For the ops to come.
  void set_pace(Pace pace) { pace_ = pace; }

  //! The writer for exactly one more op-map.
  MessageWriter& op() {
    if (connection_) {
      if (batch_.bytes() >= kBatchMax) close_batch();
      ask_for_flush();
    }
    return batch_.next();
  }
  //! Bytes that the peer has not taken yet.
  std::size_t unsent_bytes() const {
    return batch_.bytes() + (connection_ ? connection_->unsent_bytes() : 0);
  }

  const Connection::Ref& connection() const { return connection_; }

 private:
  void ask_for_flush() {
    const std::uint64_t wait = distance();
    const std::uint64_t since = connection_->loop_ms() - sent_at_ms_;
    if (since >= wait) return connection_->flush_soon();
    const std::uint64_t due = sent_at_ms_ + wait;
    if (timer_->active() && due_ms_ <= due) return;
    due_ms_ = due;
    timer_->start(wait - since, 0, [this] { connection_->flush_soon(); });
  }

  //! Between the last message and the next.
  std::uint64_t distance() const {
    switch (pace_) {
      case Pace::at_once: return 0;
      case Pace::steady: return interval_ms_;
      case Pace::relaxed: return std::max(interval_ms_, intervals_.relaxed_ms);
    }
    return 0;
  }

  void close_batch() {
    if (batch_.empty()) return;
    adapt(batch_.size());
    sent_at_ms_ = connection_->loop_ms();
    connection_->send(batch_.close());
  }

  void adapt(std::uint32_t ops) {
    if (ops >= kManyOps) {
      interval_ms_ = std::min(2 * interval_ms_, intervals_.most_ms);
    } else if (ops < kFewOps) {
      interval_ms_ = intervals_.least_ms;
    }
  }

  static constexpr std::size_t kBatchMax = 1 << 20;
  static constexpr std::uint32_t kManyOps = 32, kFewOps = 8;
  Connection::Ref connection_;
  StreamBatch batch_;
  Intervals intervals_{};         //!< all 0 for a peer without
  std::uint64_t interval_ms_ = 0;  //!< now
  Pace pace_ = Pace::steady;
  std::uint64_t sent_at_ms_ = 0;
  std::uint64_t due_ms_ = 0;  //!< what the timer was set to
  std::unique_ptr<Timer> timer_;
};

}  // namespace protocol
