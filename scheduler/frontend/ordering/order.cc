//! Preparing the graph, trying strategies, choosing; see order.h.
#include "scheduler/frontend/ordering/order.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "scheduler/frontend/ordering/effort.h"
#include "scheduler/frontend/ordering/leaves.h"
#include "scheduler/frontend/ordering/pressure.h"
#include "scheduler/frontend/ordering/walk.h"

namespace scheduler::ordering {
namespace {

// The width of the paper run that decides: wide enough for tasks to overtake each other.
constexpr std::uint32_t kExecutors = 8;

// Up to this many tasks and edges ties are broken both ways: where equals are many, the numbers of
// the tasks (often in the order of some set of strings) decide over a few results more or less,
// and on a small graph a few are much.
constexpr std::size_t kSmallMax = 100'000;

// Below this many tasks and edges all strategies are cheap.
constexpr std::size_t kTangledMin = 500'000;

//! Roots that are no data of the computation: values that stand in the graph, and parameters (a
//! file, a store) on which more loads hang than the graph has roots. They hide which tasks really
//! load, so the walk does without them; each is placed before its first dependent.
std::vector<bool> find_given(const Graph& graph) {
  std::vector<bool> given(graph.size(), false);
  std::size_t roots = 0;
  for (Node t = 0; t < graph.size(); ++t) roots += graph.dependencies(t).empty();
  for (Node t = 0; t < graph.size(); ++t) {
    if (!graph.dependencies(t).empty() || graph.dependents(t).empty()) continue;
    const auto loads = std::ranges::count_if(
        graph.dependents(t), [&](Node d) { return graph.dependencies(d).size() == 1; });
    given[t] = graph.kind(t) == Kind::data || static_cast<std::size_t>(loads) > roots;
  }
  return given;
}

//! Tries the strategies that can differ on this graph and keeps the sequence that holds least.
class Contest {
 public:
  explicit Contest(const Graph& graph)
      : graph_(graph),
        sequence_(topological(graph)),
        effort_(efforts(graph, sequence_)),
        classes_(classify(graph, sequence_)) {
    operations = 2 * (graph.size() + graph.edges()) + classes_.operations;
  }

  std::vector<Node> run() {
    enter_all(false);
    if (graph_.size() + graph_.edges() <= kSmallMax) enter_all(true);
    return std::move(entries_[winner()]);
  }

  std::uint64_t operations = 0;

 private:
  //! Big, and every root leads to so many leaves that they cannot be told apart. Such a graph takes
  //! long and no strategy helps it much: one will do.
  bool tangled() const {
    return classes_.size() == 0 && graph_.size() + graph_.edges() > kTangledMin;
  }

  void enter_all(bool last_first) {
    for (bool heavy : {false, true}) {
      if (heavy && !leaves_differ()) break;
      Strategy strategy{.heavy_leaf_first = heavy, .rise_max = 0, .last_first = last_first};
      const bool rise_matters = enter(strategy);
      if (tangled()) break;
      strategy.rise_max = -1;
      if (rise_matters) enter(strategy);
    }
  }

  //! True if a smaller rise_max could give another sequence.
  bool enter(Strategy strategy) {
    Walk walk(graph_, effort_, classes_, strategy);
    entries_.push_back(walk.run());
    operations += walk.operations();
    return walk.rise_mattered();
  }

  bool leaves_differ() const {
    double least = std::numeric_limits<double>::max(), most = 0;
    for (Node t = 0; t < graph_.size(); ++t) {
      if (!graph_.dependents(t).empty()) continue;
      least = std::min(least, effort_[t]);
      most = std::max(most, effort_[t]);
    }
    return least < most;
  }

  std::size_t winner() {
    std::size_t best = 0;
    double best_score = std::numeric_limits<double>::max();
    for (std::size_t i = 0; i < entries_.size() && entries_.size() > 1; ++i) {
      // A real run is wide, so its peak counts twice; the narrow one stands for loaded workers.
      const double wide = rehearse(graph_, entries_[i], kExecutors);
      const double narrow = rehearse(graph_, entries_[i], 1);
      operations += 2 * (graph_.size() + graph_.edges());
      if (wide * wide * narrow < best_score) {
        best_score = wide * wide * narrow;
        best = i;
      }
    }
    return best;
  }

  const Graph& graph_;
  const std::vector<Node> sequence_;
  const std::vector<double> effort_;
  const LeafClasses classes_;
  std::vector<std::vector<Node>> entries_;
};

}  // namespace

protocol::Result<Ordering> order(const GraphView& view) {
  auto built = Graph::build(view);
  if (!built) return built.error();
  const Graph& graph = *built;
  Ordering out;
  if (topological(graph).size() < graph.size()) {
    out.cycle = find_cycle(graph);
    return out;
  }
  const std::vector<bool> given = find_given(graph);
  const bool any_given = std::ranges::find(given, true) != given.end();
  const Graph computed = any_given ? graph.without(given) : Graph();
  Contest contest(any_given ? computed : graph);
  const std::vector<Node> sequence = contest.run();
  out.operations = contest.operations;
  out.priorities.assign(graph.size(), -1);
  std::int64_t next = 0;
  for (Node t : sequence) {
    if (given[t]) continue;
    for (Node d : graph.dependencies(t)) {
      if (out.priorities[d] < 0) out.priorities[d] = next++;
    }
    out.priorities[t] = next++;
  }
  return out;
}

}  // namespace scheduler::ordering
