//! Graphs on their way in: staged in slices, committed in one step, activated in slices.
//!
//! A million tasks must not stop the loop, and half a graph must never run. So records are stored
//! as they come, as `staged` tasks that nobody sees. The commit is one cheap step: are all inputs
//! known, who wants what. Then the tasks begin to run a few thousand per turn, the most urgent
//! first. Two graphs may stage the same key; whoever commits first defines it.
//!
//! A staged task counts as a waiter of its inputs, so those stay in memory. Tasks of others that
//! the graph mentions are pinned: they keep their id and stay as needed as if a client wanted them,
//! until the graph is active or dropped.
//!
//! Graphs that cannot fail as a whole (`append`) are committed from the start; each slice of
//! records takes effect at once.
//!
//! Answers to: distributed/scheduler.py, update_graph and what it calls.
#pragma once

#include "scheduler/core/state.h"

namespace scheduler {

void on_graph_opened(State& state, const GraphOpened& opened);
void on_graph_keys(State& state, const GraphKeys& keys);
void on_graph_barriers(State& state, const GraphBarriers& barriers);
void on_graph_records(State& state, const GraphRecords& records);
void on_graph_wants(State& state, const GraphWants& wants);
void on_graph_committed(State& state, const GraphCommitted& committed);
void on_graph_dropped(State& state, const GraphDropped& dropped);

void drop_submissions_of(State& state, ClientId client);

//! Does up to `budget` units of staged work; true while there is more.
bool continue_submissions(State& state, std::uint32_t& budget);

//! Takes a staged task away from the graph that staged it, which keeps its record and pins the
//! task. What remains is a bare key.
void disown(State& state, TaskId id);

}  // namespace scheduler
