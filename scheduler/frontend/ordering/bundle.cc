//! Growing and weighing bundles; see bundle.h.
#include "scheduler/frontend/ordering/bundle.h"

#include <algorithm>
#include <utility>

namespace scheduler::ordering {
namespace {

// One look may cost this share of what is left of the budget.
constexpr std::uint64_t kBudgetShare = 16;
constexpr std::uint64_t kBudgetFixed = 1'000'000;

}  // namespace

Bundle::Bundle(const Graph& graph, Progress& progress)
    : graph_(graph), progress_(progress), budget_(kBudgetFixed + graph.size() + graph.edges()) {}

bool Bundle::pays(Node target, int rise_max, bool wide) {
  const auto now = static_cast<std::uint32_t>(progress_.sequence().size());
  if (wide && progress_[target].failed_at == now) return false;
  if (budget_ == 0 && (wide || !progress_[target].ready())) return false;
  cost_ = 0;
  cost_max_ = std::max<std::uint64_t>(graph_.dependencies(target).size(), budget_ / kBudgetShare);
  tasks_.assign(1, target);
  inputs_.clear();
  tasks_widened_ = inputs_widened_ = 0;
  progress_[target].known = true;
  absorb(0);
  bool paid = cost_ <= cost_max_ && rise() <= rise_max;
  while (wide && !paid && cost_ <= cost_max_ && widen())
    paid = cost_ <= cost_max_ && rise() <= rise_max;
  if (paid) {
    paid_even_ |= rise() == 0;
  } else {
    budget_ -= std::min(budget_, cost_);
    if (wide) {
      for (Node t : tasks_) progress_[t].failed_at = now;
    }
  }
  operations_ += cost_;
  forget();
  return paid;
}

//! Takes in everything that the tasks from `from` on lack.
void Bundle::absorb(std::size_t from) {
  for (; from < tasks_.size() && cost_ <= cost_max_; ++from) {
    const auto dependencies = graph_.dependencies(tasks_[from]);
    cost_ += dependencies.size();
    for (Node d : dependencies) {
      TaskState& state = progress_[d];
      ++state.taken;
      if (std::exchange(state.known, true)) continue;
      (state.placed ? inputs_ : tasks_).push_back(d);
    }
  }
}

//! Takes in the other users of inputs, and of pieces: a piece (a task with one dependency) is worth
//! no more in memory than what it was cut from. False if there is nobody to take in.
bool Bundle::widen() {
  const std::size_t before = tasks_.size(), inputs = inputs_.size();
  for (; inputs_widened_ < inputs; ++inputs_widened_) take_users(inputs_[inputs_widened_]);
  for (; tasks_widened_ < before; ++tasks_widened_) {
    if (graph_.dependencies(tasks_[tasks_widened_]).size() == 1) take_users(tasks_[tasks_widened_]);
  }
  absorb(before);
  return tasks_.size() > before;
}

void Bundle::take_users(Node t) {
  if (progress_[t].users == progress_[t].taken || cost_ > cost_max_) return;
  const auto users = graph_.dependents(t);
  cost_ += users.size();
  for (Node d : users) {
    if (!progress_[d].placed && !progress_[d].within_reach()) return;  // t stays in any case
  }
  for (Node d : users) {
    if (!progress_[d].placed && !std::exchange(progress_[d].known, true)) tasks_.push_back(d);
  }
}

int Bundle::rise() const {
  int rise = 0;
  for (Node t : tasks_) rise += progress_[t].users != progress_[t].taken;
  for (Node t : inputs_) rise -= progress_[t].users == progress_[t].taken;
  return rise;
}

void Bundle::forget() {
  for (Node t : tasks_) {
    progress_[t].known = false;
    progress_[t].taken = 0;
  }
  for (Node t : inputs_) {
    progress_[t].known = false;
    progress_[t].taken = 0;
  }
}

}  // namespace scheduler::ordering
