//! How tasks move between states.
//!
//! A transition does its bookkeeping and recommends further ones; those are taken last in, first
//! out until none is left, a later recommendation for the same task replacing an earlier one but
//! keeping its turn. A pair of states without a transition of its own goes through `released`,
//! and if that first hop recommends something else for the task, that wins. This order is stock's
//! and decides who runs where, so it is kept exactly.
//!
//! Answers to: distributed/scheduler.py, SchedulerState._transition* .
#pragma once

#include "scheduler/core/state.h"

namespace scheduler {

void recommend(State& state, TaskId id, TaskState target);
//! Marks the task as failed because of `error`, ahead of its transition to erred.
void blame(State& state, TaskId id, const TaskErrorRef& error);
//! Takes recommendations until none is left; what can wait is put off when there are too many.
void run_transitions(State& state);
//! One transition now, its consequences still recommended only.
void transition(State& state, TaskId id, TaskState target);

//! Gives queued tasks to workers as long as one has a free slot, and some ahead of that.
void fill_slots(State& state);

//! processing -> memory on the worker that was asked.
void to_memory(State& state, TaskId id, const TaskFinished& done);
//! The task's result is on these workers whatever it was doing (scattered data).
void appear_in_memory(State& state, TaskId id, const std::vector<WorkerId>& holders);
//! processing, queued or no-worker -> erred.
void to_erred(State& state, TaskId id, TaskErrorRef error, WorkerId where);

//! Takes the error off the task; tasks that erred because of it are to try again.
void erred_released(State& state, TaskId id);

//! A client no longer wants the task.
void release_want(State& state, ClientId client, TaskId id);
//! The task lost a pin or a staged dependent: let go of it if nobody else needs it.
void reconsider(State& state, TaskId id);

//! True if the task would start on a recommendation to wait: released, or committed and not begun.
bool dormant(const State& state, const Task& task);

//! Tells every client that wants the task its state (memory or erred).
void report(State& state, TaskId id);
void report_to(State& state, ClientId client, TaskId id);

}  // namespace scheduler
