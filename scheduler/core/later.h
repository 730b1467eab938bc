//! What a step leaves to later turns because it has done enough.
//!
//! One message may concern a million tasks: the end of a task they all need, the release of the key
//! they all lead to, the loss of a worker that held much. A step takes the consequences up to
//! Config::transitions_at_once; after that it only notes tasks that lose nothing by waiting: one
//! that nobody needs stays a little longer, one that may run or is to err or run again does so a
//! little later. A note is no order: what to do is found anew when its turn comes, because others
//! may have acted meanwhile.
//!
//! A worker that is lost with much on it fades first (WorkerFading): step by step its tasks are put
//! off and its results are struck out, and nothing that is put off is taken up before it is lost.
#pragma once

#include <span>

#include "scheduler/core/state.h"

namespace scheduler {

//! Notes the task instead of the transition; false if that must not wait.
bool put_off(State& state, TaskId id, TaskState target);
//! Dependents that are told something in this step; the others are put off.
std::span<const Edge> told_now(State& state, const Task& task);
//! The task has ended, with an error if it has one: its dependents may run, or err.
void tell_dependents(State& state, TaskId id);
//! Takes up what was put off, as much as one step may do.
void take_up_again(State& state);
//! Something is put off, and all that is to be known about it is.
bool can_take_up(const State& state);

inline bool enough_done(const State& state) {
  return state.hops >= state.config.transitions_at_once;
}

}  // namespace scheduler
