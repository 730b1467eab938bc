#include "worker/shell/store.h"

#include <utility>

namespace worker {

ValueId Store::add(Held value) {
  const ValueId id(next_id_++);
  fast_bytes_ += value.value.nbytes;
  Entry& entry = entries_[id.value];
  entry.pinned = value.actor;
  entry.held = std::move(value);
  entry.place = recent_.insert(recent_.end(), id);
  return id;
}

void Store::drop(ValueId id) {
  const auto found = entries_.find(id.value);
  if (found == entries_.end()) return;
  const Entry& entry = found->second;
  if (entry.in_memory) {
    fast_bytes_ -= entry.held.value.nbytes;
    recent_.erase(entry.place);
  } else {
    slow_bytes_ -= entry.held.value.nbytes;
  }
  if (entry.held.spilled) disk_bytes_ -= entry.held.spilled->bytes();
  entries_.erase(found);
}

Store::Entry* Store::find(ValueId id) {
  const auto found = entries_.find(id.value);
  return found == entries_.end() ? nullptr : &found->second;
}

void Store::touch(Entry& entry) {
  if (!entry.in_memory) return;
  entry.leaving = false;
  recent_.splice(recent_.end(), recent_, entry.place);
}

const Held* Store::get(ValueId id) {
  Entry* entry = find(id);
  if (!entry) return nullptr;
  touch(*entry);
  return &entry->held;
}

const Held* Store::peek(ValueId id) const {
  const auto found = entries_.find(id.value);
  return found == entries_.end() ? nullptr : &found->second.held;
}

//! A value comes back into memory.
void Store::admit(ValueId id, Entry& entry) {
  if (entry.in_memory) return;
  entry.in_memory = true;
  entry.place = recent_.insert(recent_.end(), id);
  slow_bytes_ -= entry.held.value.nbytes;
  fast_bytes_ += entry.held.value.nbytes;
}

void Store::set_live(ValueId id, LiveRef live, bool keep_packed) {
  Entry* entry = find(id);
  if (!entry) return;
  admit(id, *entry);
  entry->held.value.live = std::move(live);
  if (!keep_packed) entry->held.value.packed = nullptr;
}

void Store::set_packed(ValueId id, PayloadRef packed) {
  Entry* entry = find(id);
  if (entry && entry->in_memory) entry->held.value.packed = std::move(packed);
}

void Store::set_type(ValueId id, TypeRef type) {
  if (Entry* entry = find(id)) entry->held.type = std::move(type);
}

std::optional<std::pair<ValueId, Held>> Store::next_victim() {
  for (const ValueId id : recent_) {
    Entry& entry = entries_.at(id.value);
    if (entry.leaving || entry.pinned) continue;
    entry.leaving = true;
    return std::pair(id, entry.held);
  }
  return std::nullopt;
}

bool Store::evict(ValueId id, SpillRef file) {
  Entry* entry = find(id);
  if (!entry || !entry->leaving) return false;
  entry->leaving = false;
  entry->in_memory = false;
  recent_.erase(entry->place);
  fast_bytes_ -= entry->held.value.nbytes;
  slow_bytes_ += entry->held.value.nbytes;
  if (!entry->held.spilled) disk_bytes_ += file->bytes();
  entry->held.spilled = std::move(file);
  entry->held.value.live = nullptr;
  entry->held.value.packed = nullptr;
  return true;
}

void Store::keep(ValueId id, bool never) {
  Entry* entry = find(id);
  if (!entry) return;
  entry->leaving = false;
  entry->pinned = entry->pinned || never;
}

}  // namespace worker
