//! One pass upwards; see effort.h.
#include "scheduler/frontend/ordering/effort.h"

#include <algorithm>

namespace scheduler::ordering {

std::vector<double> efforts(const Graph& graph, std::span<const Node> sequence) {
  std::vector<double> effort(graph.size(), 1);
  for (Node t : sequence) {
    for (Node d : graph.dependencies(t)) effort[t] = std::min(kEffortMax, effort[t] + effort[d]);
  }
  return effort;
}

}  // namespace scheduler::ordering
