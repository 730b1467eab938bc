//! All known tasks by id and by key, and the edges between them.
//!
//! Slots are used again, with their strings and lists keeping their capacity, so that a steady
//! stream of tasks allocates next to nothing. A forgotten task stays readable until `recycle`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <absl/container/flat_hash_map.h>
#include <absl/hash/hash.h>

#include "worker/core/task.h"

namespace worker {

struct KeyHash {
  std::size_t operator()(KeyView key) const { return absl::HashOf(key.bytes); }
};

class TaskTable {
 public:
  Task& operator[](TaskId id) { return chunks_[id.value / kChunk][id.value % kChunk]; }
  const Task& operator[](TaskId id) const { return chunks_[id.value / kChunk][id.value % kChunk]; }
  Edge& operator[](EdgeId id) { return edges_[id.value]; }
  const Edge& operator[](EdgeId id) const { return edges_[id.value]; }

  //! True if the id names a task that is not forgotten.
  bool has(TaskId id) const;
  bool is(TaskRef ref) const { return (*this)[ref.id].generation == ref.generation; }
  TaskRef ref(TaskId id) const { return TaskRef{id, (*this)[id].generation}; }
  std::uint32_t slots() const { return slots_; }  //!< ids are below this

  std::optional<TaskId> find(KeyView key) const;
  //! The key must be new. The task is `released`.
  TaskId add(KeyView key);
  //! Takes the key out of the index; the task must have no edges left.
  void forget(TaskId id);
  //! Frees the slots of tasks forgotten since the last call.
  void recycle();

  //! The pair must not be linked yet.
  void link(TaskId dependent, TaskId dependency);
  //! Takes the edge out of the list of dependents; the dependent drops its id.
  void unlink(EdgeId id);

 private:
  static constexpr std::uint32_t kChunk = 256;

  std::vector<std::unique_ptr<Task[]>> chunks_;  //!< stable: the index points into the keys
  std::uint32_t slots_ = 0;
  absl::flat_hash_map<KeyView, TaskId, KeyHash> by_key_;
  std::vector<TaskId> forgotten_;
  std::vector<TaskId> free_;
  std::vector<Edge> edges_;
  std::vector<EdgeId> free_edges_;
};

}  // namespace worker
