#include "scheduler/core/replicas.h"

#include <algorithm>

#include "scheduler/core/ahead.h"

namespace scheduler {

namespace {

//! Memory of all workers as it will be when the drops decided so far are done.
using MemoryByRank = std::vector<std::uint64_t>;

//! How many places tasks that wait for this one will look for it.
std::size_t places_needed(const State& state, const Task& task) {
  if (task.waiters <= 1 || task.waiters >= 20) return std::max<std::size_t>(task.waiters, 1);
  absl::InlinedVector<WorkerId, 20> places;
  std::size_t unplaced = 0;
  for (const Edge& edge : task.dependents) {
    if (!edge.flag) continue;
    const Task& waiter = state.tasks[edge.task];
    const WorkerId at = waiter.ahead_on.valid() ? waiter.ahead_on : waiter.processing_on;
    if (!at.valid()) {
      ++unplaced;
    } else if (std::find(places.begin(), places.end(), at) == places.end()) {
      places.push_back(at);
    }
  }
  return std::max<std::size_t>(places.size() + unplaced, 1);
}

bool dependent_processing_on(const State& state, const Task& task, WorkerId worker) {
  return std::any_of(task.dependents.begin(), task.dependents.end(), [&](const Edge& edge) {
    const Task& waiter = state.tasks[edge.task];
    return edge.flag && (waiter.processing_on == worker || waiter.ahead_on == worker);
  });
}

//! Which holder should drop its copy; invalid: none may.
WorkerId find_dropper(const State& state, const Task& task, const MemoryByRank& memory) {
  if (task.who_has.size() < 2 || task.actor) return {};
  std::vector<const Worker*> candidates;
  bool busy_holders = false;
  bool busy_holders_all_leaving = true;
  for (const Replica& replica : task.who_has) {
    const Worker& worker = state.worker(replica.worker);
    if (!dependent_processing_on(state, task, worker.id)) {
      candidates.push_back(&worker);
      continue;
    }
    busy_holders = true;
    busy_holders_all_leaving = busy_holders_all_leaving && !worker.running();
  }
  if (candidates.empty()) return {};
  const auto less = [&](const Worker* a, const Worker* b) {
    return std::pair(!a->running(), memory[a->rank]) < std::pair(!b->running(), memory[b->rank]);
  };
  const Worker& chosen = **std::max_element(candidates.begin(), candidates.end(), less);
  // The only copy on a worker that stays, while the others are on workers that leave but are
  // still busy with it: keep it, or it would be copied back at once.
  if (candidates.size() == 1 && chosen.running() && busy_holders && busy_holders_all_leaving) {
    return {};
  }
  return chosen.id;
}

void ask_to_drop(State& state, TaskId id, WorkerId worker) {
  input_leaves(state, state.tasks[id], worker);
  state.remove_replica(id, worker);
  state.emit(SendRemoveReplica{worker, Key{std::string(state.tasks[id].key().bytes)}});
}

}  // namespace

std::uint64_t optimistic_memory(const Worker& worker) {
  const std::uint64_t managed = worker.nbytes - std::min(worker.nbytes, worker.spilled_memory);
  const std::uint64_t in_process = std::min(managed, worker.memory_rss);
  const std::uint64_t unmanaged = worker.memory_rss - in_process;
  return in_process + std::min(unmanaged, worker.unmanaged_old);
}

void reduce_replicas(State& state) {
  if (state.replicated.empty()) return;
  std::vector<TaskId> tasks(state.replicated.begin(), state.replicated.end());
  std::sort(tasks.begin(), tasks.end());
  MemoryByRank memory;
  for (const WorkerId id : state.by_rank) memory.push_back(optimistic_memory(state.worker(id)));
  for (const TaskId id : tasks) {
    const Task& task = state.tasks[id];
    const std::size_t needed = places_needed(state, task);
    for (std::size_t n = task.who_has.size(); n > needed; --n) {
      const WorkerId dropper = find_dropper(state, task, memory);
      if (!dropper.valid()) break;
      std::uint64_t& left = memory[state.worker(dropper).rank];
      left -= std::min(left, state.size_of(task));
      ask_to_drop(state, id, dropper);
    }
  }
}

void on_replicas_wanted(State& state, const ReplicasWanted& wanted) {
  if (!state.has_worker(wanted.worker)) return;
  for (const KeyView key : wanted.keys) {
    const TaskId id = state.find(key);
    if (!id.valid()) continue;
    const Task& task = state.tasks[id];
    if (task.state != TaskState::memory || task.actor || task.on(wanted.worker)) continue;
    state.emit(SendAcquireReplica{wanted.worker, id});
  }
}

void on_replicas_unwanted(State& state, const ReplicasUnwanted& unwanted) {
  if (!state.has_worker(unwanted.worker)) return;
  for (const KeyView key : unwanted.keys) {
    const TaskId id = state.find(key);
    if (!id.valid()) continue;
    const Task& task = state.tasks[id];
    if (!task.on(unwanted.worker) || task.who_has.size() < 2 || task.actor) continue;
    if (dependent_processing_on(state, task, unwanted.worker)) continue;
    ask_to_drop(state, id, unwanted.worker);
  }
}

}  // namespace scheduler
