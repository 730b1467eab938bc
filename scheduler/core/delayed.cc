//! Bounded tasks that wait for memory, and the ones that no worker could ever hold.
#include <algorithm>
#include <string>

#include "scheduler/core/admission.h"
#include "scheduler/core/assignment.h"
#include "scheduler/core/placement.h"
#include "scheduler/core/transitions.h"

namespace scheduler {

namespace {

using Ranks = std::vector<std::uint32_t>;

Ranks candidates(const State& state, const Task& task) {
  std::optional<Ranks> valid = valid_workers(state, task);
  if (valid && !(valid->empty() && task.loose_restrictions)) return std::move(*valid);
  Ranks ranks;
  state.running.for_each([&](std::uint32_t rank) { ranks.push_back(rank); });
  return ranks;
}

//! Brings new data into the cluster: such tasks fill free slots as root-ish ones do. A loader's only
//! input is the array object that it reads from.
bool brings_data(const Task& task) { return task.dependencies.empty() || task.data_producer; }

//! Others than those go where they start soonest.
Objective objective(State& state, const Task& task, Worker& worker) {
  const double start =
      brings_data(task)
          ? static_cast<double>(worker.processing.size()) / worker.nthreads
          : state.occupancy(worker) / worker.nthreads + comm_cost(state, task, worker);
  return Objective{task.actor ? worker.actors.size() : 0, start, worker.nbytes};
}

//! The best worker that may start the task now; null: none. `taken`: by rank, not to be asked.
Worker* choose(State& state, const Task& task, const Ranks& ranks, const std::vector<bool>& taken) {
  Worker* best = nullptr;
  Objective least;
  for (const std::uint32_t rank : ranks) {
    Worker& worker = state.worker(state.by_rank[rank]);
    if (!taken.empty() && taken[rank]) continue;
    if (brings_data(task) && !worker.has_slot) continue;
    const Objective here = objective(state, task, worker);
    if ((best != nullptr && !(here < least)) || !may_start(state, task, worker)) continue;
    best = &worker;
    least = here;
  }
  return best;
}

std::string megabytes(std::uint64_t bytes) { return std::to_string(bytes / 1'000'000) + " MB"; }

//! Why the task does not start, for its story.
std::string reason(const State& state, const Task& task, const Ranks& ranks) {
  std::string text = "waits for memory: needs " + megabytes(expected_bytes(state, task));
  const Worker* emptiest = nullptr;
  for (const std::uint32_t rank : ranks) {
    const Worker& worker = state.worker(state.by_rank[rank]);
    const auto room = [&](const Worker& w) {
      return static_cast<double>(budget_of(state, w)) -
             static_cast<double>(memory_use(state, w).total());
    };
    if (emptiest == nullptr || room(worker) > room(*emptiest)) emptiest = &worker;
  }
  if (emptiest == nullptr) return text + ", no worker runs";
  const std::uint64_t budget = budget_of(state, *emptiest);
  if (budget == kNoBudget) return "waits for a slot or its device";
  const MemoryUse use = memory_use(state, *emptiest);
  return text + "; " + emptiest->address + " holds " + megabytes(use.managed) + ", reserves " +
         megabytes(use.reserved) + ", fetches " + megabytes(use.in_flight) + " of " +
         megabytes(budget);
}

void tell_story(State& state, TaskId id, const Ranks& ranks) {
  Task& task = state.tasks[id];
  if (task.delayed) return;
  task.delayed = true;
  ++state.memory_counts.delayed;
  state.story.remark(task.key_ref, task.state, reason(state, task, ranks), state.now.wall);
}

using Front = std::map<std::uint32_t, Lane>::const_iterator;

//! The lane with the most urgent first task among those not in `stuck`.
Front next_lane(const Lanes& lanes, const std::vector<std::uint32_t>& stuck) {
  Front best = lanes.all().end();
  for (Front lane = lanes.all().begin(); lane != lanes.all().end(); ++lane) {
    if (std::find(stuck.begin(), stuck.end(), lane->first) != stuck.end()) continue;
    if (best == lanes.all().end() || *lane->second.tasks.begin() < *best->second.tasks.begin()) {
      best = lane;
    }
  }
  return best;
}

}  // namespace

void place_bounded(State& state, TaskId id) {
  const Task& task = state.tasks[id];
  const Ranks ranks = candidates(state, task);
  if (ranks.empty() || too_large(state, task)) return recommend(state, id, TaskState::no_worker);
  // Behind those who wait already; start_delayed knows whose turn it is.
  Worker* worker = state.lanes.empty() ? choose(state, task, ranks, {}) : nullptr;
  return worker != nullptr ? start(state, id, *worker) : recommend(state, id, TaskState::queued);
}

void place_unrunnable(State& state, TaskId id) {
  const Task& task = state.tasks[id];
  if (candidates(state, task).empty() || too_large(state, task)) return;
  recommend(state, id, TaskState::released);
}

void start_delayed(State& state, const Priority* before) {
  if (state.lanes.empty()) return;
  std::vector<bool> taken(state.by_rank.size(), false);
  std::vector<std::uint32_t> stuck;
  for (;;) {
    const Front lane = next_lane(state.lanes, stuck);
    if (lane == state.lanes.all().end()) return;
    const TaskId id = lane->second.tasks.begin()->task;
    const Task& task = state.tasks[id];
    if (before != nullptr && !(task.priority < *before)) return;
    if (too_large(state, task)) {
      recommend(state, id, TaskState::released);  // and so to wait for a larger worker, or to err
      run_transitions(state);
      continue;
    }
    const Ranks ranks = candidates(state, task);
    if (Worker* worker = choose(state, task, ranks, taken)) {
      leave_queue(state, id);
      start(state, id, *worker);
      run_transitions(state);
      continue;
    }
    tell_story(state, id, ranks);
    stuck.push_back(lane->first);
    // Nobody behind it may take the room that it waits for.
    for (const std::uint32_t rank : ranks) taken[rank] = true;
  }
}

void note_delayed(State& state, TaskId id) {
  if (state.tasks[id].delayed) return;
  Ranks ranks;
  state.open.for_each([&](std::uint32_t rank) { ranks.push_back(rank); });
  if (!ranks.empty()) tell_story(state, id, ranks);
}

std::optional<TooSmall> too_large(const State& state, const Task& task) {
  if (!bounded(state, task) || task.annotations->memory == 0 || state.living.empty()) return {};
  TooSmall best;
  bool unlimited = false;
  const auto look = [&](const Worker& worker) {
    unlimited = unlimited || worker.memory_limit == 0;
    if (best.worker.valid() && worker.memory_limit <= best.limit) return;
    best = TooSmall{worker.memory_limit, worker.id};
  };
  for (const std::uint32_t rank : candidates(state, task)) {
    look(state.worker(state.by_rank[rank]));
  }
  for (const WorkerId id : state.living) {  // one that is paused may run it later
    if (!state.worker(id).running()) look(state.worker(id));
  }
  if (unlimited || !best.worker.valid() || task.annotations->memory <= best.limit) return {};
  return best;
}

void check_too_large(State& state) {
  const Duration grace = state.config.memory_too_large_grace;
  const Duration settled = state.last_worker_added.value_or(Duration()) + grace;
  if (state.unrunnable.empty() || state.now.mono < settled) return;
  std::vector<std::pair<TaskId, TooSmall>> hopeless;
  auto place = state.unrunnable.lower_bound(state.next_size_check);
  for (std::uint32_t looks = state.config.transitions_at_once; looks > 0; --looks, ++place) {
    if (place == state.unrunnable.end() || state.now.mono < place->second.since + grace) {
      place = state.unrunnable.end();  // the next tick begins anew
      break;
    }
    const TaskId id = place->second.task;
    if (const auto small = too_large(state, state.tasks[id])) hopeless.emplace_back(id, *small);
  }
  state.next_size_check = place == state.unrunnable.end() ? 0 : place->first;
  for (const auto& [id, small] : hopeless) {
    const Task& task = state.tasks[id];
    if (task.state != TaskState::no_worker) continue;
    auto error = std::make_shared<TaskError>();
    error->failed = task.key_ref;
    error->own.kind = OwnError::Kind::memory_request;
    error->own.worker = state.worker(small.worker).address;
    error->own.input_bytes = task.annotations->memory;
    error->own.memory_limit = small.limit;
    ++state.memory_counts.too_large;
    to_erred(state, id, std::move(error), WorkerId());
    run_transitions(state);
  }
}

MemoryReport memory_report(const State& state) {
  MemoryReport report;
  for (const WorkerId id : state.living) {
    const Worker& worker = state.worker(id);
    MemoryReport::Line line{id, worker.memory_limit, budget_of(state, worker),
                            memory_use(state, worker)};
    report.total.managed += line.use.managed;
    report.total.reserved += line.use.reserved;
    report.total.in_flight += line.use.in_flight;
    report.workers.push_back(line);
  }
  for (const auto& [number, lane] : state.lanes.all()) {
    report.delayed_tasks += lane.tasks.size();
    report.delayed_bytes += lane.bytes;
    const Ranks ranks = candidates(state, state.tasks[lane.tasks.begin()->task]);
    for (MemoryReport::Line& line : report.workers) {
      if (!std::binary_search(ranks.begin(), ranks.end(), state.worker(line.worker).rank)) continue;
      line.delayed_tasks += lane.tasks.size();
      line.delayed_bytes += lane.bytes;
    }
  }
  if (!state.queue.empty() && !state.open.empty()) {  // held up by memory, not by slots
    const std::uint64_t each = expected_bytes(state, state.tasks[state.queue.front()]);
    report.delayed_tasks += state.queue.size();
    report.delayed_bytes += state.queue.size() * each;
    for (MemoryReport::Line& line : report.workers) {
      if (!state.worker(line.worker).has_slot) continue;
      line.delayed_tasks += state.queue.size();
      line.delayed_bytes += state.queue.size() * each;
    }
  }
  return report;
}

}  // namespace scheduler
