//! The scheduler's brain. Feed it one event and the time; it appends what the outside world must do.
//!
//! It never blocks, never reads a clock, never fails: a bad event is answered with an action (for
//! example SendFree), not with an error. Same events, same actions, always. The read side below
//! is for the shell (encoding actions, answering RPCs) and for tests.
//!
//! Answers to: distributed/scheduler.py, SchedulerState and Scheduler.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/time.h"
#include "scheduler/core/actions.h"
#include "scheduler/core/events.h"
#include "scheduler/core/task.h"
#include "scheduler/core/worker.h"

namespace scheduler {

using protocol::Duration;
using protocol::Now;

//! Dask's configuration as far as the core uses it; defaults are stock's.
struct Config {
  double worker_saturation = 1.1;          //!< infinity: no queueing on the scheduler
  std::uint32_t allowed_failures = 3;
  double bandwidth = 100e6;                //!< bytes/s until heartbeats say better
  std::uint64_t default_data_size = 1024;  //!< nbytes of a result nobody measured
  double unknown_task_duration = 0.5;      //!< seconds
  std::vector<std::pair<std::string, double>> default_task_durations;  //!< prefix -> seconds
  std::uint32_t rootish_taskgroup = 5;
  std::uint32_t rootish_taskgroup_dependencies = 5;
  bool work_stealing = true;
  Duration work_stealing_interval = Duration::ms(1000);
  bool active_memory_manager = true;
  Duration active_memory_manager_interval = Duration::ms(2000);
  bool memory_terminate = true;            //!< refuse tasks whose inputs exceed every worker's memory
  std::uint64_t seed = 1;
};

struct State;  //!< tables and ledgers; scheduler/core/state.h

class Core {
 public:
  explicit Core(Config config);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  //! `stimulus` names the cause for stories (Dask's stimulus_id).
  void step(const Event& event, std::string_view stimulus, Now now, Actions& out);

  // ---- read side ------------------------------------------------------------------------------
  std::optional<TaskId> find(KeyView key) const;
  const Task& task(TaskId id) const;
  const Worker& worker(WorkerId id) const;
  bool has_worker(WorkerId id) const;
  std::optional<WorkerId> find_worker(std::string_view address) const;
  const std::vector<WorkerId>& workers() const;  //!< living ones, in order of arrival
  const State& state() const;

  //! Every broken invariant as a sentence; empty is well. O(everything): tests and debugging only.
  std::vector<std::string> validate() const;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace scheduler
