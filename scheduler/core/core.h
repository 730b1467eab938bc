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
#include "scheduler/core/config.h"
#include "scheduler/core/events.h"
#include "scheduler/core/group.h"
#include "scheduler/core/task.h"
#include "scheduler/core/worker.h"

namespace scheduler {


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
