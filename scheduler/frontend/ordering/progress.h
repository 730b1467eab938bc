//! A half-built sequence: what is placed, what is held, what can be reached without loading more.
//!
//! A task is *within reach* when all its dependencies are placed or within reach: everything it
//! lacks can be computed from what was loaded. This grows with every placed root and is kept by
//! counting, so that over a whole walk it costs one visit per edge.
//!
//! Answers to: num_needed, runnable_hull and reachable_hull in dask.order.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/frontend/ordering/graph.h"

namespace scheduler::ordering {

//! What is known of one task, side by side: walks over big graphs wait for memory most of the time.
struct TaskState {
  std::uint32_t missing;       //!< dependencies not placed
  std::uint32_t users;         //!< dependents not placed; a placed task is held while it has some
  std::uint32_t out_of_reach;  //!< dependencies not within reach, or kWithin
  std::uint32_t taken;         //!< Bundle: users that are in the bundle
  std::uint32_t failed_at;     //!< Bundle: length of the sequence when a wide bundle with it failed
  bool placed;
  bool known;  //!< Bundle: is a task or an input of the bundle

  static constexpr std::uint32_t kWithin = UINT32_MAX;
  bool within_reach() const { return out_of_reach == kWithin; }
  bool ready() const { return missing == 0; }
};

class Progress {
 public:
  explicit Progress(const Graph& graph);

  TaskState& operator[](Node t) { return tasks_[t]; }
  const TaskState& operator[](Node t) const { return tasks_[t]; }
  const std::vector<Node>& sequence() const { return sequence_; }

  //! Places a ready task. Appends to `news` the tasks that may be worth running because of it:
  //! those that join results or end the graph and came within reach, and last users of a held
  //! result.
  void place(Node t, std::vector<Node>& news);

 private:
  void reach(Node t, std::vector<Node>& news);

  const Graph& graph_;
  std::vector<TaskState> tasks_;
  std::vector<Node> sequence_;
  std::vector<Node> stack_;
};

}  // namespace scheduler::ordering
