#include "scheduler/core/stealing.h"

#include <algorithm>
#include <cmath>

#include "scheduler/core/admission.h"
#include "scheduler/core/ahead.h"
#include "scheduler/core/assignment.h"
#include "scheduler/core/placement.h"
#include "scheduler/core/transitions.h"

namespace scheduler {

namespace {

constexpr double kLatency = 0.1;              //!< seconds that any move costs
constexpr std::size_t kVictims = 10;          //!< busiest workers looked at if none is saturated
constexpr std::uint32_t kTasksExamined = 20'000;  //!< per round, so that a round stays short

//! -1: not to be stolen.
int level_of(const State& state, const Task& task) {
  const TaskPrefix& prefix = *task.group->prefix;
  if (prefix.never_stolen) return -1;
  if (task.dependencies.empty()) return 0;
  const double compute = state.estimate(prefix);
  if (compute <= 0) return -1;
  const double transfer =
      static_cast<double>(input_bytes(state, task)) / state.bandwidth + kLatency;
  const double level = std::nearbyint(std::log2(transfer / compute) + 6);
  if (level >= kStealLevels) return -1;
  return std::max(1, static_cast<int>(level));
}

double busy_seconds(State& state, Worker& worker) {
  return state.occupancy(worker) + worker.stolen_seconds;
}

std::size_t busy_tasks(const Worker& worker) {
  const auto tasks = static_cast<std::int64_t>(worker.processing.size()) + worker.stolen_tasks;
  return static_cast<std::size_t>(std::max<std::int64_t>(tasks, 0));
}

using Workers = std::vector<Worker*>;

Workers find_victims(State& state) {
  const auto busier = [&](Worker* a, Worker* b) {
    return busy_seconds(state, *a) > busy_seconds(state, *b);
  };
  Workers victims;
  state.saturated.for_each([&](std::uint32_t rank) {
    victims.push_back(&state.worker(state.by_rank[rank]));
  });
  if (!victims.empty()) {
    if (victims.size() < 20) std::stable_sort(victims.begin(), victims.end(), busier);
    return victims;
  }
  for (const WorkerId id : state.by_rank) victims.push_back(&state.worker(id));
  std::stable_sort(victims.begin(), victims.end(), busier);
  if (victims.size() > kVictims) victims.resize(kVictims);
  const auto unfit = [&](Worker* worker) {
    return busy_seconds(state, *worker) <= 0.2 || busy_tasks(*worker) <= worker->nthreads ||
           worker->idle;
  };
  victims.erase(std::remove_if(victims.begin(), victims.end(), unfit), victims.end());
  return victims;
}

Worker* find_thief(State& state, const Task& task, const Workers& thieves) {
  const auto valid = valid_workers(state, task);
  const auto allowed = [&](const Worker& worker) {
    return !valid || std::binary_search(valid->begin(), valid->end(), worker.rank);
  };
  const bool any_allowed =
      std::any_of(thieves.begin(), thieves.end(), [&](Worker* w) { return allowed(*w); });
  if (!any_allowed && !task.loose_restrictions) return nullptr;
  const bool held = bounded(state, task) || is_rootish(state, task);
  Worker* best = nullptr;
  Objective least;
  for (Worker* worker : thieves) {
    if (any_allowed && !allowed(*worker)) continue;
    if (held && !may_start(state, task, *worker)) continue;
    const Objective here{
        task.actor ? worker->actors.size() : 0,
        busy_seconds(state, *worker) / worker->nthreads + comm_cost(state, task, *worker),
        worker->nbytes};
    if (best != nullptr && !(here < least)) continue;
    best = worker;
    least = here;
  }
  return best;
}

void request(State& state, TaskId id, Worker& victim, Worker& thief) {
  const Task& task = state.tasks[id];
  make_unstealable(state, id);
  const double compute = state.estimate(*task.group->prefix);
  const Theft theft{state.thefts.next++, victim.id, thief.id,
                    compute + comm_cost(state, task, victim),
                    compute + comm_cost(state, task, thief)};
  victim.stolen_seconds -= theft.victim_seconds;
  victim.stolen_tasks -= 1;
  thief.stolen_seconds += theft.thief_seconds;
  thief.stolen_tasks += 1;
  state.thefts.in_flight.emplace(id, theft);
  state.emit(SendStealRequest{victim.id, id, theft.id});
}

//! Looks through one level of one victim. False when there is no thief left.
bool plunder(State& state, Worker& victim, int level, Workers& thieves, std::uint32_t& budget) {
  const std::vector<TaskId> candidates = victim.stealable[static_cast<std::size_t>(level)];
  for (const TaskId id : candidates) {
    if (thieves.empty() || budget == 0) return false;
    --budget;
    const Task& task = state.tasks[id];
    // Not yet sent in this step: the worker could not answer for it.
    if (task.compute_pending || state.thefts.in_flight.contains(id)) continue;
    Worker* thief = find_thief(state, task, thieves);
    if (thief == nullptr) continue;
    const double compute = state.estimate(*task.group->prefix);
    const double theirs = busy_seconds(state, *thief) + comm_cost(state, task, *thief) + compute;
    const double ours =
        busy_seconds(state, victim) - (comm_cost(state, task, victim) + compute) / 2;
    if (theirs > ours) continue;
    request(state, id, victim, *thief);
    if (!state.unoccupied(*thief, busy_seconds(state, *thief), busy_tasks(*thief))) {
      thieves.erase(std::find(thieves.begin(), thieves.end(), thief));
    }
  }
  return true;
}

Theft take_theft(State& state, TaskId id) {
  const auto found = state.thefts.in_flight.find(id);
  const Theft theft = found->second;
  state.thefts.in_flight.erase(found);
  if (state.has_worker(theft.victim)) {
    state.worker(theft.victim).stolen_seconds += theft.victim_seconds;
    state.worker(theft.victim).stolen_tasks += 1;
  }
  if (state.has_worker(theft.thief)) {
    state.worker(theft.thief).stolen_seconds -= theft.thief_seconds;
    state.worker(theft.thief).stolen_tasks -= 1;
  }
  if (state.thefts.in_flight.empty()) {
    for (const WorkerId worker : state.living) state.worker(worker).stolen_seconds = 0;
  }
  return theft;
}

}  // namespace

void make_stealable(State& state, TaskId id) {
  if (!state.config.work_stealing) return;
  Task& task = state.tasks[id];
  const int level = level_of(state, task);
  if (level < 0) return;
  auto& list = state.worker(task.processing_on).stealable[static_cast<std::size_t>(level)];
  task.steal_level = static_cast<std::int8_t>(level);
  task.steal_place = static_cast<std::uint32_t>(list.size());
  list.push_back(id);
  TaskPrefix& prefix = *task.group->prefix;
  // The level of a task without inputs does not depend on its duration.
  if (prefix.duration_average < 0 && level > 0) prefix.unknown_duration.push_back(id);
}

void make_unstealable(State& state, TaskId id) {
  Task& task = state.tasks[id];
  if (task.steal_level < 0) return;
  auto& list =
      state.worker(task.processing_on).stealable[static_cast<std::size_t>(task.steal_level)];
  const TaskId moved = list.back();
  list[task.steal_place] = moved;
  state.tasks[moved].steal_place = task.steal_place;
  list.pop_back();
  task.steal_level = -1;
}

void forget_theft(State& state, TaskId id) {
  if (!state.thefts.in_flight.empty() && state.thefts.in_flight.contains(id)) take_theft(state, id);
}

void durations_known(State& state, TaskPrefix& prefix) {
  if (prefix.unknown_duration.empty()) return;
  const std::vector<TaskId> guessed = std::exchange(prefix.unknown_duration, {});
  for (const TaskId id : guessed) {
    if (!state.tasks.alive(id)) continue;
    const Task& task = state.tasks[id];
    if (task.state != TaskState::processing || task.steal_level < 0) continue;
    make_unstealable(state, id);
    make_stealable(state, id);
  }
}

void balance(State& state) {
  if (state.idle.empty() || state.idle.size() == state.by_rank.size()) return;
  Workers victims = find_victims(state);
  if (victims.empty()) return;
  Workers thieves;
  state.idle.for_each([&](std::uint32_t rank) {
    thieves.push_back(&state.worker(state.by_rank[rank]));
  });
  std::uint32_t budget = kTasksExamined;
  bool more = true;
  for (int level = 0; level < kStealLevels && more; ++level) {
    for (Worker* victim : victims) {
      if (victim->stealable[static_cast<std::size_t>(level)].empty()) continue;
      more = plunder(state, *victim, level, thieves, budget);
      state.check_idle_saturated(*victim, std::max(busy_seconds(state, *victim), 0.0));
      if (!more) break;
    }
  }
}

void on_steal_answered(State& state, const StealAnswered& answer) {
  const TaskId id = state.find(answer.key);
  if (!id.valid() || on_recall_answered(state, id, answer)) return;
  const auto found = state.thefts.in_flight.find(id);
  if (found == state.thefts.in_flight.end() || found->second.id != answer.theft ||
      found->second.victim != answer.worker) {
    return;
  }
  const Theft theft = take_theft(state, id);
  const bool thief_runs = state.has_worker(theft.thief) && state.worker(theft.thief).running();
  switch (answer.state) {
    case VictimState::ready:
    case VictimState::constrained:
    case VictimState::waiting:
      if (thief_runs) {
        reassign(state, id, state.worker(theft.thief));
        break;
      }
      [[fallthrough]];
    case VictimState::none:
    case VictimState::released:
      recommend(state, id, TaskState::released);
      run_transitions(state);
      break;
    default: break;  // it runs there already
  }
  if (state.has_worker(theft.thief)) state.check_idle_saturated(state.worker(theft.thief));
  if (state.has_worker(theft.victim)) state.check_idle_saturated(state.worker(theft.victim));
  fill_slots(state);
}

}  // namespace scheduler
