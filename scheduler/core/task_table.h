//! Every task the scheduler knows, by id and by key.
//!
//! Records live in chunks and never move, so a Task& stays good while others come and go. A
//! forgotten task leaves the index at once but keeps its id, key and record until sweep(), which
//! opens the next step: actions may name it. The index is split in shards so that no single
//! growth of a hash table takes long.
#pragma once

#include <absl/container/flat_hash_set.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "protocol/base/check.h"
#include "scheduler/core/task.h"

namespace scheduler {

class TaskTable {
 public:
  TaskTable();
  TaskTable(const TaskTable&) = delete;
  TaskTable& operator=(const TaskTable&) = delete;

  Task& operator[](TaskId id) { return chunks_[id.value / kChunk]->tasks[id.value % kChunk]; }
  const Task& operator[](TaskId id) const {
    return chunks_[id.value / kChunk]->tasks[id.value % kChunk];
  }
  //! Staged tasks too; invalid if there is none.
  TaskId find(KeyView key) const;
  //! The task of this key; the bool says whether it was made just now.
  std::pair<TaskId, bool> intern(KeyView key);
  //! Takes a forgotten task out of the index; its record stays until sweep().
  void bury(TaskId id);
  void sweep();
  //! Empties the table in O(1); the records are freed by free_old_chunk().
  void clear();
  //! Frees a piece of a cleared table; false when nothing is left.
  bool free_old_chunk();
  bool has_old_chunks() const { return !old_.empty(); }

  std::size_t size() const { return size_; }  //!< without the buried
  std::size_t buried() const { return buried_.size(); }
  bool alive(TaskId id) const;

  template <class Visit>  // in order of ids
  void for_each(Visit visit) const {
    for (std::size_t c = 0; c < chunks_.size(); ++c) {
      if (!chunks_[c]) continue;
      for (std::size_t i = 0; i < chunks_[c]->used; ++i) {
        const Task& task = chunks_[c]->tasks[i];
        if (task.key_ref && task.state != TaskState::forgotten) {
          visit(TaskId(static_cast<std::uint32_t>(c * kChunk + i)), task);
        }
      }
    }
  }

 private:
  static constexpr std::size_t kChunk = 1024;
  static constexpr std::size_t kShards = 64;

  struct Chunk {
    std::array<Task, kChunk> tasks;
    std::uint32_t used = 0;             //!< slots ever given out
    std::uint32_t live = 0;
    std::uint32_t free_head = kChunk;   //!< list of given-back slots, linked by Task::mark
  };
  struct Slot {
    std::uint32_t hash;  //!< half of it: the other half chose the shard
    TaskId id;
  };
  struct Probe {
    std::uint64_t hash;
    KeyView key;
  };
  static std::uint32_t half(std::uint64_t hash) { return static_cast<std::uint32_t>(hash); }
  struct SlotHash {
    using is_transparent = void;
    std::size_t operator()(const Slot& slot) const { return spread(slot.hash); }
    std::size_t operator()(const Probe& probe) const { return spread(half(probe.hash)); }
    //! The table looks at all 64 bits.
    static std::size_t spread(std::uint32_t half) { return half * 0x9e3779b97f4a7c15ull; }
  };
  struct SlotEqual {
    using is_transparent = void;
    const TaskTable* table;
    bool operator()(const Slot& a, const Slot& b) const { return a.id == b.id; }
    bool operator()(const Slot& a, const Probe& b) const {
      return a.hash == half(b.hash) && (*table)[a.id].key() == b.key;
    }
    bool operator()(const Probe& b, const Slot& a) const { return (*this)(a, b); }
  };
  using Shard = absl::flat_hash_set<Slot, SlotHash, SlotEqual>;

  static Probe probe(KeyView key);
  Shard& shard(std::uint64_t hash) { return shards_[hash >> 58]; }
  const Shard& shard(std::uint64_t hash) const { return shards_[hash >> 58]; }
  TaskId allocate();
  void release(TaskId id);

  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<std::uint32_t> open_;    //!< chunks with free slots (entries may be out of date)
  std::vector<std::uint32_t> vacant_;  //!< indices in chunks_ without a chunk
  std::uint32_t spare_ = 0;            //!< a chunk kept though empty
  std::vector<Shard> shards_;
  std::vector<TaskId> buried_;
  std::vector<std::unique_ptr<Chunk>> old_;
  std::size_t size_ = 0;
};

}  // namespace scheduler
