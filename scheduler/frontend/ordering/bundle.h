//! Tasks that could run now without loading anything, weighed by what they would leave in memory.
//!
//! Running a task that is within reach also runs what it lacks. The bundle of these tasks *rises*
//! by the results it leaves behind and falls by the held results that nobody needs afterwards. A
//! bundle may be too narrow to pay: two outputs of a shuffle share all their inputs, and neither
//! alone frees one. So it can be widened by the other users of its inputs, as long as those are
//! within reach too.
//!
//! Looking costs steps even when it leads nowhere, so failures draw on a budget that is linear in
//! the graph; when it runs low only small bundles are looked at.
//!
//! Answers to: process_runnables in dask.order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/frontend/ordering/graph.h"
#include "scheduler/frontend/ordering/progress.h"

namespace scheduler::ordering {

class Bundle {
 public:
  Bundle(const Graph& graph, Progress& progress);

  //! True if running `target` (within reach, not placed) and what it lacks leaves at most
  //! `rise_max` more results held than now; `wide` allows to take in other users of the same
  //! inputs.
  bool pays(Node target, int rise_max, bool wide);
  //! The tasks of the bundle that paid last.
  std::span<const Node> tasks() const { return tasks_; }
  //! Some bundle paid with a rise of exactly zero: a stricter rise_max would have refused it.
  bool paid_even() const { return paid_even_; }
  std::uint64_t operations() const { return operations_; }

 private:
  void absorb(std::size_t from);
  bool widen();
  void take_users(Node t);
  int rise() const;
  void forget();

  const Graph& graph_;
  Progress& progress_;
  std::vector<Node> tasks_;
  std::vector<Node> inputs_;  // placed dependencies of tasks_
  std::size_t tasks_widened_ = 0;
  std::size_t inputs_widened_ = 0;
  std::uint64_t cost_ = 0;
  std::uint64_t cost_max_ = 0;
  std::uint64_t budget_;
  std::uint64_t operations_ = 0;
  bool paid_even_ = false;
};

}  // namespace scheduler::ordering
