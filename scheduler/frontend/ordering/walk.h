//! The walk that makes a sequence: demand goes down from leaves, harvest goes up from what is held.
//!
//! *Demand*: take a leaf, go down to what it lacks, heaviest input first, and place tasks on the
//! way back. *Harvest*: before anything new is loaded, run the bundles within reach that pay
//! (bundle.h). Then the next leaf is the one that lacks least (leaves.h). Every edge is followed a
//! bounded number of times and nothing recurses: user graphs are deep.
//!
//! Answers to: the core loop of dask.order.order (critical path, walking back, process_runnables).
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/frontend/ordering/bundle.h"
#include "scheduler/frontend/ordering/graph.h"
#include "scheduler/frontend/ordering/leaves.h"
#include "scheduler/frontend/ordering/progress.h"

namespace scheduler::ordering {

//! What is not clear before a sequence is tried; order.cc tries and compares.
struct Strategy {
  bool heavy_leaf_first;  //!< start with the leaf that has most work below it, or with the least
  int rise_max;  //!< harvest what leaves at most so many more results: 0, or -1 for real gains
  bool last_first = false;  //!< among equals the last task of the graph goes first
};

class Walk {
 public:
  //! All arguments are borrowed and must outlive the walk.
  Walk(const Graph& graph, const std::vector<double>& effort, const LeafClasses& classes,
       Strategy strategy);

  //! Places all tasks and returns them in order. Call once; the graph must have no cycle.
  std::vector<Node> run();
  //! With rise_max 0: whether rise_max -1 could have given another sequence.
  bool rise_mattered() const { return bundle_.paid_even(); }
  std::uint64_t operations() const;

 private:
  std::vector<Node> preferred_leaves() const;
  void demand(Node leaf);
  void harvest();
  void run_bundle();
  void run_lacking(Node t);
  void place(Node t);

  const Graph& graph_;
  const std::vector<double>& effort_;
  const Strategy strategy_;
  Progress progress_;
  Bundle bundle_;
  const LeafClasses& classes_;
  LeafQueue leaves_;
  std::vector<Node> demand_;   // stack; what is above a task is what it lacks
  std::vector<Node> lacking_;  // stack of run_lacking
  std::vector<Node> chain_;    // stack of place
  std::vector<Node> news_;     // to harvest, newest last
  std::vector<Node> too_narrow_;
  std::vector<Node> plan_;
  std::uint64_t operations_ = 0;
};

}  // namespace scheduler::ordering
