//! Giving a task to a worker, and taking it out of the three states it may be ready in.
#pragma once

#include "scheduler/core/state.h"

namespace scheduler {

//! The task starts processing on the worker under a fresh run id, or errs if its inputs cannot fit.
void assign(State& state, TaskId id, Worker& worker);
//! The half of it that the worker does not see: the task counts as processing there, or errs (false).
bool take_up(State& state, TaskId id, Worker& worker);
//! The half that it sees: at the end of the step it is told to compute the task, under a fresh run id.
void hand_over(State& state, TaskId id, const Worker& worker);
//! A stolen task goes on under a fresh run id.
void reassign(State& state, TaskId id, Worker& thief);

//! Each takes the task out of one table; its state is for the caller to set.
//! True if the worker lives and has heard of the task.
bool leave_processing(State& state, TaskId id);
void leave_queue(State& state, TaskId id);
void leave_unrunnable(State& state, TaskId id);

}  // namespace scheduler
