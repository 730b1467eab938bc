#include "scheduler/core/task_table.h"

#include <absl/hash/hash.h>

namespace scheduler {

std::string_view state_name(TaskState state) {
  switch (state) {
    case TaskState::staged:
    case TaskState::released: return "released";
    case TaskState::waiting: return "waiting";
    case TaskState::no_worker: return "no-worker";
    case TaskState::queued: return "queued";
    case TaskState::processing: return "processing";
    case TaskState::memory: return "memory";
    case TaskState::erred: return "erred";
    case TaskState::forgotten: return "forgotten";
  }
  return "";
}

TaskTable::TaskTable() {
  shards_.reserve(kShards);
  for (std::size_t i = 0; i < kShards; ++i) shards_.emplace_back(0, SlotHash{}, SlotEqual{this});
}

TaskTable::Probe TaskTable::probe(KeyView key) {
  return Probe{absl::Hash<ByteView>{}(key.bytes), key};
}

TaskId TaskTable::find(KeyView key) const {
  const Probe wanted = probe(key);
  const Shard& shard_of_key = shard(wanted.hash);
  const auto found = shard_of_key.find(wanted);
  return found == shard_of_key.end() ? TaskId() : found->id;
}

std::pair<TaskId, bool> TaskTable::intern(KeyView key) {
  const Probe wanted = probe(key);
  Shard& shard_of_key = shard(wanted.hash);
  if (const auto found = shard_of_key.find(wanted); found != shard_of_key.end()) {
    return {found->id, false};
  }
  const TaskId id = allocate();
  (*this)[id].key_ref = KeyRef(key);
  shard_of_key.insert(Slot{half(wanted.hash), id});
  ++size_;
  return {id, true};
}

void TaskTable::bury(TaskId id) {
  const Probe wanted = probe((*this)[id].key());
  Shard& shard_of_key = shard(wanted.hash);
  const auto found = shard_of_key.find(wanted);
  CHECK_ALWAYS(found != shard_of_key.end());
  shard_of_key.erase(found);
  if (shard_of_key.empty() && shard_of_key.capacity() > 128) shard_of_key.clear();
  (*this)[id].state = TaskState::forgotten;
  buried_.push_back(id);
  --size_;
}

void TaskTable::sweep() {
  for (const TaskId id : buried_) release(id);
  buried_.clear();
  if (buried_.capacity() > 65536) buried_.shrink_to_fit();
}

void TaskTable::clear() {
  for (auto& chunk : chunks_) {
    if (chunk) old_.push_back(std::move(chunk));
  }
  chunks_.clear();
  open_.clear();
  vacant_.clear();
  buried_.clear();
  for (Shard& each : shards_) each.clear();
  size_ = 0;
}

bool TaskTable::free_old_chunk() {
  if (!old_.empty()) old_.pop_back();
  return !old_.empty();
}

bool TaskTable::alive(TaskId id) const {
  const std::size_t index = id.value / kChunk;
  if (!id.valid() || index >= chunks_.size() || !chunks_[index]) return false;
  const Task& task = (*this)[id];
  return task.key_ref && task.state != TaskState::forgotten;
}

TaskId TaskTable::allocate() {
  while (!open_.empty()) {
    const auto& chunk = chunks_[open_.back()];
    if (chunk && chunk->live < kChunk) break;
    open_.pop_back();
  }
  if (open_.empty()) {
    if (vacant_.empty()) {
      vacant_.push_back(static_cast<std::uint32_t>(chunks_.size()));
      chunks_.emplace_back();
    }
    open_.push_back(vacant_.back());
    vacant_.pop_back();
    chunks_[open_.back()] = std::make_unique<Chunk>();
  }
  const std::uint32_t index = open_.back();
  Chunk& chunk = *chunks_[index];
  std::uint32_t slot = chunk.free_head;
  if (slot == kChunk) {
    slot = chunk.used++;
  } else {
    chunk.free_head = chunk.tasks[slot].mark;
    chunk.tasks[slot].mark = 0;
  }
  ++chunk.live;
  return TaskId(static_cast<std::uint32_t>(index * kChunk + slot));
}

void TaskTable::release(TaskId id) {
  const auto index = static_cast<std::uint32_t>(id.value / kChunk);
  Chunk& chunk = *chunks_[index];
  const auto slot = static_cast<std::uint32_t>(id.value % kChunk);
  chunk.tasks[slot] = Task{};
  chunk.tasks[slot].mark = chunk.free_head;
  chunk.free_head = slot;
  if (chunk.live-- == kChunk) open_.push_back(index);
  if (chunk.live > 0) return;
  // One empty chunk is kept, so that a table that breathes does not allocate with every breath.
  if (spare_ < chunks_.size() && spare_ != index && chunks_[spare_] && chunks_[spare_]->live == 0) {
    chunks_[index].reset();
    vacant_.push_back(index);
  } else {
    spare_ = index;
  }
}

}  // namespace scheduler
