//! Building and walking the flat graph; see graph.h.
#include "scheduler/frontend/ordering/graph.h"

#include <algorithm>
#include <string>

namespace scheduler::ordering {
namespace {

using protocol::Error;
using protocol::Fault;

// Offsets are u32, so no graph may have more edges than that; tasks number n + 1 offsets.
constexpr std::size_t kEdgesMax = UINT32_MAX;

protocol::Status check(const GraphView& view) {
  if (view.offsets.empty()) return Error{Fault::bad_type, "graph: offsets must have n + 1 entries"};
  const std::size_t n = view.offsets.size() - 1;
  if (n >= UINT32_MAX || view.dependencies.size() > kEdgesMax)
    return Error{Fault::too_large, "graph: more tasks or dependencies than fit in 32 bits"};
  if (view.offsets.front() != 0 || view.offsets.back() != view.dependencies.size())
    return Error{Fault::bad_type, "graph: offsets must run from 0 to the number of dependencies"};
  if (!std::is_sorted(view.offsets.begin(), view.offsets.end()))
    return Error{Fault::bad_type, "graph: offsets must not fall"};
  if (!view.kinds.empty() && view.kinds.size() != n)
    return Error{Fault::bad_type, "graph: kinds must be empty or have one entry per task"};
  return protocol::Done{};
}

}  // namespace

protocol::Result<Graph> Graph::build(const GraphView& view) {
  if (auto status = check(view); !status) return status.error();
  const auto n = static_cast<Node>(view.offsets.size() - 1);
  Graph graph;
  graph.dependency_offsets_.reserve(n + 1);
  graph.dependencies_.reserve(view.dependencies.size());
  graph.dependency_offsets_.push_back(0);
  for (Node t = 0; t < n; ++t) {
    for (std::uint32_t e = view.offsets[t]; e < view.offsets[t + 1]; ++e) {
      if (view.dependencies[e] < n) graph.dependencies_.push_back(view.dependencies[e]);
    }
    graph.dependency_offsets_.push_back(static_cast<std::uint32_t>(graph.dependencies_.size()));
  }
  graph.kinds_.assign(n, Kind::task);
  for (std::size_t t = 0; t < view.kinds.size(); ++t) {
    if (view.kinds[t] != 0) graph.kinds_[t] = Kind::data;
  }
  graph.mirror();
  return graph;
}

Graph Graph::without(const std::vector<bool>& marked) const {
  Graph graph;
  graph.kinds_ = kinds_;
  graph.dependency_offsets_.reserve(size() + 1);
  graph.dependency_offsets_.push_back(0);
  for (Node t = 0; t < size(); ++t) {
    for (Node d : dependencies(t)) {
      if (!marked[d]) graph.dependencies_.push_back(d);
    }
    graph.dependency_offsets_.push_back(static_cast<std::uint32_t>(graph.dependencies_.size()));
  }
  graph.mirror();
  return graph;
}

void Graph::mirror() {
  dependent_offsets_.assign(kinds_.size() + 1, 0);
  for (Node d : dependencies_) ++dependent_offsets_[d + 1];
  for (std::size_t t = 1; t < dependent_offsets_.size(); ++t)
    dependent_offsets_[t] += dependent_offsets_[t - 1];
  dependents_.resize(dependencies_.size());
  std::vector<std::uint32_t> next(dependent_offsets_.begin(), dependent_offsets_.end() - 1);
  for (Node t = 0; t < size(); ++t) {
    for (Node d : dependencies(t)) dependents_[next[d]++] = t;
  }
}

std::vector<Node> topological(const Graph& graph) {
  std::vector<std::uint32_t> missing(graph.size());
  std::vector<Node> sequence;
  sequence.reserve(graph.size());
  for (Node t = 0; t < graph.size(); ++t) {
    missing[t] = static_cast<std::uint32_t>(graph.dependencies(t).size());
    if (missing[t] == 0) sequence.push_back(t);
  }
  for (std::size_t at = 0; at < sequence.size(); ++at) {
    for (Node t : graph.dependents(sequence[at])) {
      if (--missing[t] == 0) sequence.push_back(t);
    }
  }
  return sequence;
}

std::vector<Node> find_cycle(const Graph& graph) {
  enum : std::uint8_t { untouched, open, closed };
  struct Step {
    Node task;
    std::uint32_t next;  // which of its dependencies to follow
  };
  std::vector<std::uint8_t> state(graph.size(), untouched);
  std::vector<Step> path;
  for (Node start = 0; start < graph.size(); ++start) {
    if (state[start] == untouched) path.push_back({start, 0});
    while (!path.empty()) {
      Step& step = path.back();
      state[step.task] = open;
      const auto dependencies = graph.dependencies(step.task);
      if (step.next == dependencies.size()) {
        state[step.task] = closed;
        path.pop_back();
        continue;
      }
      const Node next = dependencies[step.next++];
      if (state[next] == untouched) path.push_back({next, 0});
      if (state[next] != open) continue;
      std::vector<Node> cycle;
      auto first =
          std::find_if(path.begin(), path.end(), [next](const Step& s) { return s.task == next; });
      for (; first != path.end(); ++first) cycle.push_back(first->task);
      cycle.push_back(next);
      return cycle;
    }
  }
  return {};
}

}  // namespace scheduler::ordering
