//! Slots, index and edges of tasks.
#include "worker/core/task_table.h"

#include <utility>

namespace worker {

bool TaskTable::has(TaskId id) const {
  return id.valid() && id.value < slots_ && (*this)[id].state != TaskState::forgotten;
}

std::optional<TaskId> TaskTable::find(KeyView key) const {
  const auto it = by_key_.find(key);
  if (it == by_key_.end()) return std::nullopt;
  return it->second;
}

TaskId TaskTable::add(KeyView key) {
  TaskId id(slots_);
  if (!free_.empty()) {
    id = free_.back();
    free_.pop_back();
  } else {
    if (slots_ % kChunk == 0) chunks_.push_back(std::make_unique<Task[]>(kChunk));
    ++slots_;
  }
  Task& task = (*this)[id];
  task.key.bytes.assign(key.bytes);
  task.state = TaskState::released;
  by_key_.emplace(task.key.view(), id);
  return id;
}

void TaskTable::forget(TaskId id) {
  by_key_.erase((*this)[id].key.view());
  forgotten_.push_back(id);
}

void TaskTable::recycle() {
  for (TaskId id : forgotten_) {
    Task& task = (*this)[id];
    ++task.generation;
    task.run = RunId{};
    task.priority = Priority{};
    task.work.reset();
    task.resources.clear();
    task.actor = false;
    free_.push_back(id);
  }
  forgotten_.clear();
}

void TaskTable::link(TaskId dependent, TaskId dependency) {
  EdgeId id(static_cast<std::uint32_t>(edges_.size()));
  if (free_edges_.empty()) {
    edges_.emplace_back();
  } else {
    id = free_edges_.back();
    free_edges_.pop_back();
  }
  Task& needed = (*this)[dependency];
  edges_[id.value] = Edge{.dependent = dependent,
                          .dependency = dependency,
                          .previous = needed.last_dependent,
                          .next = EdgeId{},
                          .waiting = false,
                          .waiter = false};
  if (needed.last_dependent.valid()) {
    edges_[needed.last_dependent.value].next = id;
  } else {
    needed.first_dependent = id;
  }
  needed.last_dependent = id;
  ++needed.dependents;
  (*this)[dependent].dependencies.push_back(id);
}

void TaskTable::unlink(EdgeId id) {
  const Edge& edge = edges_[id.value];
  Task& needed = (*this)[edge.dependency];
  (edge.previous.valid() ? edges_[edge.previous.value].next : needed.first_dependent) = edge.next;
  (edge.next.valid() ? edges_[edge.next.value].previous : needed.last_dependent) = edge.previous;
  --needed.dependents;
  if (edge.waiter) --needed.waiters;
  free_edges_.push_back(id);
}

}  // namespace worker
