//! The small moves every room of the worker's core uses.
#include "worker/core/state.h"

#include <utility>

namespace worker {

State::State(Config c) : config(std::move(c)), peers(config.address, tasks) {
  for (const auto& [name, total] : config.resources) {
    resources.push_back(ResourceLevel{name, total, total});
  }
}

TaskId State::ensure_task(KeyView key) {
  if (const auto id = tasks.find(key)) return *id;
  ++counts[static_cast<std::size_t>(TaskState::released)];
  return tasks.add(key);
}

void State::set_state(Task& task, TaskState state) {
  --counts[static_cast<std::size_t>(task.state)];
  // What is forgotten is gone: it would be counted for ever.
  if (state != TaskState::forgotten) ++counts[static_cast<std::size_t>(state)];
  task.state = state;
}

void State::recommend(const Recommendation& what) {
  Task& task = tasks[what.task];
  if (task.recommendation != Task::kNowhere) {
    recommendations[task.recommendation] = what;
    return;
  }
  task.recommendation = static_cast<std::uint32_t>(recommendations.size());
  recommendations.push_back(what);
}

std::uint32_t State::offer(TaskId id, ValueId value, std::uint64_t size) {
  offers.push_back(Offer{id, value, size, false});
  return static_cast<std::uint32_t>(offers.size() - 1);
}

void State::note(Note::Kind kind, KeyView key) {
  emit(Note{kind, Key{std::string(key.bytes)}});
}

void State::end_activity(Task& task) {
  if (task.activity == Activity::executing && !task.done) --executing_count;
  task.activity = Activity::none;
  task.done = false;
  task.coming_from = PeerId{};
}

void State::add_missing(TaskId id) {
  tasks[id].missing_place = static_cast<std::uint32_t>(missing.size());
  missing.push_back(id);
}

void State::remove_missing(Task& task) {
  if (task.missing_place == Task::kNowhere) return;
  const TaskId moved = missing.back();
  missing[task.missing_place] = moved;
  tasks[moved].missing_place = task.missing_place;
  missing.pop_back();
  task.missing_place = Task::kNowhere;
}

void State::purge(TaskId id) {
  Task& task = tasks[id];
  if (task.value.valid()) {
    emit(DropValue{id, task.value});
    task.value = ValueId{};
  }
  task.actor = false;
  peers.remove_all_holders(id);
  for (EdgeId edge_id : task.dependencies) {
    Edge& edge = tasks[edge_id];
    if (edge.waiter) --tasks[edge.dependency].waiters;
    edge.waiter = false;
    edge.waiting = false;
  }
  task.waiting_for_data = 0;
  task.nbytes = Task::kUnknownSize;
  end_activity(task);
  remove_missing(task);
  leave_queue(*this, task);
}

}  // namespace worker
