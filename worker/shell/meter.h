//! Where the seconds of tasks go: on the CPU, or elsewhere; summed by span and family of keys.
//!
//! A thread's CPU clock is a system call that takes as long as a small task. So it is read once in
//! a millisecond at most: a task too short to be seen by it is taken for CPU, and the next reading
//! sets that right.
//!
//! Answers to: distributed/metrics.py, context_meter, as _run_task and _finalize_metrics use it.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/shell/border.h"

namespace worker {

class Meter {
 public:
  //! A call of the calling thread ended well (or not). Calls of other threads and processes count
  //! as time off the CPU.
  void finished(const Job& job, const Call& call) { add(job, call, false); }
  void failed(const Job& job, const Call& call) { add(job, call, true); }
  //! The calling thread spent CPU that is not the next call's.
  static void skip();
  //! User code within the present call measured these seconds itself: they are told apart.
  static void told(double seconds);
  //! The sums since the last time.
  std::vector<Spent> take();

 private:
  struct Sums {
    double cpu = 0;
    double noncpu = 0;
    double failed = 0;
  };
  using BySpan = absl::flat_hash_map<std::string, absl::flat_hash_map<std::string, Sums>>;

  void add(const Job& job, const Call& call, bool failed);

  std::mutex turn_;
  BySpan sums_;
};

}  // namespace worker
