//! order: gives every task of a graph a place in one sequence that keeps few results in memory.
//!
//! The scheduler runs ready tasks by this place, so a good sequence finishes what was started,
//! loads data just before it is needed and lets results go soon. Pure, deterministic, without
//! recursion, near linear in tasks and edges.
//!
//! Answers to: dask.order.order, which is the oracle for quality (bench/ordering.py compares both).
#pragma once

#include <cstdint>
#include <vector>

#include "protocol/base/result.h"
#include "scheduler/frontend/ordering/graph.h"

namespace scheduler::ordering {

struct Ordering {
  //! priorities[t] is the place of task t: a permutation of 0…n-1 in which dependencies come first.
  //! Empty if the graph has a cycle.
  std::vector<std::int64_t> priorities;
  //! A cycle as t0, t1, …, t0 (each needs the next); empty if there is none.
  std::vector<Node> cycle;
  //! Elementary steps taken (visits of tasks and edges), so that tests measure growth without a
  //! clock.
  std::uint64_t operations = 0;
};

//! Fails only on arrays that are no graph (see GraphView).
protocol::Result<Ordering> order(const GraphView& view);

}  // namespace scheduler::ordering
