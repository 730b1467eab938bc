//! How much work hangs below each task: the weight by which inputs and leaves are compared.
//!
//! Doing the heaviest input first holds the fewest results on trees (Sethi and Ullman's rule): the
//! peak of the heavy one is then not stacked upon results of the light ones. Work that two inputs
//! share is counted for both, which is what makes it computable in one pass; sums stop growing at
//! kEffortMax.
//!
//! Answers to: ndependencies and sort_key in dask.order.
#pragma once

#include <span>
#include <vector>

#include "scheduler/frontend/ordering/graph.h"

namespace scheduler::ordering {

constexpr double kEffortMax = 1e300;

//! By task; `sequence` is any topological order.
std::vector<double> efforts(const Graph& graph, std::span<const Node> sequence);

}  // namespace scheduler::ordering
