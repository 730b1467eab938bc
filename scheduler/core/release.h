//! Ways down: releasing what nobody needs, and forgetting it.
//!
//! A task is needed while a dependent waits for it, a client wants it, or an open submission has
//! pinned it. What is not needed loses its result; what has no dependents either is forgotten.
//! Tasks whose inputs were forgotten cannot be computed again and follow them.
#pragma once

#include "scheduler/core/state.h"

namespace scheduler {

void waiting_released(State& state, TaskId id);
void ready_released(State& state, TaskId id);   //!< from processing, queued or no-worker
void memory_released(State& state, TaskId id);
//! released or memory -> forgotten. A pinned task becomes a staged one without a run spec instead:
//! the submission that refers to it will find it lost.
void forget(State& state, TaskId id);
//! The task no longer needs its inputs.
void let_go_of_inputs(State& state, Task& task);
//! Cuts the task off from those that depend on it; they cannot be computed any more.
//! Tasks of open submissions stay attached: their commit will see what happened.
void abandon_dependents(State& state, Task& task);
//! Tells all holders to drop the result.
void free_replicas(State& state, TaskId id);

}  // namespace scheduler
