#include "scheduler/core/assignment.h"

#include "scheduler/core/admission.h"
#include "scheduler/core/ahead.h"
#include "scheduler/core/placement.h"
#include "scheduler/core/stealing.h"
#include "scheduler/core/transitions.h"

namespace scheduler {

namespace {

//! Its inputs are larger than the worker: sending the task would only kill the worker. Unless the
//! worker never has them in memory together.
bool too_large(const State& state, const Task& task, const Worker& worker, std::uint64_t& bytes) {
  if (worker.memory_limit == 0 || !state.config.memory_terminate) return false;
  if (worker.rask && task.annotations && task.annotations->lazy) return false;
  for (const Edge& edge : task.dependencies) {
    bytes += static_cast<std::uint64_t>(std::max<std::int64_t>(state.tasks[edge.task].nbytes, 0));
  }
  return bytes > worker.memory_limit;
}

}  // namespace

void hand_over(State& state, TaskId id, const Worker& worker) {
  Task& task = state.tasks[id];
  task.run = RunId(state.next_run++);
  task.compute_pending = true;
  state.computes.push_back(SendCompute{worker.id, id, task.run});
}

void assign(State& state, TaskId id, Worker& worker) {
  if (!take_up(state, id, worker)) return;
  hand_over(state, id, worker);
  chain_after(state, id);
}

bool take_up(State& state, TaskId id, Worker& worker) {
  Task& task = state.tasks[id];
  state.add_to_processing(id, worker);
  state.set_state(task, TaskState::processing);
  state.check_idle_saturated(worker);
  ++state.n_tasks;
  if (task.actor) state.add_actor(worker, id);
  std::uint64_t bytes = 0;
  if (too_large(state, task, worker, bytes)) {
    task.compute_pending = true;  // so that the worker, which was never told, is not told to free
    auto error = std::make_shared<TaskError>();
    error->failed = task.key_ref;
    error->own.kind = OwnError::Kind::memory_limit;
    error->own.worker = worker.address;
    error->own.input_bytes = bytes;
    error->own.memory_limit = worker.memory_limit;
    error->own.is_final = task.dependents.empty();
    to_erred(state, id, std::move(error), WorkerId());
    return false;
  }
  make_stealable(state, id);
  return true;
}

void reassign(State& state, TaskId id, Worker& thief) {
  Task& task = state.tasks[id];
  Worker& victim = state.worker(task.processing_on);
  forget_theft(state, id);
  make_unstealable(state, id);
  unchain_after(state, id, victim.id);
  state.remove_from_processing(id, victim);
  state.add_to_processing(id, thief);
  if (task.actor) {
    state.remove_actor(victim, id);
    state.add_actor(thief, id);
  }
  make_stealable(state, id);
  hand_over(state, id, thief);
  chain_after(state, id);
}

bool leave_processing(State& state, TaskId id) {
  Task& task = state.tasks[id];
  Worker& worker = state.worker(task.processing_on);
  const bool told = !task.compute_pending;
  task.compute_pending = false;
  forget_theft(state, id);
  make_unstealable(state, id);
  state.remove_from_processing(id, worker);
  if (!state.has_worker(worker.id)) return false;
  state.check_idle_saturated(worker);
  return told;
}

void leave_queue(State& state, TaskId id) {
  Task& task = state.tasks[id];
  task.delayed = false;
  if (task.ahead_on.valid()) return leave_ahead(state, id);
  if (bounded(state, task)) return state.lanes.leave(id, task);
  task.processing_place = 0;  // the ticket in the queue no longer matches
  state.queue.leave();
}

void leave_unrunnable(State& state, TaskId id) {
  Task& task = state.tasks[id];
  state.unrunnable.erase(task.processing_place);
  task.processing_place = 0;
}

}  // namespace scheduler
