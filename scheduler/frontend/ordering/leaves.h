//! Which result to finish next: leaves grouped by the roots they need.
//!
//! Leaves (tasks without dependents) that share inputs should be finished one after the other, so
//! that what was loaded for one serves the next. The group tells how many roots a leaf still lacks;
//! the queue gives the leaf that lacks fewest among those for which something is loaded already,
//! and among equals the one that came nearer last: it goes on where the walk is, whatever the
//! numbers of the tasks.
//!
//! Leaves that need exactly the same roots form one class, so a graph in which everything needs
//! everything costs no more than a tree. Where the pairs of root and class would still outgrow the
//! graph (think of a large random graph), classes are given up and leaves follow each other by
//! nearness.
//!
//! Answers to: leafs_connected, leafs_degree and get_target in dask.order.
#pragma once

#include <cstdint>
#include <queue>
#include <span>
#include <vector>

#include "scheduler/frontend/ordering/graph.h"
#include "scheduler/frontend/ordering/progress.h"

namespace scheduler::ordering {

//! Fixed for a graph, shared by all walks over it.
struct LeafClasses {
  //! Leaves of class c are leaves[offsets[c]…offsets[c+1]). Empty if classes were given up.
  std::vector<std::uint32_t> offsets;
  std::vector<Node> leaves;
  //! How many roots each class needs.
  std::vector<std::uint32_t> roots;
  //! Classes that need root r are classes[spans[set_of[r]]…spans[set_of[r]+1]).
  std::vector<std::uint32_t> set_of;
  std::vector<std::uint32_t> spans;
  std::vector<std::uint32_t> classes;

  std::uint64_t operations = 0;
  std::size_t size() const { return roots.size(); }
};

//! `sequence` is any topological order. At most a fixed multiple of tasks plus edges in steps.
LeafClasses classify(const Graph& graph, std::span<const Node> sequence);

//! All leaves so that neighbours (leaves with common inputs) are near each other, each
//! neighbourhood entered at its first leaf of `leaves`.
std::vector<Node> by_nearness(const Graph& graph, std::span<const Node> leaves);

class LeafQueue {
 public:
  //! `leaves` in the order of preference among equals.
  LeafQueue(const Graph& graph, const LeafClasses& classes, std::vector<Node> leaves);

  //! A root was placed: the leaves that need it are nearer now.
  void loaded(Node root);
  //! The next leaf that is not done, or kNone.
  Node next(const Progress& progress);

  static constexpr Node kNone = UINT32_MAX;
  std::uint64_t operations() const { return operations_; }

 private:
  struct Entry {
    std::uint32_t missing;
    std::uint32_t rank;
    std::uint32_t leaf_class;
    std::uint32_t version;
    std::uint32_t turn;                         // of the queue when the class last came nearer
    bool operator<(const Entry& other) const {  // std::priority_queue gives the greatest first
      if (missing != other.missing) return missing > other.missing;
      return turn != other.turn ? turn < other.turn : rank > other.rank;
    }
  };
  //! Queues the class with its next leaf; an older entry of the class is void from now on.
  void push(std::uint32_t leaf_class, const Progress& progress);

  const LeafClasses& classes_;
  std::vector<Node> preferred_;
  std::size_t preferred_next_ = 0;
  std::vector<std::uint32_t> rank_;     // of each task that is a leaf
  std::vector<Node> members_;           // leaves by class, best rank first
  std::vector<std::uint32_t> next_;     // position in members_ of each class's next leaf
  std::vector<std::uint32_t> missing_;  // roots not yet placed, by class
  std::vector<std::uint32_t> version_;  // of the class's entry in touched_
  std::vector<std::uint8_t> changed_;   // class is in changes_
  std::vector<std::uint32_t> changes_;
  std::priority_queue<Entry> touched_;
  std::uint32_t turn_ = 0;  // counts calls of next
  std::uint64_t operations_ = 0;
};

}  // namespace scheduler::ordering
