//! Stealing: moves work from busy workers to idle ones.
//!
//! A theft is a conversation of two messages, and the world may change in between. Each request
//! therefore carries an id, and an answer with any other id is ignored. Victims and thieves are
//! named by WorkerId, an incarnation, never by address.
//!
//! Processing tasks lie in levels by the ratio of moving to computing them; cheap ones go first.
//!
//! Answers to: distributed/stealing.py, WorkStealing.
#pragma once

#include "scheduler/core/state.h"

namespace scheduler {

void make_stealable(State& state, TaskId id);
void make_unstealable(State& state, TaskId id);
//! Whatever comes of the request for this task is of no interest any more.
void forget_theft(State& state, TaskId id);
//! A task of the prefix was measured: levels that were guesses can be set right.
void durations_known(State& state, TaskPrefix& prefix);

//! Asks victims for tasks that idle workers would finish sooner.
void balance(State& state);
void on_steal_answered(State& state, const StealAnswered& answer);

}  // namespace scheduler
