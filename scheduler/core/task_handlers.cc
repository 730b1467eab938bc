//! Reactions to what workers say about tasks: finished, erred, fetched, dropped, seceded.
//!
//! Every message may be late or doubled; the run id decides whether it is believed.
#include <algorithm>
#include <cmath>

#include "scheduler/core/ahead.h"
#include "scheduler/core/assignment.h"
#include "scheduler/core/handlers.h"
#include "scheduler/core/stealing.h"
#include "scheduler/core/transitions.h"

namespace scheduler {

namespace {

Key copy_of(KeyView key) { return Key{std::string(key.bytes)}; }

//! A result that arrived for a run we did not ask for (any more).
void on_stale_finish(State& state, const TaskFinished& done, TaskId id) {
  if (state.tasks[id].processing_on == done.worker) {
    // The worker we count on went on with an earlier, cancelled attempt and will not start the
    // newer one. Begin again: ignoring this would leave the task waiting for ever.
    recommend(state, id, TaskState::released);
  } else {
    // Storing it could pair this task with another run's bytes.
    state.emit(SendFree{done.worker, id});
  }
}

//! The worker holds a result of an old run while the task is in memory elsewhere. To drop it would
//! pull an input from under tasks that were sent to the worker since; those begin again.
void free_old_result(State& state, const TaskFinished& done, TaskId id) {
  for (const Edge& edge : state.tasks[id].dependents) {
    if (!edge.flag || state.tasks[edge.task].processing_on != done.worker) continue;
    recommend(state, edge.task, TaskState::released);
  }
  input_leaves(state, state.tasks[id], done.worker);
  run_transitions(state);
  state.emit(SendFree{done.worker, id});
}

//! The worker ended a task, so it is alive and may soon need the next one.
void note_progress(State& state, WorkerId id) {
  Worker& worker = state.worker(id);
  worker.last_progress = state.now.mono;
  if (worker.rask) update_hunger(state, worker);
}

void add_replica_if_in_memory(State& state, WorkerId worker, KeyView key) {
  const TaskId id = state.find(key);
  if (id.valid() && state.tasks[id].state == TaskState::memory) {
    state.add_replica(id, worker);
  } else if (id.valid() && state.worker(worker).rask &&
             (state.tasks[id].processing_on == worker || state.tasks[id].ahead_on == worker)) {
    // It fetched what it was then asked to compute, and will say so. Tasks chained to it use it.
  } else {
    state.emit(SendRemoveReplica{worker, copy_of(key)});
  }
}

}  // namespace

void on_finished(State& state, const TaskFinished& done) {
  if (!state.has_worker(done.worker)) return;
  const TaskId id = state.find(done.key);
  if (!id.valid()) return state.emit(SendFreeUnknown{done.worker, copy_of(done.key)});
  believe_begun(state, id, done.worker, done.run);
  switch (state.tasks[id].state) {
    case TaskState::staged:
    case TaskState::released:
    case TaskState::queued:
    case TaskState::no_worker:
    case TaskState::erred: state.emit(SendFree{done.worker, id}); break;
    case TaskState::waiting:
      // The run of a waiting task is over, whatever its number: the cancellation is on its way.
      if (state.tasks[id].run != done.run) state.emit(SendFree{done.worker, id});
      break;
    case TaskState::processing:
      if (state.tasks[id].run != done.run || state.tasks[id].processing_on != done.worker) {
        on_stale_finish(state, done, id);
      } else {
        to_memory(state, id, done);
      }
      break;
    case TaskState::memory:
      if (state.tasks[id].run != done.run) {
        free_old_result(state, done, id);
      } else {
        add_replica_if_in_memory(state, done.worker, done.key);
      }
      break;
    case TaskState::forgotten: break;
  }
  note_progress(state, done.worker);
  run_transitions(state);
  fill_slots(state);
}

void on_erred(State& state, const TaskErred& erred) {
  if (!state.has_worker(erred.worker)) return;
  const TaskId id = state.find(erred.key);
  if (!id.valid()) return;
  believe_begun(state, id, erred.worker, erred.run);
  note_progress(state, erred.worker);
  Task& task = state.tasks[id];
  if (task.state != TaskState::processing) return fill_slots(state);
  if (task.run != erred.run || task.processing_on != erred.worker) {
    if (task.processing_on == erred.worker) recommend(state, id, TaskState::released);
  } else if (task.retries > 0) {
    --task.retries;
    transition(state, id, TaskState::waiting);
  } else {
    auto error = std::make_shared<TaskError>();
    error->failed = task.key_ref;
    error->exception = erred.exception;
    error->traceback = erred.traceback;
    error->exception_text = erred.exception_text;
    error->traceback_text = erred.traceback_text;
    to_erred(state, id, std::move(error), erred.worker);
  }
  run_transitions(state);
  fill_slots(state);
}

void on_replicas_added(State& state, const ReplicasAdded& added) {
  if (!state.has_worker(added.worker)) return;
  for (const KeyView key : added.keys) add_replica_if_in_memory(state, added.worker, key);
}

void on_replica_dropped(State& state, const ReplicaDropped& dropped) {
  const TaskId id = state.find(dropped.key);
  if (!id.valid() || !state.has_worker(dropped.worker) || !state.tasks[id].on(dropped.worker)) {
    return;
  }
  Worker& worker = state.worker(dropped.worker);
  const bool was_actor = std::find(worker.actors.begin(), worker.actors.end(), id) !=
                         worker.actors.end();
  input_leaves(state, state.tasks[id], dropped.worker);
  state.remove_replica(id, dropped.worker);
  if (was_actor) {  // other replicas are only references to it
    state.remove_actor(worker, id);
    recommend(state, id, TaskState::erred);
  } else if (state.tasks[id].who_has.empty()) {
    recommend(state, id, TaskState::released);
  }
  run_transitions(state);
  fill_slots(state);
}

void on_who_has_requested(State& state, const WhoHasRequested& request) {
  if (!state.has_worker(request.worker)) return;
  SendRefreshWhoHas known{request.worker, {}};
  for (const KeyView key : request.keys) {
    if (const TaskId id = state.find(key); id.valid()) known.tasks.push_back(id);
  }
  if (!known.tasks.empty()) state.emit(std::move(known));
  for (const KeyView key : request.keys) {
    if (!state.find(key).valid()) state.emit(SendFreeUnknown{request.worker, copy_of(key)});
  }
}

void on_seceded(State& state, const TaskSeceded& seceded) {
  if (!state.has_worker(seceded.worker)) return;
  const TaskId id = state.find(seceded.key);
  if (!id.valid()) return;
  believe_begun(state, id, seceded.worker, seceded.run);
  Task& task = state.tasks[id];
  if (task.processing_on != seceded.worker || task.run != seceded.run || task.long_running) return;
  make_unstealable(state, id);
  if (seceded.compute_seconds >= 0 && std::isfinite(seceded.compute_seconds)) {
    TaskPrefix& prefix = *task.group->prefix;
    prefix.duration_average = prefix.duration_average < 0
                                  ? seceded.compute_seconds
                                  : (prefix.duration_average + seceded.compute_seconds) / 2;
    state.refresh_estimate(prefix);
  }
  Worker& worker = state.worker(seceded.worker);
  state.set_long_running(task, worker);
  state.check_idle_saturated(worker);
  fill_slots(state);
}

void on_rescheduled(State& state, const TaskRescheduled& rescheduled) {
  const TaskId id = state.find(rescheduled.key);
  if (id.valid()) believe_begun(state, id, rescheduled.worker, state.tasks[id].run);
  if (!id.valid() || state.tasks[id].processing_on != rescheduled.worker) return;
  recommend(state, id, TaskState::released);
  run_transitions(state);
  fill_slots(state);
}

}  // namespace scheduler
