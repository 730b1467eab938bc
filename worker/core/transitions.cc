//! The transitions of a task, one small function each, and the table that picks them.
//!
//! What runs or flies cannot be stopped: a release turns it into `cancelled`, and its outcome is
//! digested when it comes (Task::done). A change the table does not know goes through `released`
//! if neither end is `released`; otherwise the event was absurd and is noted, never obeyed.
//!
//! Answers to: WorkerState._TRANSITIONS_TABLE and its functions. Where stock asserts and dies, the
//! harmless reading is taken; each such place says so.
#include <algorithm>

#include "worker/core/state.h"

namespace worker {
namespace {

using enum TaskState;

bool runs(const Task& task) {
  return task.activity == Activity::executing || task.activity == Activity::long_running;
}

// ---- to released, forgotten -------------------------------------------------------------------

//! States a task is not moved out of just because no dependent waits for it.
bool keeps(TaskState state) {
  switch (state) {
    case waiting: case ready: case constrained: case executing: case long_running: case memory:
      return true;
    default:
      return false;
  }
}

void generic_released(State& s, TaskId id, Task& task) {
  s.purge(id);
  for (EdgeId edge : task.dependencies) {
    const TaskId needed = s.tasks[edge].dependency;
    if (s.tasks[needed].waiters == 0 && !keeps(s.tasks[needed].state)) s.recommend(needed, released);
  }
  s.set_state(task, released);
  if (task.dependents == 0) s.recommend(id, forgotten);
}

void memory_released(State& s, TaskId id, Task& task) {
  s.nbytes -= task.nbytes;
  generic_released(s, id, task);
  s.emit(SendReleaseWorkerData{id});
}

//! From executing, long_running, flight and resumed: it cannot be stopped.
void active_released(State& s, TaskId id, Task& task) {
  // Stock asserts that no outcome is pending; a value nobody waits for is let go.
  if (task.done) return generic_released(s, id, task);
  s.set_state(task, cancelled);
}

void cancelled_released(State& s, TaskId id, Task& task) {
  if (task.done) generic_released(s, id, task);
}

void executing_rescheduled(State& s, TaskId id, Task& task) {
  s.emit(SendReschedule{id});
  generic_released(s, id, task);
}

void released_forgotten(State& s, TaskId id, Task& task) {
  if (task.dependents > 0) return;  // Somebody came to need it after all.
  for (EdgeId edge : task.dependencies) {
    const TaskId needed = s.tasks[edge].dependency;
    s.tasks.unlink(edge);
    if (s.tasks[needed].state == released && s.tasks[needed].dependents == 0) {
      s.recommend(needed, forgotten);
    }
  }
  task.dependencies.clear();
  s.purge(id);
  s.set_state(task, forgotten);
  s.tasks.forget(id);
}

// ---- to fetch, flight, missing ----------------------------------------------------------------

void generic_fetch(State& s, TaskId id, Task& task) {
  if (task.who_has.empty()) return s.recommend(id, missing);
  s.end_activity(task);
  s.set_state(task, fetch);
  s.peers.need(id);
}

void generic_missing(State& s, TaskId id, Task& task) {
  s.end_activity(task);
  s.peers.need_not(id);
  s.set_state(task, missing);
  s.add_missing(id);
}

void missing_fetch(State& s, TaskId id, Task& task) {
  if (task.who_has.empty()) return;
  s.remove_missing(task);
  generic_fetch(s, id, task);
}

void fetch_flight(State& s, Task& task, PeerId peer) {
  s.set_state(task, flight);
  task.activity = Activity::flight;
  task.done = false;
  task.coming_from = peer;
}

void flight_fetch(State& s, TaskId id, Task& task) {
  if (task.done) generic_fetch(s, id, task);
}

void cancelled_fetch(State& s, TaskId id, Task& task) {
  if (runs(task)) return s.set_state(task, resumed);
  if (task.done) return s.recommend(id, released);
  s.set_state(task, flight);  // As if it had never been cancelled.
}

//! Turns to the other way of getting the value: compute what could not be fetched, or fetch what
//! failed to compute.
void take_other_way(State& s, TaskId id, Task& task) {
  const TaskState next = runs(task) ? fetch : waiting;
  if (next == fetch) task.actor = false;
  s.end_activity(task);
  s.set_state(task, released);
  s.recommend(id, next);
}

void resumed_fetch(State& s, TaskId id, Task& task) {
  if (runs(task)) return;
  if (task.done) return take_other_way(s, id, task);
  s.set_state(task, flight);  // Back where it started.
}

// ---- to waiting, ready, executing -------------------------------------------------------------

//! A task handed ahead waits for an input that nobody holds yet because this worker is to make it.
bool comes_by_itself(const Task& needed) {
  switch (needed.state) {
    case waiting: case ready: case constrained: case executing: case long_running:
      return needed.who_has.empty();
    default:
      return false;
  }
}

void released_waiting(State& s, TaskId id, Task& task) {
  task.waiting_for_data = 0;
  for (EdgeId edge_id : task.dependencies) {
    Edge& edge = s.tasks[edge_id];
    Task& needed = s.tasks[edge.dependency];
    edge.waiting = needed.state != memory;
    if (!edge.waiting) continue;
    ++task.waiting_for_data;
    if (!edge.waiter) ++needed.waiters;
    edge.waiter = true;
    if (task.chained && comes_by_itself(needed)) continue;
    s.recommend(edge.dependency, fetch);
  }
  if (task.waiting_for_data == 0) s.recommend(id, ready);
  s.set_state(task, waiting);
}

void missing_waiting(State& s, TaskId id, Task& task) {
  const bool actor = task.actor;  // Just asked for by compute-task; stock forgets it here.
  s.purge(id);
  task.actor = actor;
  released_waiting(s, id, task);
}

void cancelled_waiting(State& s, TaskId id, Task& task) {
  switch (task.activity) {
    case Activity::executing:
      return s.set_state(task, executing);
    case Activity::long_running:
      // The scheduler hears (perhaps again) that it has left its slot.
      s.set_state(task, long_running);
      s.emit(SendLongRunning{id, task.run, -1});
      return;
    default:
      s.set_state(task, resumed);
  }
}

void waiting_ready(State& s, TaskId id, Task& task) {
  if (!task.resources.empty()) return s.recommend(id, constrained);
  s.set_state(task, ready);
  enqueue_ready(s, id);
  ensure_computing(s);
}

void waiting_constrained(State& s, TaskId id, Task& task) {
  s.set_state(task, constrained);
  enqueue_constrained(s, id);
  ensure_computing(s);
}

void ready_executing(State& s, TaskId id, Task& task) {
  s.set_state(task, executing);
  s.emit(Execute{id, task.run});
}

void to_long_running(State& s, TaskId id, Task& task, double seconds) {
  if (task.activity == Activity::executing) --s.executing_count;
  task.activity = Activity::long_running;
  // A cancelled or resumed task is none of the scheduler's business (see cancelled_waiting).
  if (task.state == executing) {
    s.set_state(task, long_running);
    s.emit(SendLongRunning{id, task.run, seconds});
  }
  ensure_computing(s);
}

// ---- to memory, error -------------------------------------------------------------------------

//! Dependents that waited for nothing else. The most urgent is settled first and gets the thread;
//! stock takes them in the order of a set.
void recommend_ready(State& s, const Task& task) {
  const std::size_t begin = s.recommendations.size();
  for (EdgeId at = task.first_dependent; at.valid(); at = s.tasks[at].next) {
    Edge& edge = s.tasks[at];
    Task& dependent = s.tasks[edge.dependent];
    if (edge.waiting) --dependent.waiting_for_data;
    edge.waiting = false;
    if (dependent.waiting_for_data == 0 && dependent.state == waiting) {
      s.recommend(edge.dependent, ready);
    }
  }
  const auto first = s.recommendations.begin() + static_cast<std::ptrdiff_t>(begin);
  if (s.recommendations.end() - first < 2) return;
  std::stable_sort(first, s.recommendations.end(), [&](const auto& a, const auto& b) {
    return s.tasks[b.task].priority < s.tasks[a.task].priority;
  });
  for (std::size_t i = begin; i < s.recommendations.size(); ++i) {
    s.tasks[s.recommendations[i].task].recommendation = static_cast<std::uint32_t>(i);
  }
}

enum class Tell : std::uint8_t { nothing, add_keys, task_finished };

void to_memory(State& s, const Recommendation& what, Task& task, Tell tell) {
  Offer& offer = s.offers[what.offer];
  offer.taken = true;
  s.end_activity(task);
  s.set_state(task, memory);
  task.value = offer.value;
  task.work.reset();  // Another compute-task would bring its own.
  if (task.nbytes == Task::kUnknownSize) task.nbytes = offer.nbytes;
  s.nbytes += task.nbytes;
  recommend_ready(s, task);
  if (tell == Tell::add_keys) s.emit(SendAddKeys{what.task});
  if (tell == Tell::task_finished) s.emit(SendTaskFinished{what.task, what.run});
}

//! The scheduler expects the outcome of what it asked for last, not of what went on.
void resumed_memory(State& s, const Recommendation& what, Task& task) {
  to_memory(s, what, task, runs(task) ? Tell::add_keys : Tell::task_finished);
}

void generic_error(State& s, const Recommendation& what, Task& task) {
  s.end_activity(task);
  s.remove_missing(task);
  task.work.reset();
  s.set_state(task, error);
  s.emit(SendTaskErred{what.task, what.run});
}

// ---- the table --------------------------------------------------------------------------------
// One function per state the task is in; false: no such transition.

bool from_released(State& s, const Recommendation& what, TaskId id, Task& task) {
  switch (what.finish) {
    case waiting: released_waiting(s, id, task); return true;
    case fetch: generic_fetch(s, id, task); return true;
    case missing: generic_missing(s, id, task); return true;
    case memory: to_memory(s, what, task, Tell::nothing); return true;
    case error: generic_error(s, what, task); return true;
    case forgotten: released_forgotten(s, id, task); return true;
    default: return false;
  }
}

bool from_queued(State& s, const Recommendation& what, TaskId id, Task& task) {
  const TaskState start = task.state;
  if (what.finish == released) return generic_released(s, id, task), true;
  if (start == waiting && what.finish == ready) return waiting_ready(s, id, task), true;
  if (start == waiting && what.finish == constrained) return waiting_constrained(s, id, task), true;
  if (start != waiting && what.finish == executing) return ready_executing(s, id, task), true;
  return false;
}

bool from_running(State& s, const Recommendation& what, TaskId id, Task& task) {
  switch (what.finish) {
    case memory: to_memory(s, what, task, Tell::task_finished); return true;
    case error: generic_error(s, what, task); return true;
    case rescheduled: executing_rescheduled(s, id, task); return true;
    case released: active_released(s, id, task); return true;
    case long_running: to_long_running(s, id, task, what.seconds); return true;
    default: return false;
  }
}

bool from_fetch(State& s, const Recommendation& what, TaskId id, Task& task) {
  switch (what.finish) {
    case flight: fetch_flight(s, task, what.peer); return true;
    case missing: generic_missing(s, id, task); return true;
    case released: generic_released(s, id, task); return true;
    default: return false;
  }
}

bool from_flight(State& s, const Recommendation& what, TaskId id, Task& task) {
  switch (what.finish) {
    case memory: to_memory(s, what, task, Tell::add_keys); return true;
    case fetch: flight_fetch(s, id, task); return true;
    case missing: generic_missing(s, id, task); return true;
    case error: generic_error(s, what, task); return true;
    case released: active_released(s, id, task); return true;
    default: return false;
  }
}

bool from_missing(State& s, const Recommendation& what, TaskId id, Task& task) {
  switch (what.finish) {
    case fetch: missing_fetch(s, id, task); return true;
    case waiting: missing_waiting(s, id, task); return true;
    case error: generic_error(s, what, task); return true;
    case released: generic_released(s, id, task); return true;
    default: return false;
  }
}

bool from_cancelled(State& s, const Recommendation& what, TaskId id, Task& task) {
  switch (what.finish) {
    case fetch: cancelled_fetch(s, id, task); return true;
    case waiting: cancelled_waiting(s, id, task); return true;
    case long_running: to_long_running(s, id, task, what.seconds); return true;
    case memory: case error: case missing: case released: case rescheduled:
      cancelled_released(s, id, task);
      return true;
    default: return false;
  }
}

bool from_resumed(State& s, const Recommendation& what, TaskId id, Task& task) {
  switch (what.finish) {
    case memory: resumed_memory(s, what, task); return true;
    case error: case rescheduled: take_other_way(s, id, task); return true;
    case fetch: resumed_fetch(s, id, task); return true;
    case long_running: to_long_running(s, id, task, what.seconds); return true;
    case released: active_released(s, id, task); return true;
    default: return false;
  }
}

bool from(State& s, const Recommendation& what, TaskId id, Task& task) {
  switch (task.state) {
    case released: return from_released(s, what, id, task);
    case waiting: case ready: case constrained: return from_queued(s, what, id, task);
    case executing: case long_running: return from_running(s, what, id, task);
    case fetch: return from_fetch(s, what, id, task);
    case flight: return from_flight(s, what, id, task);
    case missing: return from_missing(s, what, id, task);
    case memory:
      return what.finish == released ? (memory_released(s, id, task), true) : false;
    case error:
      return what.finish == released ? (generic_released(s, id, task), true) : false;
    case cancelled: return from_cancelled(s, what, id, task);
    case resumed: return from_resumed(s, what, id, task);
    case rescheduled: case forgotten: return false;
  }
  return false;
}

bool step_to(State& s, const Recommendation& what) {
  Task& task = s.tasks[what.task];
  const TaskState start = task.state;
  if (start == what.finish) return true;
  if (!from(s, what, what.task, task)) return false;
  if (s.observed) s.emit(Transitioned{what.task, start, what.finish});
  return true;
}

//! start -> released -> finish, without being forgotten on the way.
bool step_through_released(State& s, const Recommendation& what) {
  Task& task = s.tasks[what.task];
  if (task.state == forgotten || task.state == released || what.finish == released) return false;
  const bool actor = task.actor;
  if (!step_to(s, {.task = what.task, .finish = released})) return false;
  if (!s.recommendations.empty() && s.recommendations.back().task == what.task) {
    s.recommendations.pop_back();
    task.recommendation = Task::kNowhere;
  }
  if (what.finish == waiting) task.actor = actor;
  return step_to(s, what);
}

}  // namespace

void transition(State& s, const Recommendation& what) {
  if (step_to(s, what) || step_through_released(s, what)) return;
  s.note(Note::Kind::impossible_transition, s.tasks[what.task].key);
}

void settle(State& s) {
  while (!s.recommendations.empty()) {
    const Recommendation what = s.recommendations.back();
    s.recommendations.pop_back();
    s.tasks[what.task].recommendation = Task::kNowhere;
    transition(s, what);
  }
}

}  // namespace worker
