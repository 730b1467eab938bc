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
//! Tells all holders to drop the result.
void free_replicas(State& state, TaskId id);

}  // namespace scheduler
