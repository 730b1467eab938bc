#include "scheduler/core/transitions.h"

#include <algorithm>

#include "scheduler/core/activation.h"
#include "scheduler/core/admission.h"
#include "scheduler/core/ahead.h"
#include "scheduler/core/assignment.h"
#include "scheduler/core/later.h"
#include "scheduler/core/placement.h"
#include "scheduler/core/release.h"
#include "scheduler/core/shuffle.h"

namespace scheduler {

namespace {

using S = TaskState;

void released_waiting(State& state, TaskId id) {
  Task& task = state.tasks[id];
  if (task.has_lost_dependencies || !task.spec) return recommend(state, id, S::forgotten);
  for (Edge& edge : task.dependents) {
    const S other = state.tasks[edge.task].state;
    state.set_waiter(task, edge, other == S::waiting || other == S::staged);
  }
  // Those who needed it may have gone since this was recommended.
  if (!task.needed()) return let_go_of_inputs(state, task);
  for (const Edge& edge : task.dependencies) {
    const Task& input = state.tasks[edge.task];
    if (input.state != S::erred) continue;
    return blame(state, id, input.extra->error);  // waiting for it would never end
  }
  state.set_state(task, S::waiting);
  for (Edge& edge : task.dependencies) {
    Task& input = state.tasks[edge.task];
    if (input.who_has.empty()) state.set_waiting_on(task, edge, true);
    if (dormant(state, input)) {
      recommend(state, edge.task, S::waiting);
    } else {
      state.set_waiter(input, state.other_end_of_dependency(edge), true);
    }
  }
  if (task.waiting_on == 0) return recommend(state, id, S::processing);
  chain_onto(state, id);
}

void waiting_processing(State& state, TaskId id) {
  Task& task = state.tasks[id];
  if (task.waiting_on > 0) return;  // an input was lost after this was recommended
  if (bounded(state, task)) return place_bounded(state, id);
  if (task.ahead_on.valid()) {  // its worker has it already, and the inputs too
    if (!task.restricted() && state.worker(task.ahead_on).running()) return promote(state, id);
    leave_ahead(state, id);
  }
  if (!is_rootish(state, task)) {
    Worker* worker = decide_worker_non_rootish(state, id);
    return worker != nullptr ? assign(state, id, *worker) : recommend(state, id, S::no_worker);
  }
  if (state.config.worker_saturation > 1e15 || !task.queueable) {
    Worker* worker = decide_worker_rootish_queuing_disabled(state, id);
    return worker != nullptr ? assign(state, id, *worker) : recommend(state, id, S::no_worker);
  }
  Worker* worker = decide_worker_rootish_queuing_enabled(state, task);
  return worker != nullptr ? start(state, id, *worker) : recommend(state, id, S::queued);
}

void waiting_no_worker(State& state, TaskId id) {
  Task& task = state.tasks[id];
  state.set_state(task, S::no_worker);
  task.processing_place = state.next_unrunnable++;
  state.unrunnable.emplace(task.processing_place, Unrunnable{id, state.now.mono});
}

void waiting_queued(State& state, TaskId id) {
  Task& task = state.tasks[id];
  state.set_state(task, S::queued);
  if (bounded(state, task)) return state.lanes.push(id, task);
  task.processing_place = state.queue.push(id);
}

void no_worker_processing(State& state, TaskId id) {
  if (bounded(state, state.tasks[id])) return place_unrunnable(state, id);
  if (Worker* worker = decide_worker_non_rootish(state, id)) {
    leave_unrunnable(state, id);
    assign(state, id, *worker);
  }
}

void queued_processing(State& state, TaskId id) {
  if (bounded(state, state.tasks[id])) return;  // start_delayed knows whose turn it is
  if (Worker* worker = decide_worker_rootish_queuing_enabled(state, state.tasks[id])) {
    leave_queue(state, id);
    start(state, id, *worker);
  } else {
    note_delayed(state, id);
  }
}

//! The task is in state erred from now on, because of the error it has.
void propagate_erred(State& state, TaskId id) {
  Task& task = state.tasks[id];
  state.set_state(task, S::erred);
  tell_dependents(state, id);
  for (const Edge& edge : task.dependencies) {
    Task& input = state.tasks[edge.task];
    state.set_waiter(input, state.other_end_of_dependency(edge), false);
    if (!input.needed()) recommend(state, edge.task, S::released);
  }
  state.clear_waiters(task);
  report(state, id);
  if (state.fire_and_forget.valid()) release_want(state, state.fire_and_forget, id);
}

void ready_erred(State& state, TaskId id) {
  Task& task = state.tasks[id];
  if (task.extra == nullptr || task.extra->error == nullptr) return;
  if (task.state == S::processing) {
    const WorkerId worker = task.processing_on;
    const auto& knows = task.extra->erred_on;
    if (task.actor) state.remove_actor(state.worker(worker), id);
    unchain_after(state, id, worker);
    const bool told = leave_processing(state, id);
    // It errs because of an input, and the worker still means to run it.
    if (told && std::find(knows.begin(), knows.end(), worker) == knows.end()) {
      state.emit(SendFree{worker, id});
    }
  } else if (task.state == S::queued) {
    leave_queue(state, id);
  } else {
    leave_unrunnable(state, id);
  }
  propagate_erred(state, id);
}

void released_erred(State& state, TaskId id) {
  Task& task = state.tasks[id];
  if (task.extra == nullptr || task.extra->error == nullptr) return;
  const TaskErrorRef error = task.extra->error;
  for (const Edge& edge : task.dependents) {
    const Task& dependent = state.tasks[edge.task];
    if (dependent.who_has.empty() && dependent.state != S::staged) blame(state, edge.task, error);
  }
  for (const Edge& edge : task.dependencies) {  // an input may have begun for this task alone
    Task& input = state.tasks[edge.task];
    state.set_waiter(input, state.other_end_of_dependency(edge), false);
    if (!input.needed()) recommend(state, edge.task, S::released);
  }
  state.clear_waiters(task);
  state.set_state(task, S::erred);
  report(state, id);
  if (state.fire_and_forget.valid()) release_want(state, state.fire_and_forget, id);
}

//! An actor whose worker is gone cannot be made again: its state is lost.
void memory_erred(State& state, TaskId id) {
  Task& task = state.tasks[id];
  free_replicas(state, id);
  auto error = std::make_shared<TaskError>();
  error->failed = task.key_ref;
  error->own.kind = OwnError::Kind::lost_actor;
  state.extra(task).error = std::move(error);
  propagate_erred(state, id);
}

//! One entry of the table; false: there is no direct transition.
bool hop(State& state, TaskId id, S target) {
  const S from = state.tasks[id].state;
  switch (from) {
    case S::released:
      if (target == S::waiting) return released_waiting(state, id), true;
      if (target == S::forgotten) return forget(state, id), true;
      if (target == S::erred) return released_erred(state, id), true;
      return false;
    case S::waiting:
      if (target == S::released) return waiting_released(state, id), true;
      if (target == S::processing) return waiting_processing(state, id), true;
      if (target == S::no_worker) return waiting_no_worker(state, id), true;
      if (target == S::queued) return waiting_queued(state, id), true;
      return target == S::memory;  // a finish that was overtaken by the loss of an input
    case S::queued:
      if (target == S::processing) return queued_processing(state, id), true;
      if (target == S::released) return ready_released(state, id), true;
      return target == S::erred && (ready_erred(state, id), true);
    case S::no_worker:
      if (target == S::processing) return no_worker_processing(state, id), true;
      if (target == S::released) return ready_released(state, id), true;
      return target == S::erred && (ready_erred(state, id), true);
    case S::processing:
      if (target == S::released) return ready_released(state, id), true;
      return target == S::erred && (ready_erred(state, id), true);
    case S::memory:
      if (target == S::released) return memory_released(state, id), true;
      if (target == S::forgotten) return forget(state, id), true;
      return target == S::erred && state.tasks[id].actor && (memory_erred(state, id), true);
    case S::erred: return target == S::released && (erred_released(state, id), true);
    case S::staged:
    case S::forgotten: return true;
  }
  return true;
}

//! The task stays as it is. A recommendation that was replaced may have left something undone.
void come_to_rest(State& state, TaskId id) {
  Task& task = state.tasks[id];
  // It was to err with its input, but is not even needed: the blame is off.
  if (task.state == S::released && task.error() != nullptr) task.extra->error = nullptr;
  if (task.dependents.empty() && !task.needed()) recommend(state, id, S::forgotten);
}

}  // namespace

void erred_released(State& state, TaskId id) {
  Task& task = state.tasks[id];
  task.extra->error = nullptr;
  for (const Edge& edge : told_now(state, task)) {
    if (state.tasks[edge.task].state == S::erred) recommend(state, edge.task, S::waiting);
  }
  for (const WorkerId worker : task.extra->erred_on) {
    if (state.has_worker(worker)) state.emit(SendFree{worker, id});
  }
  task.extra->erred_on.clear();
  for (const Want& want : task.who_wants) state.tell(ReportRetried{want.client, id});
  state.set_state(task, S::released);
}

void recommend(State& state, TaskId id, TaskState target) {
  Task& task = state.tasks[id];
  if (task.recommended == S::staged) state.recommendations.push_back(id);
  task.recommended = target;
}

void blame(State& state, TaskId id, const TaskErrorRef& error) {
  Task& task = state.tasks[id];
  if (state.recommendations.size() >= state.config.transitions_at_once &&
      task.state == S::waiting && task.recommended == S::staged) {
    return state.put_off.push_back(id);  // it will find the error
  }
  state.extra(task).error = error;
  recommend(state, id, S::erred);
}

bool dormant(const State& state, const Task& task) {
  return task.state == S::released || (task.state == S::staged && state.visible(task));
}

void transition(State& state, TaskId id, TaskState target) {
  Task& task = state.tasks[id];
  if (task.state == S::staged) {
    if (target == S::released) return;
    if (!state.visible(task)) {
      if (target == S::forgotten) end_bare_key(state, id);
      return;
    }
    state.set_state(task, S::released);
  }
  if (task.state == target || task.state == S::forgotten) return;
  // Only a retry or the end makes an erred task leave that state, not that nobody needs it.
  if (task.state == S::erred && target == S::released) return;
  if (hop(state, id, target)) return;
  if (task.state == S::released || target == S::released) return;  // no such way; see header
  hop(state, id, S::released);
  if (task.state != S::released) return;
  hop(state, id, task.recommended != S::staged ? task.recommended : target);
}

void run_transitions(State& state) {
  while (!state.recommendations.empty()) {
    const TaskId id = state.recommendations.back();
    state.recommendations.pop_back();
    Task& task = state.tasks[id];
    const TaskState target = task.recommended;
    task.recommended = S::staged;
    if (enough_done(state) && put_off(state, id, target)) continue;
    ++state.hops;
    transition(state, id, target);
    const bool rests = task.state == S::released || task.state == S::erred;
    if (rests && task.recommended == S::staged) come_to_rest(state, id);
  }
}

void fill_slots(State& state) {
  promote_held(state);
  while (!state.queue.empty() && !state.open.empty()) {
    const TaskId id = state.queue.front();
    if (!state.lanes.empty()) {
      start_delayed(state, &state.tasks[id].priority);
      if (state.open.empty() || state.queue.empty() || state.queue.front() != id) continue;
    }
    transition(state, id, S::processing);
    run_transitions(state);
    if (state.tasks[id].state == S::queued) break;
  }
  start_delayed(state);
  promote_held(state);
  run_transitions(state);
  send_ahead(state);
}

void to_erred(State& state, TaskId id, TaskErrorRef error, WorkerId where) {
  Task& task = state.tasks[id];
  TaskExtra& extra = state.extra(task);
  extra.error = std::move(error);
  if (where.valid()) extra.erred_on.push_back(where);
  note_shuffle_failure(state, task);
  ready_erred(state, id);
}

void report_to(State& state, ClientId client, TaskId id) {
  const Task& task = state.tasks[id];
  if (task.state == S::memory) state.tell(ReportInMemory{client, id, Slice()});
  if (task.state == S::erred) {
    state.tell(ReportErred{client, id});
    state.errors_reported = true;
  }
}

void report(State& state, TaskId id) {
  for (const Want& want : state.tasks[id].who_wants) report_to(state, want.client, id);
}

}  // namespace scheduler
