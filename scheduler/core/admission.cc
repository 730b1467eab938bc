#include "scheduler/core/admission.h"

#include <algorithm>

#include "scheduler/core/assignment.h"

namespace scheduler {

namespace {

constexpr std::size_t kLooks = 4096;   //!< at processing tasks of other workers
constexpr std::size_t kConsumers = 8;  //!< inputs of a finished task that learn of its size
constexpr std::uint32_t kMostLeeway = 1024;
constexpr std::size_t kInputs = 16;      //!< of a finished task, looked at for what was fetched
constexpr int kStepsBack = 8;            //!< from a family never measured to one that was
constexpr std::uint64_t kFading = 16;  //!< results after which a large one is all but forgotten
//! Results so small that a ten-thousandth of the worker's memory holds one per thread never wait.
constexpr std::uint64_t kSmallParts = 10'000;
//! Budget of a thread below which loads of unknown size fill half of the threads only.
constexpr std::uint64_t kRoomyThread = 128'000'000;

//! Of a result that is under way. Never measured: as large as what it is made of.
std::uint64_t family_bytes(const TaskPrefix& prefix) {
  if (prefix.size_average >= 0) {
    return static_cast<std::uint64_t>(prefix.size_average) + prefix.consumer_size;
  }
  const TaskGroup* group = prefix.groups.empty() ? nullptr : prefix.groups.front();
  for (int steps = 0; group != nullptr && group->prefix != nullptr && steps < kStepsBack; ++steps) {
    const std::int64_t size = group->prefix->size_average;
    if (size >= 0) return static_cast<std::uint64_t>(size);
    group = group->last_dependency;
  }
  return 0;
}

//! Mean of its own group, or of its prefix while the group is new; -1: never measured.
std::int64_t mean_bytes(const Task& task) {
  const TaskGroup& group = *task.group;
  if (group.measured > 0) return group.nbytes_total / static_cast<std::int64_t>(group.measured);
  return group.prefix->size_average;
}

std::uint64_t missing_inputs(const State& state, const Task& task, const Worker& worker) {
  std::uint64_t missing = 0;
  for (const Edge& edge : task.dependencies) {
    const Task& input = state.tasks[edge.task];
    if (!input.on(worker.id) && !worker.needs_what.contains(edge.task)) {
      missing += state.size_of(input);
    }
  }
  return missing;
}

//! Tasks it runs or is about to; not those that have seceded, which may wait for others.
std::size_t in_play(const Worker& worker) { return worker.processing.size() - worker.long_running; }

//! Some other worker processes a task with an input here: when it is done the input may go.
bool others_will_free(const State& state, const Worker& worker) {
  std::size_t looks = 0;
  for (const WorkerId id : state.living) {
    if (id == worker.id) continue;
    for (const TaskId task : state.worker(id).processing) {
      if (state.tasks[task].long_running) continue;
      for (const Edge& edge : state.tasks[task].dependencies) {
        if (++looks > kLooks || state.tasks[edge.task].on(worker.id)) return true;
      }
    }
  }
  return false;
}

bool device_is_free(const State& state, const Task& task, const Worker& worker) {
  const Annotations& own = *task.annotations;
  if (own.io_concurrency == 0) return true;
  std::uint32_t running = 0;
  for (const TaskId id : worker.bounded) {
    const Annotations& other = *state.tasks[id].annotations;
    running += other.io_concurrency > 0 && other.io_device == own.io_device;
  }
  return running < own.io_concurrency;
}

//! What is let in is worked on unasked: inputs stay, and some are fetched, until a result is there.
//! Room for results on threads that would still be free, and for what all threads fetch, so that
//! finishing what was begun never takes more than the budget.
std::uint64_t room_to_work(const State& state, const Worker& worker) {
  if (!state.config.memory_learned) return 0;
  const std::size_t busy = in_play(worker) + 1;
  const std::size_t held = worker.has_what.size();
  const std::size_t free = worker.nthreads > busy ? worker.nthreads - busy : 0;
  const std::uint64_t fetches = std::min<std::size_t>(worker.nthreads, held) * worker.made_of;
  return std::min(free, held) * worker.made_size + fetches -
         std::min(fetches, worker.network_bytes);
}

bool fits(const State& state, const Task& task, const Worker& worker, std::uint64_t budget) {
  return memory_use(state, worker).total() + expected_bytes(state, task) +
             missing_inputs(state, task, worker) + room_to_work(state, worker) <=
         budget;
}

//! Nothing has started here for longer than what is under way should take.
bool impatient(const State& state, const Worker& worker) {
  double seconds = state.config.memory_patience.as_seconds();
  const double most = 12 * seconds;
  for (const auto& [prefix, load] : worker.load) {
    seconds = std::max(seconds, std::min(2 * prefix->duration_average, most));
  }
  return (state.now.mono - worker.leeway.since).as_seconds() > seconds;
}

//! Whether waiting has been of no use so far, so that the task may pass the budget.
bool has_leeway(const State& state, const Worker& worker, std::uint64_t needed) {
  const Leeway& leeway = worker.leeway;
  const bool freed = worker.freed - leeway.freed_before >= needed;
  return in_play(worker) < (freed ? 1 : leeway.tasks) || impatient(state, worker);
}

//! Tasks of one family that may run before any was measured. Each will hold a result and then make
//! another of it, so where a thread has little room a full wave could pass the budget by itself.
std::uint32_t first_wave(const Worker& worker, std::uint64_t budget) {
  const bool roomy = budget / worker.nthreads >= kRoomyThread;
  return roomy ? worker.nthreads : std::max(1u, worker.nthreads / 2);
}

bool may_start_unannotated(const State& state, const Task& task, const Worker& worker) {
  if (!state.config.memory_learned || !worker.rask) return true;
  const std::uint64_t budget = budget_of(state, worker);
  if (budget == kNoBudget) return true;
  TaskPrefix* prefix = task.group->prefix;
  if (mean_bytes(task) < 0) {
    const auto found = worker.load.find(prefix);
    const std::uint32_t running = found == worker.load.end() ? 0 : found->second.count;
    if (running >= worker.nthreads) return false;
    return running < first_wave(worker, budget) || impatient(state, worker);
  }
  const std::uint64_t needed = expected_bytes(state, task);
  if (needed < worker.memory_limit / kSmallParts / worker.nthreads) return true;
  return fits(state, task, worker, budget) || has_leeway(state, worker, needed);
}

}  // namespace

bool bounded(const State& state, const Task& task) {
  return task.annotations && state.config.memory_budget > 0 &&
         (task.annotations->memory > 0 || task.annotations->io_concurrency > 0);
}

MemoryUse memory_use(const State& state, const Worker& worker) {
  MemoryUse use;
  use.managed = worker.nbytes - std::min(worker.nbytes, worker.spilled_memory);
  use.in_flight = worker.network_bytes;
  if (state.config.memory_learned) {
    for (const auto& [prefix, load] : worker.load) {
      use.reserved += load.count * family_bytes(*prefix);
    }
  }
  for (const TaskId id : worker.bounded) {
    const Task& task = state.tasks[id];
    // Counted above with its family, unless it has seceded.
    if (state.config.memory_learned && !task.long_running) {
      use.reserved -= family_bytes(*task.group->prefix);
    }
    use.reserved += expected_bytes(state, task);
  }
  return use;
}

std::uint64_t budget_of(const State& state, const Worker& worker) {
  if (worker.memory_limit == 0 || state.config.memory_budget <= 0) return kNoBudget;
  return static_cast<std::uint64_t>(static_cast<double>(worker.memory_limit) *
                                    state.config.memory_budget);
}

std::uint64_t expected_bytes(const State& state, const Task& task) {
  const std::int64_t mean = mean_bytes(task);
  const std::uint64_t measured = mean < 0 ? 0 : static_cast<std::uint64_t>(mean);
  // What is asked for may be more than the result: room to work in. Never less than was seen.
  if (bounded(state, task)) return std::max(task.annotations->memory, measured);
  return measured + (mean < 0 ? 0 : task.group->prefix->consumer_size);
}

bool may_start(const State& state, const Task& task, const Worker& worker) {
  if (state.config.memory_budget <= 0) return true;
  if (!bounded(state, task)) return may_start_unannotated(state, task, worker);
  if (!device_is_free(state, task, worker)) return false;
  if (worker.memory_limit > 0 && task.annotations->memory > worker.memory_limit) return false;
  const std::uint64_t budget = budget_of(state, worker);
  if (budget == kNoBudget || fits(state, task, worker, budget)) return true;
  return in_play(worker) == 0 && !others_will_free(state, worker);
}

namespace {

//! The task is about to start: what that says about waiting for memory on this worker.
void note_start(State& state, const Task& task, Worker& worker) {
  const std::uint64_t budget = budget_of(state, worker);
  if (budget == kNoBudget) return;
  const bool is_bounded = bounded(state, task);
  if (!is_bounded && (!state.config.memory_learned || !worker.rask)) return;
  Leeway& leeway = worker.leeway;
  if (!is_bounded && mean_bytes(task) < 0) {
    leeway.since = state.now.mono;
    return;
  }
  const std::uint64_t needed = expected_bytes(state, task);
  if (needed < worker.memory_limit / kSmallParts / worker.nthreads) return;
  if (fits(state, task, worker, budget)) {
    leeway = Leeway{1, false, worker.freed, state.now.mono};
    return;
  }
  ++state.memory_counts.started_over_budget;
  if (is_bounded || (in_play(worker) > 0 && !impatient(state, worker))) return;
  // Waiting came to an end without room: did the last task that began like this lead to any?
  const bool freed = !leeway.used || worker.freed - leeway.freed_before >= needed;
  const std::uint32_t tasks = freed ? 1 : std::min(leeway.tasks * 2, kMostLeeway);
  leeway = Leeway{tasks, true, worker.freed, state.now.mono};
}

}  // namespace

void start(State& state, TaskId id, Worker& worker) {
  note_start(state, state.tasks[id], worker);
  assign(state, id, worker);
}

namespace {

//! What it takes to make one result from others here.
void learn_room(const State& state, const Task& task, Worker& worker) {
  const auto size = static_cast<std::uint64_t>(std::max<std::int64_t>(task.nbytes, 0));
  worker.made_size = std::max(size, worker.made_size - worker.made_size / kFading);
  std::uint64_t fetched = 0;
  std::size_t looks = 0;
  for (const Edge& edge : task.dependencies) {
    const Task& input = state.tasks[edge.task];
    if (++looks > kInputs) break;
    // Where several hold it, all but one have fetched it.
    if (input.who_has.size() > 1 && input.on(worker.id)) fetched += state.size_of(input);
  }
  worker.made_of = worker.made_of - worker.made_of / kFading + fetched / kFading;
}

}  // namespace

void learn_size(State& state, const Task& task, Worker& worker) {
  TaskPrefix& prefix = *task.group->prefix;
  const std::int64_t size = std::max<std::int64_t>(task.nbytes, 0);
  if (prefix.size_average < 0 && task.dependencies.empty() && !task.dependents.empty()) {
    prefix.consumer_size = static_cast<std::uint64_t>(size);  // a guess, until one is there
  }
  prefix.size_average =
      prefix.size_average < 0 ? size : prefix.size_average + (size - prefix.size_average) / 4;
  if (!task.dependencies.empty()) learn_room(state, task, worker);
  // A result goes when a consumer is done, so for a while both need room.
  std::size_t looks = 0;
  for (const Edge& edge : task.dependencies) {
    if (++looks > kConsumers) return;
    const Task& input = state.tasks[edge.task];
    if (!input.dependencies.empty()) continue;
    TaskPrefix& family = *input.group->prefix;
    std::uint64_t& consumer = family.consumer_size;
    const auto seen = static_cast<std::uint64_t>(size);
    consumer = family.consumer_seen ? consumer - consumer / 4 + seen / 4 : seen;
    family.consumer_seen = true;
  }
}

}  // namespace scheduler
