//! Tasks whose annotations bound them and that wait on the scheduler for memory, in priority order.
//!
//! Tasks with the same restrictions wait for the same workers and so stand in one lane, behind each
//! other; a lane whose workers are full holds up nobody else. Tasks that wait here are `queued`.
//! Each knows its lane (Task::steal_place) and its ticket in it (Task::processing_place), so it
//! leaves without a search.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "scheduler/core/task_table.h"

namespace scheduler {

struct Lane {
  struct Entry {
    Priority priority;
    std::uint32_t ticket;  //!< among equals the oldest first
    TaskId task;
    bool operator<(const Entry& other) const {
      if (priority < other.priority) return true;
      return !(other.priority < priority) && ticket < other.ticket;
    }
  };
  RestrictionsRef restrictions;  //!< null: none
  bool loose = false;
  std::set<Entry> tasks;    //!< never empty
  std::uint64_t bytes = 0;  //!< that its tasks ask for

  bool suits(const Task& task) const {
    const Restrictions* wanted = task.restrictions();
    if (loose != task.loose_restrictions || (wanted == nullptr) != (restrictions == nullptr)) {
      return false;
    }
    return wanted == restrictions.get() || *wanted == *restrictions;
  }
};

class Lanes {
 public:
  //! The caller puts the task in state `queued`.
  void push(TaskId id, Task& task) {
    const std::uint32_t number = lane_for(task);
    task.steal_place = number;
    task.processing_place = next_ticket_++;
    Lane& lane = lanes_[number];
    lane.tasks.insert(Lane::Entry{task.priority, task.processing_place, id});
    lane.bytes += task.annotations->memory;
    ++size_;
  }
  void leave(TaskId id, Task& task) {
    const auto found = lanes_.find(task.steal_place);
    found->second.tasks.erase(Lane::Entry{task.priority, task.processing_place, id});
    found->second.bytes -= task.annotations->memory;
    if (found->second.tasks.empty()) lanes_.erase(found);
    task.processing_place = task.steal_place = 0;
    --size_;
  }
  bool contains(TaskId id, const Task& task) const {
    const auto found = lanes_.find(task.steal_place);
    return found != lanes_.end() &&
           found->second.tasks.contains(Lane::Entry{task.priority, task.processing_place, id});
  }
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  const std::map<std::uint32_t, Lane>& all() const { return lanes_; }
  void clear() {
    lanes_.clear();
    size_ = 0;
  }

 private:
  std::uint32_t lane_for(const Task& task) {
    for (const auto& [number, lane] : lanes_) {
      if (lane.suits(task)) return number;
    }
    Lane& lane = lanes_[next_lane_];
    if (task.extra) lane.restrictions = task.extra->restrictions;
    lane.loose = task.loose_restrictions;
    return next_lane_++;
  }

  std::map<std::uint32_t, Lane> lanes_;
  std::uint32_t next_lane_ = 0;
  std::uint32_t next_ticket_ = 1;
  std::size_t size_ = 0;
};

}  // namespace scheduler
