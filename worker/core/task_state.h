//! The states of a task on a worker, with Dask's names.
//!
//! `cancelled` and `resumed` only say what the scheduler wants by now; what really goes on outside
//! (a thread, a transfer) is Task::activity and cannot be stopped. A resumed task that runs will
//! be fetched if it fails; a resumed task in flight will be computed if the transfer fails.
//!
//! Answers to: distributed/worker_state_machine.py, TaskStateState.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace worker {

enum class TaskState : std::uint8_t {
  released,
  waiting,       //!< for dependencies
  ready,         //!< for a thread
  constrained,   //!< for a thread and resources
  executing,
  long_running,  //!< executing, has left its thread's slot (secede)
  fetch,         //!< wanted, some peer holds it
  flight,        //!< being transferred
  missing,       //!< wanted, nobody is known to hold it
  memory,
  error,
  cancelled,     //!< running or in flight, no longer wanted
  resumed,       //!< was cancelled, now wanted the other way
  rescheduled,   //!< never a state, only where a running task may be told to go
  forgotten,
};

inline constexpr std::size_t kTaskStates = 15;

//! Dask's spelling, e.g. "long-running".
std::string_view task_state_name(TaskState state);

//! What really goes on outside the core for a task.
enum class Activity : std::uint8_t { none, executing, long_running, flight };

}  // namespace worker
