//! The values a worker holds: alive in Python, packed as bytes, on disk, or several of these.
//!
//! Touched only by whoever holds the loop's turn. Values are counted shares: taking one out keeps
//! it whatever happens to the store meanwhile.
//!
//! Sizes are what dask.sizeof says, as in stock: `fast_bytes` is what is in memory and `slow_bytes`
//! what is only on disk; together they are the worker's managed memory.
//!
//! Answers to: distributed/spill.py, SpillBuffer.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <list>
#include <optional>
#include <utility>

#include "worker/shell/border.h"
#include "worker/shell/spill_file.h"

namespace worker {

//! A value with everything the worker knows about it. A share.
struct Held {
  Key key;
  Value value;
  SpillRef spilled;
  TypeRef type;  //!< null: it came from elsewhere and nobody has looked yet
  Call call;     //!< that made it
  bool actor = false;
};

class Store {
 public:
  ValueId add(Held value);
  void drop(ValueId id);

  //! Null if it is gone; valid until the store changes. Counts as a use.
  const Held* get(ValueId id);
  //! The same, without counting as a use.
  const Held* peek(ValueId id) const;
  std::size_t size() const { return entries_.size(); }

  //! Adds another form of a value that is still there.
  void set_live(ValueId id, LiveRef live, bool keep_packed);
  void set_packed(ValueId id, PayloadRef packed);
  void set_type(ValueId id, TypeRef type);

  // ---- spilling -------------------------------------------------------------------------------
  //! The value in memory that was used least recently and may go to disk; it is marked as leaving
  //! and not named again until it is evicted or keep() is called.
  std::optional<std::pair<ValueId, Held>> next_victim();
  //! The value is on disk now: its forms in memory are let go. False: it was used or dropped since.
  bool evict(ValueId id, SpillRef file);
  //! The value could not be written and stays. `never`: not to be tried again.
  void keep(ValueId id, bool never);

  std::uint64_t fast_bytes() const { return fast_bytes_; }
  std::uint64_t slow_bytes() const { return slow_bytes_; }
  std::uint64_t disk_bytes() const { return disk_bytes_; }

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

  Entry* find(ValueId id);

  absl::flat_hash_map<std::uint64_t, Entry> entries_;
  std::list<ValueId> recent_;  //!< in memory, least recently used first
  std::uint64_t next_id_ = 1;
  std::uint64_t fast_bytes_ = 0;
  std::uint64_t slow_bytes_ = 0;
  std::uint64_t disk_bytes_ = 0;
};

}  // namespace worker
