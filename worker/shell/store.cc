#include "worker/shell/store.h"

#include <utility>

namespace worker {

ValueId Store::add(Key key, Value value, Outcome outcome, bool actor) {
  const std::scoped_lock lock(mutex_);
  const ValueId id(next_id_++);
  fast_bytes_ += value.nbytes;
  by_key_[key.bytes] = id;
  Entry& entry = entries_[id.value];
  entry.held = {std::move(key), std::move(value), nullptr, std::move(outcome), actor};
  entry.pinned = actor;
  entry.place = recent_.insert(recent_.end(), id);
  return id;
}

void Store::drop(ValueId id) {
  Held gone;  // destroyed after the lock: dropping shares may take other locks or remove a file
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find(id.value);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  if (entry.in_memory) {
    fast_bytes_ -= entry.held.value.nbytes;
    recent_.erase(entry.place);
  } else {
    slow_bytes_ -= entry.held.value.nbytes;
  }
  if (entry.held.spilled) disk_bytes_ -= entry.held.spilled->bytes();
  const auto named = by_key_.find(entry.held.key.bytes);
  if (named != by_key_.end() && named->second == id) by_key_.erase(named);
  gone = std::move(entry.held);
  entries_.erase(found);
}

void Store::touch(Entry& entry) {
  if (!entry.in_memory) return;
  entry.leaving = false;
  recent_.splice(recent_.end(), recent_, entry.place);
}

std::optional<Held> Store::get(ValueId id) {
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find(id.value);
  if (found == entries_.end()) return std::nullopt;
  touch(found->second);
  return found->second.held;
}

std::optional<Held> Store::find(const Key& key) {
  const std::scoped_lock lock(mutex_);
  const auto named = by_key_.find(key.bytes);
  if (named == by_key_.end()) return std::nullopt;
  Entry& entry = entries_.at(named->second.value);
  touch(entry);
  return entry.held;
}

std::vector<Key> Store::keys() const {
  const std::scoped_lock lock(mutex_);
  std::vector<Key> out;
  out.reserve(by_key_.size());
  for (const auto& [bytes, id] : by_key_) out.push_back(Key{bytes});
  return out;
}

std::size_t Store::size() const {
  const std::scoped_lock lock(mutex_);
  return entries_.size();
}

//! A value comes back into memory.
void Store::admit(ValueId id, Entry& entry) {
  if (entry.in_memory) return;
  entry.in_memory = true;
  entry.place = recent_.insert(recent_.end(), id);
  slow_bytes_ -= entry.held.value.nbytes;
  fast_bytes_ += entry.held.value.nbytes;
}

void Store::set_live(ValueId id, LiveRef live) {
  PayloadRef unneeded;  // destroyed after the lock
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find(id.value);
  if (found == entries_.end()) return;
  admit(id, found->second);
  found->second.held.value.live = std::move(live);
  // The live object may share the packed bytes; keeping both costs memory only where it does not.
  unneeded = std::exchange(found->second.held.value.packed, nullptr);
}

void Store::set_packed(ValueId id, PayloadRef packed) {
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find(id.value);
  if (found == entries_.end() || !found->second.in_memory) return;
  found->second.held.value.packed = std::move(packed);
}

std::optional<std::pair<ValueId, Held>> Store::next_victim() {
  const std::scoped_lock lock(mutex_);
  for (const ValueId id : recent_) {
    Entry& entry = entries_.at(id.value);
    if (entry.leaving || entry.pinned) continue;
    entry.leaving = true;
    return std::pair(id, entry.held);
  }
  return std::nullopt;
}

bool Store::evict(ValueId id, SpillRef file) {
  Value unneeded;  // destroyed after the lock
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find(id.value);
  if (found == entries_.end() || !found->second.leaving) return false;
  Entry& entry = found->second;
  entry.leaving = false;
  entry.in_memory = false;
  recent_.erase(entry.place);
  fast_bytes_ -= entry.held.value.nbytes;
  slow_bytes_ += entry.held.value.nbytes;
  if (!entry.held.spilled) disk_bytes_ += file->bytes();
  entry.held.spilled = std::move(file);
  unneeded.live = std::move(entry.held.value.live);
  unneeded.packed = std::move(entry.held.value.packed);
  entry.held.value.live = nullptr;
  entry.held.value.packed = nullptr;
  return true;
}

void Store::keep(ValueId id, bool never) {
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find(id.value);
  if (found == entries_.end()) return;
  found->second.leaving = false;
  found->second.pinned = found->second.pinned || never;
}

std::uint64_t Store::fast_bytes() const {
  const std::scoped_lock lock(mutex_);
  return fast_bytes_;
}

std::uint64_t Store::slow_bytes() const {
  const std::scoped_lock lock(mutex_);
  return slow_bytes_;
}

std::uint64_t Store::disk_bytes() const {
  const std::scoped_lock lock(mutex_);
  return disk_bytes_;
}

}  // namespace worker
