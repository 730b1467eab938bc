//! Running tasks: which goes next, what it takes of threads and resources, how its end is digested.
//!
//! Threads and resources are taken when a task leaves its queue, not when its transition is
//! reached, so that one step never promises the same thread twice.
//!
//! Answers to: WorkerState._ensure_computing, _next_ready_task, _execute_done_common.
#include "worker/core/state.h"

namespace worker {

std::uint16_t resource_index(State& s, std::string_view name) {
  for (std::size_t i = 0; i < s.resources.size(); ++i) {
    if (s.resources[i].name == name) return static_cast<std::uint16_t>(i);
  }
  // Nobody has any of it: the task waits until SetResources says otherwise.
  s.resources.push_back(ResourceLevel{std::string(name), 0, 0});
  return static_cast<std::uint16_t>(s.resources.size() - 1);
}

void enqueue_ready(State& s, TaskId id) {
  Task& task = s.tasks[id];
  task.in_queue = true;
  ++s.ready_count;
  s.ready.push(task.priority, s.tasks.ref(id));
}

void enqueue_constrained(State& s, TaskId id) {
  Task& task = s.tasks[id];
  task.in_queue = true;
  ++s.constrained_count;
  s.constrained.push(task.priority, s.tasks.ref(id));
}

void leave_queue(State& s, Task& task) {
  if (!task.in_queue) return;
  task.in_queue = false;
  if (task.state == TaskState::constrained) {
    if (--s.constrained_count == 0) s.constrained.clear();
  } else {
    if (--s.ready_count == 0) s.ready.clear();
  }
}

void release_resources(State& s, const Task& task) {
  for (const auto& [index, amount] : task.resources) s.resources[index].available += amount;
}

namespace {

bool satisfied(const State& s, const Task& task) {
  for (const auto& [index, amount] : task.resources) {
    if (s.resources[index].available < amount) return false;
  }
  return true;
}

//! The most urgent task that may start now, or none: the top of its queue, where it stays.
TaskId next_ready_task(State& s) {
  const auto is_in = [&](TaskState queue) {
    return [&s, queue](TaskRef ref) {
      return s.tasks.is(ref) && s.tasks[ref.id].in_queue && s.tasks[ref.id].state == queue;
    };
  };
  TaskId ready;
  TaskId constrained;
  if (s.ready_count > 0) ready = s.ready.top(is_in(TaskState::ready)).id;
  if (s.constrained_count > 0) constrained = s.constrained.top(is_in(TaskState::constrained)).id;
  if (!constrained.valid()) return ready;
  const Task& task = s.tasks[constrained];
  if (ready.valid() && !(task.priority < s.tasks[ready].priority)) return ready;
  return satisfied(s, task) ? constrained : ready;
}

//! The thread is free again; false if nobody knows of such an execution.
bool end_execution(State& s, TaskId id) {
  const bool known = s.tasks.has(id) && !s.tasks[id].done &&
                     (s.tasks[id].activity == Activity::executing ||
                      s.tasks[id].activity == Activity::long_running);
  if (!known) {
    s.note(Note::Kind::unknown_execution, s.tasks.has(id) ? s.tasks[id].key.view() : KeyView{});
    return false;
  }
  Task& task = s.tasks[id];
  ++s.executed_count;
  release_resources(s, task);
  if (task.activity == Activity::executing) --s.executing_count;
  task.done = true;
  ensure_computing(s);
  return true;
}

}  // namespace

void ensure_computing(State& s) {
  if (!s.running) return;
  while (s.executing_count < s.config.nthreads) {
    const TaskId id = next_ready_task(s);
    if (!id.valid()) return;
    Task& task = s.tasks[id];
    (task.state == TaskState::constrained ? s.constrained : s.ready).drop_front();
    leave_queue(s, task);
    for (const auto& [index, amount] : task.resources) s.resources[index].available -= amount;
    task.activity = Activity::executing;
    ++s.executing_count;
    s.recommend(id, TaskState::executing);
  }
}

void on_event(State& s, const ExecuteSuccess& e) {
  if (!end_execution(s, e.task)) {
    s.offer(s.tasks.has(e.task) ? e.task : TaskId{}, e.value, e.nbytes);
    return;
  }
  s.tasks[e.task].nbytes = e.nbytes;
  s.recommend({.task = e.task,
               .finish = TaskState::memory,
               .run = e.run,
               .offer = s.offer(e.task, e.value, e.nbytes)});
}

void on_event(State& s, const ExecuteFailure& e) {
  if (!end_execution(s, e.task)) return;
  s.recommend({.task = e.task, .finish = TaskState::error, .run = e.run});
}

void on_event(State& s, const ExecuteReschedule& e) {
  if (end_execution(s, e.task)) s.recommend(e.task, TaskState::rescheduled);
}

void on_event(State& s, const Secede& e) {
  if (!s.tasks.has(e.task)) return;
  const Task& task = s.tasks[e.task];
  if (task.done) return;
  if (task.activity != Activity::executing && task.activity != Activity::long_running) return;
  s.recommend({.task = e.task, .finish = TaskState::long_running, .seconds = e.compute_seconds});
}

void on_event(State& s, const Pause&) { s.running = false; }

void on_event(State& s, const Unpause&) {
  s.running = true;
  ensure_computing(s);
}

void on_event(State& s, const SetResources& e) {
  for (const auto& [name, total] : e.resources) {
    ResourceLevel& level = s.resources[resource_index(s, name)];
    level.available += total - level.total;
    level.total = total;
  }
  ensure_computing(s);
}

}  // namespace worker
