//! What the scheduler asks for: compute, free, replicate, steal, and news of who holds what.
//!
//! Answers to: WorkerState._handle_compute_task and the handlers of the other stream messages.
#include <algorithm>

#include "worker/core/state.h"

namespace worker {
namespace {

using enum TaskState;

constexpr double kReplicaPriority[] = {1};

TaskId ensure_wanted(State& s, KeyView key, const Priority& priority) {
  const TaskId id = s.ensure_task(key);
  Task& task = s.tasks[id];
  if (task.priority.empty()) task.priority = priority;
  return id;
}

void link_dependencies(State& s, TaskId id, std::span<const Replica> replicas) {
  const Priority priority = s.tasks[id].priority;
  const std::uint64_t mark = ++s.serial;
  s.tasks[id].seen = mark;
  for (EdgeId edge : s.tasks[id].dependencies) s.tasks[s.tasks[edge].dependency].seen = mark;
  for (const Replica& replica : replicas) {
    const TaskId needed_id = ensure_wanted(s, replica.key, priority);
    Task& needed = s.tasks[needed_id];
    if (needed.state != memory) needed.nbytes = replica.nbytes;
    if (needed.seen == mark) continue;
    needed.seen = mark;
    s.tasks.link(id, needed_id);
  }
}

void update_who_has(State& s, std::span<const Replica> replicas) {
  for (const Replica& replica : replicas) {
    if (const auto id = s.tasks.find(replica.key)) s.peers.set_who_has(*id, replica.who_has);
  }
}

bool runs(const Task& task) {
  return task.activity == Activity::executing || task.activity == Activity::long_running;
}

void start_over(State& s, TaskId id, const ComputeTask& e) {
  Task& task = s.tasks[id];
  s.recommend(id, waiting);
  task.work = e.work;
  task.priority = e.priority.with(s.generation);
  s.generation -= 1;
  if (e.actor) task.actor = true;
  // What still runs gives back what it took, whatever is asked for now.
  if (!runs(task)) {
    task.resources.clear();
    for (const auto& [name, amount] : e.resources) {
      task.resources.emplace_back(resource_index(s, name), amount);
    }
  }
  task.chained = std::any_of(e.dependencies.begin(), e.dependencies.end(),
                             [](const Replica& replica) { return replica.who_has.empty(); });
  link_dependencies(s, id, e.dependencies);
  update_who_has(s, e.dependencies);
}

//! True if the task may still be given away.
bool not_started(const Task& task) {
  return task.state == waiting || task.state == ready || task.state == constrained;
}

}  // namespace

void on_event(State& s, const ComputeTask& e) {
  const TaskId id = s.ensure_task(e.key);
  Task& task = s.tasks[id];
  task.run = e.run;
  switch (task.state) {
    case waiting: case ready: case constrained: case executing: case long_running:
      return;  // Already on its way; it reports the new run.
    case memory:
      s.emit(SendTaskFinished{id, e.run});
      return;
    default:
      start_over(s, id, e);
  }
}

void on_event(State& s, const FreeKeys& e) {
  for (KeyView key : e.keys) {
    if (const auto id = s.tasks.find(key)) s.recommend(*id, released);
  }
}

void on_event(State& s, const RemoveReplicas& e) {
  for (KeyView key : e.keys) {
    const auto id = s.tasks.find(key);
    if (!id || s.tasks[*id].state != memory) continue;
    bool in_use = false;
    for (EdgeId at = s.tasks[*id].first_dependent; at.valid() && !in_use; at = s.tasks[at].next) {
      const TaskState state = s.tasks[s.tasks[at].dependent].state;
      in_use = state == executing || state == long_running;
    }
    if (!in_use) {
      s.recommend(*id, released);
      continue;
    }
    // Stock raises and closes the worker. We keep the value and say that it is still here.
    s.note(Note::Kind::replica_in_use, key);
    s.emit(SendAddKeys{*id});
  }
}

void on_event(State& s, const AcquireReplicas& e) {
  for (const Replica& replica : e.replicas) {
    // After dependencies of ordinary tasks, before those of tasks with low user priority.
    const TaskId id = ensure_wanted(s, replica.key, Priority(kReplicaPriority));
    Task& task = s.tasks[id];
    if (task.state == memory) continue;
    task.nbytes = replica.nbytes;
    s.recommend(id, fetch);
  }
  update_who_has(s, e.replicas);
}

void on_event(State& s, const StealRequest& e) {
  const auto id = s.tasks.find(e.key);
  const TaskState state = id ? s.tasks[*id].state : forgotten;
  s.emit(SendStealResponse{Key{std::string(e.key.bytes)}, state});
  if (id && not_started(s.tasks[*id])) s.recommend(*id, released);
}

void on_event(State& s, const CancelCompute& e) {
  const auto id = s.tasks.find(e.key);
  if (id && not_started(s.tasks[*id])) s.recommend(*id, released);
}

void on_event(State& s, const RefreshWhoHas& e) {
  update_who_has(s, e.who_has);
  for (const Replica& replica : e.who_has) {
    const auto id = s.tasks.find(replica.key);
    if (!id) continue;
    const Task& task = s.tasks[*id];
    if (!task.who_has.empty() && task.state == missing) s.recommend(*id, fetch);
    if (task.who_has.empty() && task.state == fetch) s.recommend(*id, missing);
  }
}

void on_event(State& s, const FindMissing&) {
  if (!s.missing.empty()) s.emit(SendRequestRefreshWhoHas{s.missing});
}

void on_event(State& s, const UpdateData& e) {
  for (const Scattered& scattered : e.data) {
    const TaskId id = s.ensure_task(scattered.key);
    const Task& task = s.tasks[id];
    const std::uint32_t offer = s.offer(id, scattered.value, scattered.nbytes);
    // What runs will bring the value itself; until then its place is taken.
    if (task.state == memory || runs(task)) continue;
    s.recommend({.task = id, .finish = memory, .run = task.run, .offer = offer});
  }
}

}  // namespace worker
