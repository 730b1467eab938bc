#include "worker/shell/meter.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>

namespace worker {

namespace {

constexpr double kResolution = 0.001;  // seconds between two readings

//! The last reading of this thread's clock, and what calls since were taken to have used.
struct Reading {
  double wall = 0;
  double cpu = 0;
  double assumed = 0;
  double told = 0;
};
thread_local Reading last;

double seconds_of(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

//! CPU seconds of a call that just ended on this thread. Less than 0 if calls before it had less
//! than was assumed.
double cpu_of(const Call& call, double seconds) {
  if (call.stop - last.wall < kResolution) {
    last.assumed += seconds;
    return seconds;
  }
  const Reading now{call.stop, seconds_of(CLOCK_THREAD_CPUTIME_ID), 0, 0};
  const double used = now.cpu - last.cpu - last.assumed;
  last = now;
  return std::min(used, seconds);
}

}  // namespace

void Meter::skip() {
  last = {seconds_of(CLOCK_REALTIME), seconds_of(CLOCK_THREAD_CPUTIME_ID), 0, 0};
}

void Meter::told(double seconds) { last.told += seconds; }

void Meter::add(const Job& job, const Call& call, bool failed) {
  const double seconds = std::max(0.0, call.stop - call.start - std::exchange(last.told, 0));
  const bool here = call.thread == static_cast<std::uint64_t>(::pthread_self());
  const double cpu = here ? cpu_of(call, seconds) : 0;
  const std::string family = protocol::prefix_name(job.key);
  const std::scoped_lock lock(turn_);
  Sums& sums = sums_[job.span][family];
  if (failed) {
    sums.failed += seconds;
  } else {
    sums.cpu += cpu;
    sums.noncpu += seconds - cpu;
  }
}

std::vector<Spent> Meter::take() {
  BySpan sums;
  {
    const std::scoped_lock lock(turn_);
    sums.swap(sums_);
  }
  std::vector<Spent> out;
  for (const auto& [span, families] : sums) {
    for (const auto& [family, sum] : families) {
      const auto tell = [&](std::string_view what, double seconds) {
        if (seconds > 0) out.push_back({span, family, what, seconds});
      };
      tell("thread-cpu", sum.cpu);
      tell("thread-noncpu", sum.noncpu);
      tell("failed", sum.failed);
    }
  }
  return out;
}

}  // namespace worker
