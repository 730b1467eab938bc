//! Notes and their turn; see later.h.
#include "scheduler/core/later.h"

#include <algorithm>
#include <span>

#include "scheduler/core/release.h"
#include "scheduler/core/transitions.h"

namespace scheduler {

namespace {

using S = TaskState;

//! May run, or runs.
bool ready(const Task& task) {
  return task.state == S::queued || task.state == S::processing || task.state == S::no_worker;
}

//! What the task does, holds and needs is on workers that are there: it may stay as it is.
bool intact(const State& state, const Task& task) {
  if (task.state == S::memory) return !task.who_has.empty();
  if (task.state == S::processing &&
      (!state.has_worker(task.processing_on) || state.worker(task.processing_on).fading)) {
    return false;
  }
  return !ready(task) ||
         std::none_of(task.dependencies.begin(), task.dependencies.end(),
                      [&](const Edge& edge) { return state.tasks[edge.task].who_has.empty(); });
}

const Task* erred_input(const State& state, const Task& task) {
  for (const Edge& edge : task.dependencies) {
    const Task& input = state.tasks[edge.task];
    if (input.state == S::erred) return &input;
  }
  return nullptr;
}

//! It erred because of an input that has not erred any more.
bool may_be_retried(const State& state, const Task& task) {
  return task.state == S::erred && !task.has_lost_dependencies &&
         task.extra->error->failed.view() != task.key() && erred_input(state, task) == nullptr;
}

bool can_wait(const State& state, const Task& task, S target) {
  switch (target) {
    case S::released:
    case S::forgotten:
      return task.state != S::staged && !task.needed() && !task.has_lost_dependencies &&
             intact(state, task) && (target == S::released || task.dependents.empty());
    case S::erred: return task.state == S::waiting;
    case S::processing: return task.state == S::waiting && task.waiting_on == 0;
    case S::waiting:
      return (task.state == S::released && !task.has_lost_dependencies) ||
             (task.state == S::erred && may_be_retried(state, task));
    default: return false;
  }
}

//! Somebody waits for the result of a released task, which may not know of it yet.
bool awaited(const State& state, const Task& task) {
  return !task.who_wants.empty() ||
         std::any_of(task.dependents.begin(), task.dependents.end(), [&](const Edge& edge) {
           return edge.flag || state.tasks[edge.task].state == S::waiting;
         });
}

//! Finds out what the task was noted for, if that still holds.
void look_again(State& state, TaskId id) {
  Task& task = state.tasks[id];
  if (task.state == S::staged) return;  // another task by now
  if (task.state == S::released && awaited(state, task)) return recommend(state, id, S::waiting);
  if (may_be_retried(state, task)) return recommend(state, id, S::waiting);
  if (task.state == S::released) let_go_of_inputs(state, task);  // it was to run again
  if (!task.needed()) return reconsider(state, id);
  if (task.state != S::waiting && !ready(task)) return;
  if (const Task* input = erred_input(state, task)) return blame(state, id, input->extra->error);
  if (task.state != S::waiting) return;
  for (Edge& edge : task.dependencies) {
    if (!state.tasks[edge.task].who_has.empty()) state.set_waiting_on(task, edge, false);
  }
  if (task.waiting_on == 0) recommend(state, id, S::processing);
}

//! Those that waited for one task alone may run, the most urgent first.
void recommend_ready(State& state, std::span<TaskId> ready) {
  if (ready.size() > 1) {  // the last recommendation is taken first
    std::stable_sort(ready.begin(), ready.end(), [&](TaskId a, TaskId b) {
      return state.tasks[b].priority < state.tasks[a].priority;
    });
  }
  for (const TaskId id : ready) recommend(state, id, S::processing);
}

}  // namespace

bool put_off(State& state, TaskId id, TaskState target) {
  Task& task = state.tasks[id];
  if (!can_wait(state, task, target)) return false;
  // An error it was blamed for counts once it has erred; it will be found again.
  if (task.state != S::erred && task.extra) task.extra->error = nullptr;
  state.put_off.push_back(id);
  return true;
}

std::span<const Edge> told_now(State& state, const Task& task) {
  const std::span<const Edge> all(task.dependents.begin(), task.dependents.size());
  const auto now = std::min<std::size_t>(all.size(), state.config.transitions_at_once);
  for (const Edge& edge : all.subspan(now)) state.put_off.push_back(edge.task);
  return all.first(now);
}

void tell_dependents(State& state, TaskId id) {
  const Task& task = state.tasks[id];
  const TaskErrorRef error = task.error() != nullptr ? task.extra->error : nullptr;
  absl::InlinedVector<TaskId, 8> woken;
  for (const Edge& edge : told_now(state, task)) {
    Task& dependent = state.tasks[edge.task];
    Edge& there = state.other_end_of_dependent(edge);
    if (error != nullptr) {
      // Others find the error when they begin.
      if (dependent.state == S::waiting || ready(dependent)) blame(state, edge.task, error);
    } else if (there.flag) {
      state.set_waiting_on(dependent, there, false);
      if (dependent.waiting_on == 0) woken.push_back(edge.task);
    }
  }
  recommend_ready(state, {woken.data(), woken.size()});
}

void take_up_again(State& state) {
  if (!can_take_up(state)) return;
  // What is put off in this step anew waits for the next one.
  for (std::size_t n = state.put_off.size(); n > 0 && !enough_done(state); --n) {
    const TaskId id = state.put_off.front();
    state.put_off.pop_front();
    const std::uint32_t before = state.hops;
    if (state.tasks.alive(id)) look_again(state, id);
    run_transitions(state);
    if (state.hops == before) ++state.hops;  // a look is work, too
  }
  fill_slots(state);
}

bool can_take_up(const State& state) { return state.fading == 0 && !state.put_off.empty(); }

}  // namespace scheduler
