//! Results that appear: the way into the state memory.
#include <algorithm>

#include "scheduler/core/admission.h"
#include "scheduler/core/ahead.h"
#include "scheduler/core/assignment.h"
#include "scheduler/core/later.h"
#include "scheduler/core/stealing.h"
#include "scheduler/core/transitions.h"

namespace scheduler {

namespace {

void let_inputs_go(State& state, Task& task) {
  for (const Edge& edge : task.dependencies) {
    Task& input = state.tasks[edge.task];
    state.set_waiter(input, state.other_end_of_dependency(edge), false);
    if (!input.needed()) recommend(state, edge.task, TaskState::released);
  }
}

}  // namespace

void to_memory(State& state, TaskId id, const TaskFinished& done) {
  Task& task = state.tasks[id];
  TaskGroup& group = *task.group;
  for (const StartStop& span : done.startstops) state.add_duration(group, span);
  state.set_nbytes(task, done.nbytes);
  learn_size(state, task, state.worker(done.worker));
  leave_processing(state, id);
  durations_known(state, *group.prefix);

  state.add_replica(id, done.worker);
  tell_dependents(state, id);
  let_inputs_go(state, task);
  if (!task.needed()) {
    recommend(state, id, TaskState::released);
  } else {
    for (const Want& want : task.who_wants) {
      state.tell(ReportInMemory{want.client, id, done.type});
    }
  }
  state.set_state(task, TaskState::memory);
  task.type = state.type_id(done.type_name);
  if (task.type != 0) {
    ++group.types[task.type];
    ++group.prefix->types[task.type];
  }
  if (state.fire_and_forget.valid()) release_want(state, state.fire_and_forget, id);
}

void appear_in_memory(State& state, TaskId id, const std::vector<WorkerId>& holders) {
  Task& task = state.tasks[id];
  const WorkerId busy = task.ahead_on.valid() ? task.ahead_on : task.processing_on;
  const bool there = std::find(holders.begin(), holders.end(), busy) != holders.end();
  if (task.ahead_on.valid()) {
    const bool queued = task.state == TaskState::queued;
    leave_ahead(state, id, !there);
    if (queued) task.processing_place = state.queue.push(id);  // to leave it as any other
  }
  switch (task.state) {
    case TaskState::memory: break;
    case TaskState::processing:
      // The worker may go on computing what is now superfluous, unless the data is on it.
      unchain_after(state, id, busy);
      if (leave_processing(state, id) && !there) state.emit(SendFree{busy, id});
      break;
    case TaskState::queued: leave_queue(state, id); break;
    case TaskState::no_worker: leave_unrunnable(state, id); break;
    case TaskState::erred: erred_released(state, id); break;
    default: break;
  }
  for (const WorkerId holder : holders) state.add_replica(id, holder);
  if (task.state == TaskState::memory) return;
  state.clear_waiting_on(task);
  let_inputs_go(state, task);
  for (Edge& edge : task.dependents) {  // as validate() demands of a task in memory
    const TaskState other = state.tasks[edge.task].state;
    state.set_waiter(task, edge, other == TaskState::waiting || other == TaskState::staged);
  }
  tell_dependents(state, id);
  state.set_state(task, TaskState::memory);
}

}  // namespace scheduler
