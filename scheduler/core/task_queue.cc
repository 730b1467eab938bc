#include "scheduler/core/task_queue.h"

#include <algorithm>

namespace scheduler {

bool TaskQueue::current(const Entry& entry) const {
  if (!tasks_.alive(entry.task)) return false;
  const Task& task = tasks_[entry.task];
  return task.state == TaskState::queued && task.processing_place == entry.ticket &&
         !task.ahead_on.valid();
}

bool TaskQueue::later(const HeapEntry& a, const HeapEntry& b) {
  if (b.priority < a.priority) return true;
  if (a.priority < b.priority) return false;
  return static_cast<std::int32_t>(b.ticket - a.ticket) < 0;
}

std::uint32_t TaskQueue::push(TaskId id) {
  const Entry entry{id, next_ticket_++};
  const Priority& priority = tasks_[id].priority;
  if (line_.empty() || !(priority < last_)) {
    line_.push_back(entry);
    last_ = priority;
  } else {
    heap_.push_back(HeapEntry{entry, priority});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  ++size_;
  return entry.ticket;
}

void TaskQueue::leave() {
  --size_;
  if (size_ == 0) return clear();
  if (line_.size() + heap_.size() > 2 * size_ + 1024) drop_outdated();
}

TaskId TaskQueue::front() const {
  while (!line_.empty() && !current(line_.front())) line_.pop_front();
  while (!heap_.empty() && !current(heap_.front())) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    heap_.pop_back();
  }
  CHECK_ALWAYS(!line_.empty() || !heap_.empty());
  if (line_.empty()) return heap_.front().task;
  if (heap_.empty()) return line_.front().task;
  const Entry& line = line_.front();
  return later(HeapEntry{line, tasks_[line.task].priority}, heap_.front()) ? heap_.front().task
                                                                            : line.task;
}

void TaskQueue::clear() {
  line_.clear();
  heap_.clear();
  line_.shrink_to_fit();
  size_ = 0;
}

void TaskQueue::drop_outdated() {
  const auto outdated = [this](const Entry& entry) { return !current(entry); };
  line_.erase(std::remove_if(line_.begin(), line_.end(), outdated), line_.end());
  heap_.erase(std::remove_if(heap_.begin(), heap_.end(), outdated), heap_.end());
  std::make_heap(heap_.begin(), heap_.end(), later);
}

}  // namespace scheduler
