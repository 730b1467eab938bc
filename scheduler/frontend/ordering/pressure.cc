//! The paper run; see pressure.h.
#include "scheduler/frontend/ordering/pressure.h"

#include <algorithm>
#include <bit>
#include <vector>

namespace scheduler::ordering {
namespace {

//! A set of numbers below n that gives its least element, as a tree of 64-bit words.
class LeastFirst {
 public:
  explicit LeastFirst(std::size_t n) {
    do {
      n = std::max<std::size_t>(1, (n + 63) / 64);
      levels_.emplace_back(n, 0);
    } while (n > 1);
  }
  void add(std::uint32_t value) {
    for (auto& level : levels_) {
      const std::uint64_t bit = std::uint64_t{1} << (value % 64);
      value /= 64;
      level[value] |= bit;
    }
  }
  bool empty() const { return levels_.back()[0] == 0; }
  std::uint32_t take() {
    std::size_t value = 0;
    for (auto level = levels_.rbegin(); level != levels_.rend(); ++level)
      value = value * 64 + static_cast<std::size_t>(std::countr_zero((*level)[value]));
    const auto least = static_cast<std::uint32_t>(value);
    for (auto& level : levels_) {
      const std::uint64_t bit = std::uint64_t{1} << (value % 64);
      value /= 64;
      level[value] &= ~bit;
      if (level[value] != 0) break;
    }
    return least;
  }

 private:
  std::vector<std::vector<std::uint64_t>> levels_;
};

}  // namespace

std::uint32_t rehearse(const Graph& graph, std::span<const Node> sequence,
                       std::uint32_t executors) {
  struct TaskState {
    std::uint32_t place, missing, users;
  };
  std::vector<TaskState> tasks(graph.size());
  LeastFirst ready(graph.size());
  for (std::uint32_t i = 0; i < sequence.size(); ++i) {
    const Node t = sequence[i];
    tasks[t] = {i, static_cast<std::uint32_t>(graph.dependencies(t).size()),
                static_cast<std::uint32_t>(graph.dependents(t).size())};
    if (tasks[t].missing == 0) ready.add(i);
  }
  std::uint32_t held = 0, peak = 0;
  std::vector<Node> running;
  while (!ready.empty()) {
    running.clear();
    while (running.size() < executors && !ready.empty()) running.push_back(sequence[ready.take()]);
    for (Node t : running) held += tasks[t].users != 0;
    peak = std::max(peak, held);  // new results exist beside their inputs
    for (Node t : running) {
      for (Node d : graph.dependencies(t)) held -= --tasks[d].users == 0;
      for (Node d : graph.dependents(t)) {
        if (--tasks[d].missing == 0) ready.add(tasks[d].place);
      }
    }
  }
  return peak;
}

}  // namespace scheduler::ordering
