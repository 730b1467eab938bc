//! The loop, its turn hooks and timers; see loop.h.
#include "protocol/net/loop.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "protocol/base/check.h"

namespace protocol {

Loop::Loop() : nap_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  CHECK_ALWAYS(nap_fd_ >= 0);
  CHECK_ALWAYS(uv_loop_init(&loop_) == 0);
  loop_.data = this;
  uv_prepare_init(&loop_, &prepare_);
  uv_check_init(&loop_, &check_);
  uv_idle_init(&loop_, &spin_);
  uv_async_init(&loop_, &wake_,
                [](uv_async_t* handle) { static_cast<Loop*>(handle->loop->data)->run_posted(); });
  // Timers and deferred work run before the loop sleeps, reads run after: flush at both places.
  uv_prepare_start(
      &prepare_, [](uv_prepare_t* handle) { static_cast<Loop*>(handle->loop->data)->end_turn(); });
  uv_check_start(&check_,
                 [](uv_check_t* handle) { static_cast<Loop*>(handle->loop->data)->end_turn(); });
}

Loop::~Loop() {
  // Owners close their handles before the loop dies; what is open now are our own.
  uv_walk(
      &loop_,
      [](uv_handle_t* handle, void*) {
        if (!uv_is_closing(handle)) uv_close(handle, nullptr);
      },
      nullptr);
  uv_run(&loop_, UV_RUN_DEFAULT);
  uv_loop_close(&loop_);
  ::close(nap_fd_);
}

void Loop::run() { uv_run(&loop_, UV_RUN_DEFAULT); }

// ---- a turn that other threads may borrow
// --------------------------------------------------------

//! libuv tells the kernel of new watchers only when it polls; nobody may sleep before that. It has
//! no call to ask, but this list is in its header, a ring that is empty when it points to itself.
bool Loop::has_new_watchers() const {
  const auto* ring = reinterpret_cast<const void* const*>(&loop_.watcher_queue);
  return ring[0] != ring;
}

void Loop::run(std::mutex& turn) {
  std::unique_lock lock(turn);
  while (!stopped_) {
    uv_run(&loop_, UV_RUN_NOWAIT);
    if (!stopped_ && !has_new_watchers()) sleep(lock);
  }
}

void Loop::sleep(std::unique_lock<std::mutex>& turn) {
  uv_update_time(&loop_);
  const int timeout = uv_backend_timeout(&loop_);
  sleep_until_ms_ = timeout < 0 ? std::numeric_limits<std::uint64_t>::max()
                                : uv_now(&loop_) + static_cast<std::uint64_t>(timeout);
  pollfd awaited[] = {{uv_backend_fd(&loop_), POLLIN, 0}, {nap_fd_, POLLIN, 0}};
  // Where output was left a moment ago there is more to come: who leaves it need not wake anybody.
  napping_ = std::exchange(left_output_, false);
  const bool napped = napping_;
  turn.unlock();
  if (!napped) ::poll(awaited, 2, timeout);
  if (napped || (awaited[1].revents != 0 && awaited[0].revents == 0)) {
    ::poll(awaited, 1, timeout < 0 ? kNapMs : std::min(timeout, kNapMs));
  }
  turn.lock();
  if (!napped && (napping_ || awaited[1].revents != 0)) {
    eventfd_t naps;
    ::eventfd_read(nap_fd_, &naps);
  }
  napping_ = false;
  sleep_until_ms_ = 0;
}

void Loop::end_borrowed_turn(bool urgent) {
  urgent = urgent || uv_hrtime() - flushed_ns_ >= kQuietMs * 1'000'000;
  if (urgent) end_turn();
  measure();
  if (!urgent && !unflushed_.empty()) {
    left_output_ = true;
    if (!std::exchange(napping_, true)) ::eventfd_write(nap_fd_, 1);
  }
  uv_update_time(&loop_);
  const int timeout = uv_backend_timeout(&loop_);
  const bool earlier =
      timeout >= 0 && uv_now(&loop_) + static_cast<std::uint64_t>(timeout) < sleep_until_ms_;
  if (earlier || has_new_watchers()) uv_async_send(&wake_);
}

void Loop::defer(Callback work) {
  if (deferred_.empty()) {
    uv_idle_start(
        &spin_, [](uv_idle_t* handle) { static_cast<Loop*>(handle->loop->data)->run_deferred(); });
  }
  deferred_.push_back(std::move(work));
}

void Loop::run_deferred() {
  begin_work();
  std::vector<Callback> batch;
  batch.swap(deferred_);
  uv_idle_stop(&spin_);
  for (auto& work : batch) work();
}

void Loop::post(Callback work) {
  {
    const std::lock_guard lock(posted_mutex_);
    posted_.push_back(std::move(work));
  }
  uv_async_send(&wake_);
}

void Loop::run_posted() {
  begin_work();
  std::vector<Callback> batch;
  {
    const std::lock_guard lock(posted_mutex_);
    batch.swap(posted_);
  }
  for (auto& work : batch) work();
}

void Loop::offload(Callback work, Callback done) {
  struct Job {
    uv_work_t request;
    Callback work;
    Callback done;
  };
  auto* job = new Job{{}, std::move(work), std::move(done)};
  job->request.data = job;
  pool_work_begins();
  uv_queue_work(
      &loop_, &job->request, [](uv_work_t* request) { static_cast<Job*>(request->data)->work(); },
      [](uv_work_t* request, int) {
        const std::unique_ptr<Job> owned(static_cast<Job*>(request->data));
        static_cast<Loop*>(request->loop->data)->pool_work_ends();
        owned->done();
      });
}

void Loop::finish_pool_work() {
  while (pool_work_ > 0) uv_run(&loop_, UV_RUN_ONCE);
}

void Loop::end_turn() {
  for (auto& hook : turn_end_) hook();
  if (!unflushed_.empty()) flushed_ns_ = uv_hrtime();
  while (!unflushed_.empty()) {
    std::vector<std::shared_ptr<Flushable>> batch;
    batch.swap(unflushed_);
    for (auto& out : batch) out->flush();
  }
  measure();
}

void Loop::measure() {
  if (work_start_ns_ == 0) return;
  const TurnLength length{turn_elapsed(),
                          on_long_turn_ ? thread_cpu() - work_start_cpu_ : Duration{}, most_};
  work_start_ns_ = 0;
  most_.wall = Duration{};
  ++stats_.turns;
  if (length.wall > stats_.longest.wall) stats_.longest = length;
  if (length.cpu > stats_.longest_cpu) stats_.longest_cpu = length.cpu;
  if (length.wall > Duration::ms(50)) {
    ++stats_.over_50_ms;
    if (on_long_turn_) on_long_turn_(length);
  }
}

Loop::Piece Loop::piece(std::string_view name, Duration wall) {
  Piece piece{{}, wall};
  name.copy(piece.name.data(), piece.name.size());
  return piece;
}

Duration Loop::thread_cpu() {
  timespec used;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return {static_cast<std::int64_t>(used.tv_sec) * 1'000'000'000 + used.tv_nsec};
}

Now Loop::now() const {
  timeval wall;
  gettimeofday(&wall, nullptr);
  return {{static_cast<std::int64_t>(uv_hrtime())},
          static_cast<double>(wall.tv_sec) + static_cast<double>(wall.tv_usec) * 1e-6};
}

struct Timer::State {
  uv_timer_t handle;
  Callback fire;
};

Timer::Timer(Loop& loop) : state_(new State) {
  uv_timer_init(loop.uv(), &state_->handle);
  state_->handle.data = state_;
}

Timer::~Timer() {
  state_->fire = nullptr;
  uv_close(reinterpret_cast<uv_handle_t*>(&state_->handle),
           [](uv_handle_t* handle) { delete static_cast<State*>(handle->data); });
}

void Timer::start(std::uint64_t delay_ms, std::uint64_t repeat_ms, Callback fire) {
  state_->fire = std::move(fire);
  // libuv counts from the start of the turn; a long turn must not shorten the delay.
  uv_update_time(state_->handle.loop);
  uv_timer_start(
      &state_->handle,
      [](uv_timer_t* handle) {
        static_cast<Loop*>(handle->loop->data)->begin_work();
        // The callback may restart or destroy this timer: run a copy.
        const Callback run = static_cast<State*>(handle->data)->fire;
        if (run) run();
      },
      delay_ms, repeat_ms);
}

void Timer::stop() {
  uv_timer_stop(&state_->handle);
  state_->fire = nullptr;
}

bool Timer::active() const {
  return uv_is_active(reinterpret_cast<const uv_handle_t*>(&state_->handle)) != 0;
}

}  // namespace protocol
