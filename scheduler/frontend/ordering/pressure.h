//! A run on paper: how many results a sequence holds at most.
//!
//! Greedy list scheduling with unit times, as in bench/ordering_sim.py: each executor takes the
//! ready task that comes first in the sequence; a result is held until its last dependent has
//! ended. Results that nobody needs (leaves) are not counted.
#pragma once

#include <cstdint>
#include <span>

#include "scheduler/frontend/ordering/graph.h"

namespace scheduler::ordering {

//! Most results held at one time; `sequence` holds every task once, dependencies first. Near
//! linear.
std::uint32_t rehearse(const Graph& graph, std::span<const Node> sequence, std::uint32_t executors);

}  // namespace scheduler::ordering
