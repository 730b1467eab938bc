//! Counting down edges; see progress.h.
#include "scheduler/frontend/ordering/progress.h"

namespace scheduler::ordering {

Progress::Progress(const Graph& graph) : graph_(graph) {
  tasks_.reserve(graph.size());
  for (Node t = 0; t < graph.size(); ++t) {
    const auto missing = static_cast<std::uint32_t>(graph.dependencies(t).size());
    const auto users = static_cast<std::uint32_t>(graph.dependents(t).size());
    tasks_.push_back({missing, users, missing, 0, UINT32_MAX, false, false});
  }
  sequence_.reserve(graph.size());
}

void Progress::place(Node t, std::vector<Node>& news) {
  tasks_[t].placed = true;
  sequence_.push_back(t);
  for (Node d : graph_.dependents(t)) --tasks_[d].missing;
  for (Node d : graph_.dependencies(t)) {
    if (--tasks_[d].users != 1) continue;
    for (Node last : graph_.dependents(d)) {
      if (!tasks_[last].placed && tasks_[last].within_reach()) news.push_back(last);
    }
  }
  if (!tasks_[t].within_reach()) reach(t, news);
}

void Progress::reach(Node t, std::vector<Node>& news) {
  stack_.push_back(t);
  while (!stack_.empty()) {
    const Node at = stack_.back();
    stack_.pop_back();
    tasks_[at].out_of_reach = TaskState::kWithin;
    for (Node d : graph_.dependents(at)) {
      if (--tasks_[d].out_of_reach != 0) continue;
      stack_.push_back(d);
      if (graph_.dependents(d).empty() || graph_.dependencies(d).size() > 1) news.push_back(d);
    }
  }
}

}  // namespace scheduler::ordering
