//! The work of a submission after its commit, or after its end, in slices.
//!
//! culling: tasks that no wanted key needs are taken out (stock never makes them);
//! activating: the others begin, in order of priority; unpinning: tasks of others are let go;
//! dropping: what was staged is forgotten.
#pragma once

#include "scheduler/core/state.h"

namespace scheduler {

inline constexpr std::uint32_t kSliceBudget = 4096;  //!< tasks handled in one step

//! Does up to `budget` units for this submission; true when it is done and may be erased.
bool continue_submission(State& state, Submission& graph, std::uint32_t& budget);

//! The submission waits for a turn, not for its next slice.
bool has_work(const Submission& graph);

//! Begins to forget everything the submission staged, and its client's wants of it.
void drop(Submission& graph);

//! The client is told that these keys of the graph will not come.
void report_lost(State& state, const Submission& graph, std::span<const TaskId> tasks);

//! Makes a staged task a bare key again: no spec, no inputs. It may end here if nobody refers to it.
void strip(State& state, TaskId id);

//! A bare key that nothing refers to leaves the table. False if it must stay.
bool end_bare_key(State& state, TaskId id);

}  // namespace scheduler
