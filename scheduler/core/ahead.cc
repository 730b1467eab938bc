#include "scheduler/core/ahead.h"

#include <algorithm>

#include "scheduler/core/admission.h"
#include "scheduler/core/assignment.h"
#include "scheduler/core/placement.h"
#include "scheduler/core/schemes.h"
#include "scheduler/core/transitions.h"

namespace scheduler {

namespace {

using S = TaskState;

constexpr std::size_t kMostAhead = 64;  //!< per thread: more would only lengthen what is undone
constexpr std::size_t kLongChain = 16;  //!< a worker with this many chained tasks needs no more yet
constexpr std::size_t kWalk = 128;      //!< tasks looked at to find the end of a chain
constexpr std::size_t kFewDependents = 8;  //!< wider fan-outs are not chains
constexpr std::size_t kFewInputs = 16;
constexpr Duration kOverdue = Duration::ms(5);

std::size_t ahead_of(const Worker& worker) { return worker.held.size() + worker.chained.size(); }

bool serves(const State& state, const Worker& worker) {
  return worker.rask && worker.running() && state.config.automatic != Automatic::off &&
         state.config.prefetch > Duration();
}

std::uint64_t expected_bytes(const TaskPrefix& prefix) {
  const auto count = [&](S s) { return prefix.states[static_cast<std::size_t>(s)]; };
  const std::uint64_t done = count(S::memory) + count(S::released) + count(S::forgotten);
  const auto total = static_cast<std::uint64_t>(std::max<std::int64_t>(prefix.nbytes_total, 0));
  return done == 0 ? 0 : total / done;
}

//! One more task beside what the worker has ahead: not too long, not too large?
bool fits(const State& state, const Worker& worker, const Task& task) {
  const TaskPrefix& prefix = *task.group->prefix;
  const std::size_t already = ahead_of(worker);
  if (prefix.duration_average < 0) return already == 0;
  if (already >= kMostAhead * worker.nthreads) return false;
  const double expected = prefix.duration_average * static_cast<double>(already + 1);
  if (expected > state.config.prefetch.as_seconds() * worker.nthreads) return false;
  const std::uint64_t room = worker.memory_limit - std::min(worker.nbytes, worker.memory_limit);
  return worker.memory_limit == 0 || expected_bytes(prefix) * (already + 1) <= room / 4;
}

bool inputs_on(const State& state, const Task& task, WorkerId worker) {
  return std::all_of(task.dependencies.begin(), task.dependencies.end(),
                     [&](const Edge& edge) { return state.tasks[edge.task].on(worker); });
}

//! On no other worker could this input be found when the task is ready.
bool stays_on(const State& state, TaskId id, const Worker& worker) {
  const Task& input = state.tasks[id];
  if (input.state == S::memory) return input.who_has.size() == 1 && input.on(worker.id);
  if (input.recommended != S::staged) return false;
  if (input.ahead_on == worker.id) return !state.recalls.contains(id);
  return input.processing_on == worker.id && !state.thefts.in_flight.contains(id);
}

//! Stock would place the task on this worker whatever else happens, because its inputs will be
//! there and nowhere else.
bool may_chain(const State& state, const Task& task, const Worker& worker) {
  if (task.state != S::waiting || task.recommended != S::staged || task.ahead_on.valid() ||
      task.lone || task.actor || task.restricted() || task.has_lost_dependencies ||
      task.dependencies.size() > kFewInputs || is_rootish(state, task) || bounded(state, task)) {
    return false;
  }
  std::uint64_t bytes = 0;
  for (const Edge& edge : task.dependencies) {
    if (!stays_on(state, edge.task, worker)) return false;
    bytes += state.size_of(state.tasks[edge.task]);
  }
  return worker.memory_limit == 0 || bytes <= worker.memory_limit;
}

void go_ahead(State& state, TaskId id, Worker& worker, std::deque<TaskId>& list) {
  if (ahead_of(worker) == 0) worker.last_progress = state.now.mono;
  state.tasks[id].ahead_on = worker.id;
  list.push_back(id);
  hand_over(state, id, worker);
}

void hold(State& state, TaskId id, Worker& worker) {
  state.tasks[id].processing_place = 0;
  ++state.held;
  go_ahead(state, id, worker, worker.held);
  state.queue.leave();
}

void chain(State& state, TaskId id, Worker& worker) {
  ++state.chained;
  go_ahead(state, id, worker, worker.chained);
}

//! Takes the task out of its worker's list; nobody is told.
void drop_ahead(State& state, TaskId id) {
  Task& task = state.tasks[id];
  Worker& worker = state.worker(task.ahead_on);
  const bool is_held = task.state == S::queued;
  std::deque<TaskId>& list = is_held ? worker.held : worker.chained;
  list.erase(std::find(list.begin(), list.end(), id));
  --(is_held ? state.held : state.chained);
  task.ahead_on = WorkerId();
  if (!state.recalls.empty()) state.recalls.erase(id);
  if (state.has_worker(worker.id)) update_hunger(state, worker);
}

void drop_and_tell(State& state, TaskId id, bool tell) {
  Task& task = state.tasks[id];
  const WorkerId worker = task.ahead_on;
  drop_ahead(state, id);
  const bool told = !task.compute_pending;
  task.compute_pending = false;
  if (tell && told && state.has_worker(worker)) state.emit(SendFree{worker, id});
}

//! Tasks chained on that worker that wait for this one. A task may get many dependents after one
//! of them was chained; then the worker's own list is the shorter one.
absl::InlinedVector<TaskId, 8> chained_to(const State& state, TaskId id, WorkerId worker) {
  absl::InlinedVector<TaskId, 8> found;
  const auto consider = [&](TaskId next) {
    const Task& task = state.tasks[next];
    if (task.ahead_on == worker && task.state == S::waiting) found.push_back(next);
  };
  const Task& input = state.tasks[id];
  if (input.dependents.size() <= kMostAhead) {
    for (const Edge& edge : input.dependents) consider(edge.task);
    return found;
  }
  for (const TaskId next : state.worker(worker).chained) {
    const Edges& inputs = state.tasks[next].dependencies;
    if (std::any_of(inputs.begin(), inputs.end(), [&](const Edge& e) { return e.task == id; })) {
      consider(next);
    }
  }
  return found;
}

void requeue(State& state, TaskId id) { state.tasks[id].processing_place = state.queue.push(id); }

void recall(State& state, TaskId id, const Worker& worker) {
  const Task& task = state.tasks[id];
  if (task.compute_pending) return withdraw(state, id);  // it has not even heard of it
  if (!state.recalls.try_emplace(id, Recall{state.thefts.next, worker.id}).second) return;
  state.emit(SendStealRequest{worker.id, id, state.thefts.next++});
}

//! The first task held there that was not asked back.
TaskId next_held(const State& state, const Worker& worker) {
  for (const TaskId id : worker.held) {
    if (state.recalls.empty() || !state.recalls.contains(id)) return id;
  }
  return TaskId();
}

void promote_on(State& state, Worker& worker) {
  while (state.slots(worker) > 0 && worker.running()) {
    const TaskId id = next_held(state, worker);
    if (!id.valid()) return;
    const bool outranked = !state.queue.empty() &&
                           state.tasks[state.queue.front()].priority < state.tasks[id].priority;
    if (outranked) return;
    promote(state, id);
  }
}

//! A batch from the front of the queue, as large as the scheme says. By default (FAC2) batches
//! shrink towards the end, so that no worker is left with a long one when the others are done.
void fill_up(State& state, Worker& worker) {
  std::uint64_t n =
      next_chunk(state.dealing, state.config.batches, state.queue.size(), state.running.size());
  for (; n > 0 && !state.queue.empty(); --n) {
    const TaskId id = state.queue.front();
    const Task& task = state.tasks[id];
    if (task.lone || task.actor || !fits(state, worker, task) || !may_start(state, task, worker) ||
        !inputs_on(state, task, worker.id)) {
      break;
    }
    hold(state, id, worker);
  }
  worker.ahead_target = static_cast<std::uint32_t>(ahead_of(worker));
}

bool overdue(const State& state, const Worker& worker) {
  if (state.now.mono - worker.last_progress > kOverdue + state.config.prefetch) return true;
  const TaskPrefix& prefix = *state.tasks[worker.held.front()].group->prefix;
  return state.estimate(prefix) * static_cast<double>(worker.held.size()) >
         2 * state.config.prefetch.as_seconds() * worker.nthreads;
}

//! Others are free, and what they could do is held by workers that may be stuck.
bool others_wait(const State& state) {
  return state.held > 0 && state.queue.empty() && !state.open.empty();
}

void want_tick(State& state) {
  if (state.tick_wanted || !others_wait(state)) return;
  state.tick_wanted = true;
  state.emit(WantsTick{});
}

}  // namespace

// ---- handing over -------------------------------------------------------------------------------

void promote_held(State& state) {
  if (state.held == 0 || state.open.empty()) return;
  absl::InlinedVector<WorkerId, 8> holders;
  state.open.for_each([&](std::uint32_t rank) {
    const WorkerId id = state.by_rank[rank];
    if (!state.worker(id).held.empty()) holders.push_back(id);
  });
  for (const WorkerId id : holders) promote_on(state, state.worker(id));
}

void send_ahead(State& state) {
  while (!state.queue.empty() && !state.hungry.empty()) {
    Worker& worker = state.worker(state.by_rank[state.hungry.nth(0)]);
    fill_up(state, worker);
    state.set_hungry(worker, false);
  }
  want_tick(state);
}

void chain_after(State& state, TaskId id) {
  const Task& first = state.tasks[id];
  const WorkerId at = first.ahead_on.valid() ? first.ahead_on : first.processing_on;
  Worker& worker = state.worker(at);
  if (first.dependents.empty() || !serves(state, worker) || worker.chained.size() > kLongChain) {
    return;
  }
  std::vector<TaskId> line{id};
  for (std::size_t i = 0; i < line.size() && i < kWalk; ++i) {
    if (state.tasks[line[i]].dependents.size() > kFewDependents) continue;
    for (const Edge& edge : state.tasks[line[i]].dependents) {
      const Task& next = state.tasks[edge.task];
      if (!edge.flag || next.state != S::waiting) continue;
      if (next.ahead_on == worker.id) {
        line.push_back(edge.task);
      } else if (may_chain(state, next, worker)) {
        if (!fits(state, worker, next)) return;
        chain(state, edge.task, worker);
        line.push_back(edge.task);
      }
    }
  }
}

void chain_onto(State& state, TaskId id) {
  const Task& task = state.tasks[id];
  for (const Edge& edge : task.dependencies) {
    if (!edge.flag) continue;
    const Task& input = state.tasks[edge.task];
    const WorkerId at = input.ahead_on.valid() ? input.ahead_on : input.processing_on;
    if (!at.valid() || !state.has_worker(at)) return;
    Worker& worker = state.worker(at);
    if (input.dependents.size() <= kFewDependents && serves(state, worker) &&
        worker.chained.size() <= kLongChain && fits(state, worker, task) &&
        may_chain(state, task, worker)) {
      chain(state, id, worker);
    }
    return;
  }
}

// ---- coming true --------------------------------------------------------------------------------

void promote(State& state, TaskId id) {
  Worker& worker = state.worker(state.tasks[id].ahead_on);
  const bool told = !state.tasks[id].compute_pending;
  drop_ahead(state, id);
  if (take_up(state, id, worker)) return chain_after(state, id);
  if (told) state.emit(SendFree{worker.id, id});  // its inputs turned out too large
}

void believe_begun(State& state, TaskId id, WorkerId worker, RunId run) {
  const Task& task = state.tasks[id];
  if (task.ahead_on != worker || !worker.valid()) return;
  if (task.run == run && task.waiting_on == 0) return promote(state, id);
  // It went on with an earlier, cancelled attempt and will not begin the one we count on.
  withdraw(state, id);
}

// ---- taking back --------------------------------------------------------------------------------

void leave_ahead(State& state, TaskId id, bool tell) {
  const WorkerId worker = state.tasks[id].ahead_on;
  drop_and_tell(state, id, tell);
  unchain_after(state, id, worker);
}

void withdraw(State& state, TaskId id) {
  leave_ahead(state, id);
  if (state.tasks[id].state == S::queued) requeue(state, id);
}

void unchain_after(State& state, TaskId id, WorkerId worker) {
  if (state.chained == 0) return;
  absl::InlinedVector<TaskId, 16> line{id};
  for (std::size_t i = 0; i < line.size(); ++i) {
    for (const TaskId next : chained_to(state, line[i], worker)) {
      line.push_back(next);
      drop_and_tell(state, next, true);
    }
  }
}

void input_leaves(State& state, const Task& input, WorkerId worker) {
  if (state.held + state.chained == 0 || input.waiters == 0) return;
  for (const Edge& edge : input.dependents) {
    if (edge.flag && state.tasks[edge.task].ahead_on == worker) withdraw(state, edge.task);
  }
}

void recall_all(State& state, Worker& worker) {
  state.set_hungry(worker, false);
  const std::deque<TaskId> chained = worker.chained, held = worker.held;
  for (const TaskId id : chained) {
    if (state.tasks[id].ahead_on == worker.id) leave_ahead(state, id);
  }
  for (const TaskId id : held) recall(state, id, worker);
}

void lose_ahead(State& state, Worker& worker, bool expected) {
  for (std::deque<TaskId>* list : {&worker.chained, &worker.held}) {
    const std::deque<TaskId> lost = *list;
    for (const TaskId id : lost) {
      Task& task = state.tasks[id];
      task.lone = task.lone || !expected;
      if (task.ahead_on == worker.id) withdraw(state, id);
    }
  }
}

void recall_overdue(State& state) {
  state.tick_wanted = false;
  if (!others_wait(state)) return;
  for (const WorkerId id : state.living) {
    Worker& worker = state.worker(id);
    if (worker.held.empty() || worker.has_slot || !overdue(state, worker)) continue;
    const std::deque<TaskId> held = worker.held;
    const std::size_t keep = held.size() / 2;
    for (std::size_t i = held.size(); i > keep; --i) recall(state, held[i - 1], worker);
  }
  fill_slots(state);
}

bool on_recall_answered(State& state, TaskId id, const StealAnswered& answer) {
  const auto found = state.recalls.find(id);
  if (found == state.recalls.end() || found->second.id != answer.theft ||
      found->second.worker != answer.worker) {
    return false;
  }
  switch (answer.state) {
    case VictimState::ready:
    case VictimState::constrained:
    case VictimState::waiting:
    case VictimState::none:
    case VictimState::released:
      leave_ahead(state, id, false);
      requeue(state, id);
      break;
    default:
      promote(state, id);  // it has begun
  }
  run_transitions(state);
  fill_slots(state);
  return true;
}

// ---- upkeep -------------------------------------------------------------------------------------

void update_hunger(State& state, Worker& worker) {
  state.set_hungry(worker, serves(state, worker) && ahead_of(worker) <= worker.ahead_target / 2);
}

void on_config_changed(State& state, const ConfigChanged& changed) {
  if (changed.automatic) state.config.automatic = *changed.automatic;
  if (changed.prefetch) state.config.prefetch = *changed.prefetch;
  if (changed.batches) state.config.batches = *changed.batches;
  for (const WorkerId id : state.living) {
    Worker& worker = state.worker(id);
    if (serves(state, worker)) {
      update_hunger(state, worker);
    } else if (worker.rask) {
      recall_all(state, worker);
    }
  }
  run_transitions(state);
  fill_slots(state);
}

}  // namespace scheduler
