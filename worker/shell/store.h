//! The values a worker holds: alive in Python, packed as bytes, on disk, or several of these.
//!
//! Shared by the loop thread (serving, spilling, dropping), executors (inputs, results) and the
//! façade's mapping, under one lock that is never held while anything blocks. Values are counted
//! shares: taking one out keeps it whatever happens to the store meanwhile.
//!
//! Sizes are what dask.sizeof says, as in stock: `fast_bytes` is what is in memory and `slow_bytes`
//! what is only on disk; together they are the worker's managed memory.
//!
//! Answers to: distributed/spill.py, SpillBuffer.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "worker/shell/runtime.h"
#include "worker/shell/spill_file.h"

namespace worker {

//! What task-finished says about a value besides its size.
struct Outcome {
  std::string type_name;
  Slice type;
  double start = 0;
  double stop = 0;
  std::uint64_t thread = 0;
};

//! A value with everything the worker knows about it. A share.
struct Held {
  Key key;
  Value value;
  SpillRef spilled;
  Outcome outcome;
  bool actor = false;
};

class Store {
 public:
  ValueId add(Key key, Value value, Outcome outcome, bool actor);
  void drop(ValueId id);

  std::optional<Held> get(ValueId id);
  std::optional<Held> find(const Key& key);
  std::vector<Key> keys() const;
  std::size_t size() const;

  //! Adds another form of a value that is still there.
  void set_live(ValueId id, LiveRef live);
  void set_packed(ValueId id, PayloadRef packed);

  // ---- spilling -------------------------------------------------------------------------------
  //! The value in memory that was used least recently and may go to disk; it is marked as leaving
  //! and not named again until it is evicted or keep() is called.
  std::optional<std::pair<ValueId, Held>> next_victim();
  //! The value is on disk now: its forms in memory are let go. False: it was used or dropped since.
  bool evict(ValueId id, SpillRef file);
  //! The value could not be written and stays. `never`: not to be tried again.
  void keep(ValueId id, bool never);

  std::uint64_t fast_bytes() const;
  std::uint64_t slow_bytes() const;
  std::uint64_t disk_bytes() const;

 private:
  struct Entry {
    Held held;
    std::list<ValueId>::iterator place;  //!< in recent_, while in memory
    bool in_memory = true;
    bool leaving = false;
    bool pinned = false;  //!< an actor, or a value that cannot be written
  };
  void touch(Entry& entry);
  void admit(ValueId id, Entry& entry);

  mutable std::mutex mutex_;
  absl::flat_hash_map<std::uint64_t, Entry> entries_;
  absl::flat_hash_map<std::string, ValueId> by_key_;
  std::list<ValueId> recent_;  //!< in memory, least recently used first
  std::uint64_t next_id_ = 1;
  std::uint64_t fast_bytes_ = 0;
  std::uint64_t slow_bytes_ = 0;
  std::uint64_t disk_bytes_ = 0;
};

}  // namespace worker
