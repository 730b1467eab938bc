//! P2P shuffle runs as far as the scheduler has a part in them.
//!
//! A run begins when the first transfer task asks for it and ends when its barrier is released, errs
//! or is forgotten, or a participant is lost; then its workers are told and output tasks lose the pins
//! they got. A loss also sends the transfers, the barrier and all outputs back to the start: shards
//! that lay on the lost worker exist nowhere else.
//!
//! Invariant: an active run has its barrier task, and all its participants are alive.
//!
//! Answers to: distributed/shuffle/_scheduler_plugin.py, ShuffleSchedulerPlugin.
#pragma once

#include <string_view>

#include "scheduler/core/state.h"

namespace scheduler {

//! Why a run cannot begin.
enum class ShuffleRefusal : std::uint8_t {
  none,
  no_barrier,      //!< its barrier task is not known
  no_spec,         //!< the barrier says nothing that we understand
  no_transfer,     //!< the task that asks is not known
  not_processing,  //!< the task that asks is not meant to run
};

Key barrier_key(std::string_view shuffle);
//! The active run of a shuffle; null: there is none.
const ShuffleRun* find_run(const State& state, std::string_view shuffle);
ShuffleRefusal may_start(const State& state, std::string_view shuffle, KeyView transfer);

void on_shuffle_started(State& state, const ShuffleStarted& started);
void on_shuffle_joined(State& state, const ShuffleJoined& joined);
void on_shuffle_restarted(State& state, const ShuffleRestarted& restarted);
void on_shuffle_task_pinned(State& state, const ShuffleTaskPinned& pinned);

//! Ends the runs whose barriers left their course in this step.
void end_shuffles(State& state);
//! Ends and restarts the runs that the worker took part in.
void shuffle_worker_lost(State& state, const Worker& worker);
//! A task erred by its own fault: says so if it belongs to a run.
void note_shuffle_failure(State& state, const Task& task);
void shuffles_clear(State& state);

}  // namespace scheduler
