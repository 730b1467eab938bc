//! The event loop of a process: one libuv loop, one thread, and the order of a turn.
//!
//! Within a turn everything that happened is read and acted on first; only then, once, the
//! `turn end` hooks run and outboxes are written. So many messages to one peer become one write,
//! and an idle peer gets its message within the turn that caused it. Not thread-safe: only
//! `post` may be called from other threads.
#pragma once

#include <uv.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "protocol/base/time.h"

namespace protocol {

using Callback = std::function<void()>;

//! Something that has output to write when the turn ends.
class Flushable {
 public:
  virtual ~Flushable() = default;
  virtual void flush() = 0;
};

class Loop {
 public:
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  uv_loop_t* uv() { return &loop_; }
  //! Runs until stop() is called. Handles still open are closed by the destructor.
  void run();
  //! The same, but holds `turn` only while it works, never while it sleeps. Whoever else holds it
  //! is the loop's thread for that time, and ends with end_borrowed_turn().
  void run(std::mutex& turn);
  void stop() {
    stopped_ = true;
    uv_stop(&loop_);
  }

  //! Runs `hook` at the end of every turn, before anything is flushed.
  void at_turn_end(Callback hook) { turn_end_.push_back(std::move(hook)); }
  //! Calls `out->flush()` once at the end of this turn.
  void flush_at_turn_end(std::shared_ptr<Flushable> out) { unflushed_.push_back(std::move(out)); }
  //! Ends what another thread did while it held the turn. `urgent`: what was queued to be sent
  //! is written now, by the caller; else soon, together with what is queued until then: by the
  //! next caller kQuietMs after the last writing, or by the loop's thread, at the latest after kNapMs.
  void end_borrowed_turn(bool urgent);
  //! Runs `work` once, early in the next turn; the loop does not sleep before.
  void defer(Callback work);
  //! From any thread: runs `work` on the loop's thread.
  void post(Callback work);
  //! Runs `work` on the thread pool, then `done` on the loop's thread.
  void offload(Callback work, Callback done);
  //! What runs on the thread pool beside offload() (looking up names) is counted by its owner.
  void pool_work_begins() { ++pool_work_; }
  void pool_work_ends() { --pool_work_; }
  //! After run() has ended: waits for what is on the thread pool and runs what follows it. For
  //! owners of what that uses, who die before the loop.
  void finish_pool_work();

  //! The moment now. Monotonic time is read anew at each call.
  Now now() const;

  //! A piece of a turn's work.
  struct Piece {
    std::array<char, 32> name{};  //!< its beginning; the rest are zeros
    Duration wall;
    std::string_view text() const { return {name.data(), ::strnlen(name.data(), name.size())}; }
  };
  //! How long a turn took, and how much of that the thread was given a processor.
  struct TurnLength {
    Duration wall;
    Duration cpu;
    Piece most;  //!< the longest piece of its work that was named
  };
  struct TurnStats {
    std::uint64_t turns = 0;
    TurnLength longest;    //!< by the clock on the wall
    Duration longest_cpu;  //!< of any turn; 0 unless on_long_turn() is set
    std::uint64_t over_50_ms = 0;
  };
  const TurnStats& turn_stats() const { return stats_; }
  //! Time since work began in this turn. Sleeping is not counted.
  Duration turn_elapsed() {
    begin_work();
    return {static_cast<std::int64_t>(uv_hrtime() - work_start_ns_)};
  }
  //! Something happens: the turn is measured from here, unless it has begun already.
  void begin_work() {
    if (work_start_ns_ != 0) return;
    work_start_ns_ = uv_hrtime();
    if (on_long_turn_) work_start_cpu_ = thread_cpu();
  }
  //! Names what has been done since `began`, so that a long turn can say what made it long.
  void name_work(std::string_view name, Duration began) {
    const Duration took{static_cast<std::int64_t>(uv_hrtime()) - began.ns};
    if (took > most_.wall) most_ = piece(name, took);
  }
  //! Called with the length of each turn that took longer than 50 ms. Who wants to know pays for a
  //! look at the thread's processor time in each turn.
  void on_long_turn(std::function<void(TurnLength)> hook) { on_long_turn_ = std::move(hook); }

 private:
  static constexpr int kNapMs = 6;
  static constexpr std::uint64_t kQuietMs = 4;

  void end_turn();
  bool has_new_watchers() const;
  void sleep(std::unique_lock<std::mutex>& turn);
  void run_deferred();
  void run_posted();
  void measure();
  static Duration thread_cpu();
  static Piece piece(std::string_view name, Duration wall);

  uv_loop_t loop_;
  uv_prepare_t prepare_;
  uv_check_t check_;
  uv_idle_t spin_;
  uv_async_t wake_;
  std::vector<Callback> turn_end_;
  std::vector<std::shared_ptr<Flushable>> unflushed_;
  std::vector<Callback> deferred_;
  std::mutex posted_mutex_;
  std::vector<Callback> posted_;
  TurnStats stats_;
  std::function<void(TurnLength)> on_long_turn_;
  std::uint64_t work_start_ns_ = 0;  //!< 0: nothing has happened in this turn yet
  Duration work_start_cpu_;
  Piece most_;  //!< of this turn
  std::size_t pool_work_ = 0;
  bool stopped_ = false;
  int nap_fd_;                        //!< an eventfd: sleep no longer than kNapMs from now on
  bool napping_ = false;              //!< the thread will look within kNapMs, or was just told to
  bool left_output_ = false;          //!< since it last lay down
  std::uint64_t flushed_ns_ = 0;      //!< when a turn last wrote what was queued
  std::uint64_t sleep_until_ms_ = 0;  //!< in libuv's time; while the thread sleeps
};

//! A timer; stops when destroyed. Never fires inside start().
class Timer {
 public:
  explicit Timer(Loop& loop);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  //! Fires after `delay_ms`, then every `repeat_ms` if that is not 0. Restarting is allowed.
  void start(std::uint64_t delay_ms, std::uint64_t repeat_ms, Callback fire);
  void stop();
  bool active() const;

 private:
  struct State;
  State* state_;  //!< outlives this object until libuv has closed the handle
};

}  // namespace protocol
