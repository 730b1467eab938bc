//! The sequence: see order.h.
#include "scheduler/frontend/ordering/order.h"

namespace scheduler::ordering {

protocol::Result<Ordering> order(const GraphView& view) {
  auto built = Graph::build(view);
  if (!built) return built.error();
  const Graph& graph = *built;
  const std::vector<Node> sequence = topological(graph);
  Ordering out;
  out.operations = graph.size() + graph.edges();
  if (sequence.size() < graph.size()) {
    out.cycle = find_cycle(graph);
    return out;
  }
  out.priorities.resize(graph.size());
  for (std::size_t i = 0; i < sequence.size(); ++i)
    out.priorities[sequence[i]] = static_cast<std::int64_t>(i);
  return out;
}

}  // namespace scheduler::ordering
