#include "scheduler/core/release.h"

#include <algorithm>

#include "scheduler/core/ahead.h"
#include "scheduler/core/assignment.h"
#include "scheduler/core/transitions.h"

namespace scheduler {

namespace {

using S = TaskState;

void abandon_dependencies(State& state, TaskId id) {
  Task& task = state.tasks[id];
  while (!task.dependencies.empty()) {
    const TaskId input_id = task.dependencies.back().task;
    state.unlink(id, task.dependencies.size() - 1);
    const Task& input = state.tasks[input_id];
    if (input.dependents.empty() && input.who_wants.empty() && input.pins == 0) {
      recommend(state, input_id, S::forgotten);
    } else if (!input.needed() && input.state != S::staged) {
      recommend(state, input_id, S::released);  // it was kept for this one, put off to run again
    }
  }
}

void abandon_clients(State& state, TaskId id) {
  Task& task = state.tasks[id];
  while (!task.who_wants.empty()) {
    const ClientId client = task.who_wants.front().client;
    state.tell(ReportCancelled{client, {Key{std::string(task.key().bytes)}}, "already forgotten",
                               "", false});
    state.remove_want(client, id);
  }
}

//! What is left of a pinned task: a key that open submissions refer to and nobody can compute.
void become_ghost(State& state, TaskId id) {
  Task& task = state.tasks[id];
  state.set_state(task, S::staged);
  task.spec.reset();
  task.annotations = nullptr;
  task.extra = nullptr;
  task.has_lost_dependencies = false;
  task.prioritised = false;
  task.actor = false;
}

}  // namespace

void let_go_of_inputs(State& state, Task& task) {
  for (const Edge& edge : task.dependencies) {
    Task& input = state.tasks[edge.task];
    Edge& there = state.other_end_of_dependency(edge);
    if (!there.flag) continue;
    state.set_waiter(input, there, false);
    if (!input.needed()) recommend(state, edge.task, S::released);
  }
}

void abandon_dependents(State& state, Task& task) {
  std::size_t kept = 0;
  while (task.dependents.size() > kept) {
    const Edge edge = task.dependents.back();
    Task& dependent = state.tasks[edge.task];
    if (dependent.state == S::staged && !state.visible(dependent)) {
      // Swap it to the front part, which stays.
      const Edge other = task.dependents[kept];
      task.dependents[kept] = edge;
      task.dependents.back() = other;
      state.other_end_of_dependent(edge).place = static_cast<std::uint32_t>(kept);
      state.other_end_of_dependent(other).place =
          static_cast<std::uint32_t>(task.dependents.size() - 1);
      ++kept;
      continue;
    }
    dependent.has_lost_dependencies = true;
    state.unlink(edge.task, edge.place);
    if (dependent.state != S::memory && dependent.state != S::erred) {
      recommend(state, edge.task, S::forgotten);
    }
  }
}

void free_replicas(State& state, TaskId id) {
  for (const Replica& replica : state.tasks[id].who_has) {
    if (!state.has_worker(replica.worker)) continue;
    input_leaves(state, state.tasks[id], replica.worker);
    state.emit(SendFree{replica.worker, id});
  }
  state.remove_all_replicas(id);
}

void waiting_released(State& state, TaskId id) {
  Task& task = state.tasks[id];
  if (task.ahead_on.valid()) leave_ahead(state, id);
  let_go_of_inputs(state, task);
  state.clear_waiting_on(task);
  state.set_state(task, S::released);
  if (task.has_lost_dependencies) {
    recommend(state, id, S::forgotten);
  } else if (task.error() == nullptr && task.needed()) {
    recommend(state, id, S::waiting);
  } else {
    state.clear_waiters(task);
  }
}

void ready_released(State& state, TaskId id) {
  Task& task = state.tasks[id];
  if (task.state == S::processing) {
    const WorkerId worker = task.processing_on;
    if (task.actor) state.remove_actor(state.worker(worker), id);
    unchain_after(state, id, worker);
    if (leave_processing(state, id)) state.emit(SendFree{worker, id});
  } else if (task.state == S::queued) {
    leave_queue(state, id);
  } else {
    leave_unrunnable(state, id);
  }
  state.set_state(task, S::released);
  if (!task.has_lost_dependencies && task.needed()) return recommend(state, id, S::waiting);
  if (task.has_lost_dependencies) recommend(state, id, S::forgotten);
  let_go_of_inputs(state, task);
  state.clear_waiters(task);
}

void memory_released(State& state, TaskId id) {
  Task& task = state.tasks[id];
  if (task.actor) {
    for (const Replica& replica : task.who_has) state.remove_actor(state.worker(replica.worker), id);
    if (!task.who_wants.empty()) return recommend(state, id, S::erred);
  }
  free_replicas(state, id);
  state.set_state(task, S::released);
  for (const Want& want : task.who_wants) state.tell(ReportLost{want.client, id});
  if (!task.spec || task.has_lost_dependencies) {
    recommend(state, id, S::forgotten);
  } else if (task.needed()) {
    recommend(state, id, S::waiting);  // if an input has erred meanwhile, it will err as well
  }
  for (const Edge& edge : task.dependents) {
    if (!edge.flag) continue;
    Task& dependent = state.tasks[edge.task];
    if (dependent.state == S::waiting) {
      state.set_waiting_on(dependent, state.other_end_of_dependent(edge), true);
    } else if (dependent.state != S::staged && dependent.state != S::released) {
      recommend(state, edge.task, S::waiting);  // a released one is on its way there already
    }
  }
}

void forget(State& state, TaskId id) {
  Task& task = state.tasks[id];
  if (task.actor) {
    for (const Replica& replica : task.who_has) state.remove_actor(state.worker(replica.worker), id);
  }
  abandon_dependents(state, task);
  abandon_dependencies(state, id);
  free_replicas(state, id);
  abandon_clients(state, id);
  if (task.pins > 0 || !task.dependents.empty()) return become_ghost(state, id);
  state.set_state(task, S::forgotten);
  state.bury(id);
}

void release_want(State& state, ClientId client, TaskId id) {
  if (state.remove_want(client, id)) reconsider(state, id);
}

void reconsider(State& state, TaskId id) {
  const Task& task = state.tasks[id];
  if (!task.who_wants.empty() || task.pins > 0) return;
  if (task.dependents.empty()) {
    recommend(state, id, S::forgotten);
  } else if (task.state != S::erred && task.waiters == 0) {
    recommend(state, id, S::released);
  }
}

}  // namespace scheduler
