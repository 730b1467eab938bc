//! Demand and harvest; see walk.h.
#include "scheduler/frontend/ordering/walk.h"

#include <algorithm>
#include <utility>

namespace scheduler::ordering {

Walk::Walk(const Graph& graph, const std::vector<double>& effort, const LeafClasses& classes,
           Strategy strategy)
    : graph_(graph),
      effort_(effort),
      strategy_(strategy),
      progress_(graph),
      bundle_(graph, progress_),
      classes_(classes),
      leaves_(graph, classes, preferred_leaves()) {}

std::vector<Node> Walk::preferred_leaves() const {
  std::vector<Node> leaves;
  for (Node t = 0; t < graph_.size(); ++t) {
    if (graph_.dependents(t).empty()) leaves.push_back(t);
  }
  if (strategy_.last_first) std::reverse(leaves.begin(), leaves.end());
  std::stable_sort(leaves.begin(), leaves.end(), [this](Node a, Node b) {
    return strategy_.heavy_leaf_first ? effort_[a] > effort_[b] : effort_[a] < effort_[b];
  });
  return classes_.size() == 0 ? by_nearness(graph_, leaves) : leaves;
}

std::vector<Node> Walk::run() {
  for (Node leaf; (leaf = leaves_.next(progress_)) != LeafQueue::kNone;) {
    demand(leaf);
    harvest();
  }
  return progress_.sequence();
}

std::uint64_t Walk::operations() const {
  return operations_ + bundle_.operations() + leaves_.operations();
}

void Walk::demand(Node leaf) {
  demand_.push_back(leaf);
  while (!demand_.empty()) {
    const Node t = demand_.back();
    if (!progress_[t].placed && progress_[t].ready()) {
      // A root brings new data: first let go what can be let go.
      if (graph_.dependencies(t).empty()) harvest();
      if (!progress_[t].placed) place(t);
    }
    if (progress_[t].placed) {
      demand_.pop_back();
      continue;
    }
    const auto first = static_cast<std::ptrdiff_t>(demand_.size());
    for (Node d : graph_.dependencies(t)) {
      if (!progress_[d].placed) demand_.push_back(d);
    }
    operations_ += graph_.dependencies(t).size();
    // The last one is taken first: the heaviest, and among equals the graph's first (or last).
    std::sort(demand_.begin() + first, demand_.end(), [this](Node a, Node b) {
      if (effort_[a] != effort_[b]) return effort_[a] < effort_[b];
      return strategy_.last_first ? a < b : a > b;
    });
  }
}

void Walk::harvest() {
  while (!news_.empty() || !too_narrow_.empty()) {
    const bool wide = news_.empty();
    auto& from = wide ? too_narrow_ : news_;
    const Node t = from.back();
    from.pop_back();
    if (progress_[t].placed) continue;
    if (bundle_.pays(t, strategy_.rise_max, wide)) {
      run_bundle();
    } else if (!wide) {
      too_narrow_.push_back(t);
    }
  }
}

//! Joins and leaves first, each with what it lacks, so that pieces exist only while they are
//! needed.
void Walk::run_bundle() {
  plan_.assign(bundle_.tasks().begin(), bundle_.tasks().end());
  for (Node t : plan_) {
    if (graph_.dependencies(t).size() > 1 || graph_.dependents(t).empty()) run_lacking(t);
  }
  for (Node t : plan_) run_lacking(t);
}

void Walk::run_lacking(Node target) {
  lacking_.push_back(target);
  while (!lacking_.empty()) {
    const Node t = lacking_.back();
    if (!progress_[t].placed && progress_[t].ready()) place(t);
    if (progress_[t].placed) {
      lacking_.pop_back();
      continue;
    }
    for (Node d : graph_.dependencies(t)) {
      if (!progress_[d].placed) lacking_.push_back(d);
    }
    operations_ += graph_.dependencies(t).size();
  }
}

//! Places a ready task and, while a result has a single dependent that is ready, that one too: the
//! result is replaced by the next and nothing else is held.
void Walk::place(Node first) {
  chain_.push_back(first);
  while (!chain_.empty()) {
    const Node t = chain_.back();
    chain_.pop_back();
    if (progress_[t].placed) continue;
    progress_.place(t, news_);
    if (graph_.dependencies(t).empty()) leaves_.loaded(t);
    const auto dependents = graph_.dependents(t);
    if (dependents.size() == 1 && progress_[dependents[0]].ready()) chain_.push_back(dependents[0]);
    operations_ += 1 + dependents.size() + graph_.dependencies(t).size();
  }
}

}  // namespace scheduler::ordering
