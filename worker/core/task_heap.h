//! Tasks by priority, oldest first among equals, with lazy removal.
//!
//! An entry keeps the priority it had when it was pushed. Whoever owns the heap knows which tasks
//! are in it (a flag on the task or the holder) and passes that knowledge as `is_in`; entries that
//! are not in are dropped when they come up. A task taken out and put back may thus come up at its
//! old place: stock does the same, and it only touches the order of equals in all but odd cases.
//!
//! Answers to: distributed/collections.py, HeapSet.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "worker/core/priority.h"
#include "worker/core/task.h"

namespace worker {

class TaskHeap {
 public:
  void push(const Priority& priority, TaskRef task) {
    entries_.push_back(Entry{priority, count_++, task});
    std::push_heap(entries_.begin(), entries_.end(), later);
  }

  //! The most urgent task that is in. At least one must be.
  template <class IsIn>
  TaskRef top(const IsIn& is_in) {
    while (!is_in(entries_.front().task)) drop_front();
    return entries_.front().task;
  }

  //! Removes what `top` returned just before.
  void drop_front() {
    std::pop_heap(entries_.begin(), entries_.end(), later);
    entries_.pop_back();
  }

  //! To be called when the last task has left, so that stale entries never pile up.
  void clear() {
    entries_.clear();
    count_ = 0;
  }

  //! Every entry, stale ones included, in no order.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const Entry& entry : entries_) visit(entry.task);
  }

 private:
  struct Entry {
    Priority priority;
    std::uint64_t count;
    TaskRef task;
  };
  static bool later(const Entry& a, const Entry& b) {
    if (b.priority < a.priority) return true;
    if (a.priority < b.priority) return false;
    return a.count > b.count;
  }
  std::vector<Entry> entries_;
  std::uint64_t count_ = 0;
};

}  // namespace worker
