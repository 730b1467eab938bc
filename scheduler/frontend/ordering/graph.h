//! A task graph as plain numbers: who needs whom, in both directions.
//!
//! Tasks are numbered 0…n-1 and edges lie in flat arrays (compressed sparse rows), because ordering
//! a million tasks is bound by memory traffic, not by arithmetic. The caller's arrays come from
//! another process's pickle: `build` checks them all, and everything after it may trust the
//! numbers.
//!
//! Invariant: every edge task → dependency has its mirror dependency → dependent, also when the
//! input names the same dependency twice; so counting down over one side and up over the other
//! agrees.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "protocol/base/result.h"

namespace scheduler::ordering {

using Node = std::uint32_t;

//! What a node is to the cluster. A data node holds a value instead of a call; it costs nothing to
//! run.
enum class Kind : std::uint8_t { task = 0, data = 1 };

//! The caller's arrays. Task t needs dependencies[offsets[t] … offsets[t+1]). Numbers ≥ n name keys
//! outside the graph: they are computed already and do not matter here. `kinds` may be empty.
struct GraphView {
  std::span<const std::uint32_t> offsets;
  std::span<const std::uint32_t> dependencies;
  std::span<const std::uint8_t> kinds;
};

class Graph {
 public:
  //! Checks the arrays and builds both directions, O(n + m). Cycles are not looked for here.
  static protocol::Result<Graph> build(const GraphView& view);

  //! The same tasks without the edges to the marked ones.
  Graph without(const std::vector<bool>& marked) const;

  Node size() const { return static_cast<Node>(kinds_.size()); }
  std::size_t edges() const { return dependencies_.size(); }
  std::span<const Node> dependencies(Node t) const {
    return row(dependency_offsets_, dependencies_, t);
  }
  std::span<const Node> dependents(Node t) const { return row(dependent_offsets_, dependents_, t); }
  Kind kind(Node t) const { return kinds_[t]; }

 private:
  static std::span<const Node> row(const std::vector<std::uint32_t>& offsets,
                                   const std::vector<Node>& nodes, Node t) {
    return {nodes.data() + offsets[t], nodes.data() + offsets[t + 1]};
  }
  void mirror();

  std::vector<std::uint32_t> dependency_offsets_;
  std::vector<Node> dependencies_;
  std::vector<std::uint32_t> dependent_offsets_;
  std::vector<Node> dependents_;
  std::vector<Kind> kinds_;
};

//! Tasks so that dependencies come first; shorter than n if there is a cycle. O(n + m).
std::vector<Node> topological(const Graph& graph);

//! One cycle as t0, t1, …, t0 where each needs the next, or nothing. The walk starts from task 0 as
//! dask.core.getcycle starts from the first key, so that a plain cycle is reported with the same
//! text.
std::vector<Node> find_cycle(const Graph& graph);

}  // namespace scheduler::ordering
