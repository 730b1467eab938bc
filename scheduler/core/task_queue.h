//! Tasks that wait on the scheduler for a free slot, by priority; among equals the oldest first.
//!
//! Graphs are activated in priority order, so most entries arrive sorted: those go to the end of a
//! plain line, only the others to a heap, and the front is the smaller of the two. A task that
//! leaves early is not searched for: its ticket (Task::processing_place) no longer matches and
//! the entry is skipped later.
//!
//! Answers to: distributed/collections.py, HeapSet (as SchedulerState.queued).
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "scheduler/core/task_table.h"

namespace scheduler {

class TaskQueue {
 public:
  explicit TaskQueue(const TaskTable& tasks) : tasks_(tasks) {}

  //! The caller has put the task in state `queued`; it keeps the ticket in processing_place.
  [[nodiscard]] std::uint32_t push(TaskId id);
  //! The task left the state `queued`, or went ahead to a worker (it may be the front).
  void leave();
  //! The first task; the queue must not be empty.
  TaskId front() const;
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  void clear();

  template <class Visit>  // in no particular order, until `visit` says false
  void for_each(Visit visit) const {
    for (const Entry& entry : line_) {
      if (current(entry) && !visit(entry.task)) return;
    }
    for (const Entry& entry : heap_) {
      if (current(entry) && !visit(entry.task)) return;
    }
  }

 private:
  struct Entry {
    TaskId task;
    std::uint32_t ticket;
  };
  //! With the priority, because the task of an outdated entry may be gone.
  struct HeapEntry : Entry {
    Priority priority;
  };
  static bool later(const HeapEntry& a, const HeapEntry& b);

  bool current(const Entry& entry) const;
  void drop_outdated();

  const TaskTable& tasks_;
  // front() drops outdated entries on its way.
  mutable std::deque<Entry> line_;
  mutable std::vector<HeapEntry> heap_;  //!< its top runs first
  Priority last_;             //!< of the end of the line
  std::size_t size_ = 0;
  std::uint32_t next_ticket_ = 1;
};

}  // namespace scheduler
