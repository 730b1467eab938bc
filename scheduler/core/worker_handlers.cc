//! Reactions to workers that come, change and go.
//!
//! The order of a loss is stock's: off all lists first, then its tasks, then its replicas, then
//! the transitions, and last the news to the other workers.
#include <algorithm>
#include <cmath>
#include <utility>

#include "scheduler/core/ahead.h"
#include "scheduler/core/assignment.h"
#include "scheduler/core/handlers.h"
#include "scheduler/core/placement.h"
#include "scheduler/core/shuffle.h"
#include "scheduler/core/transitions.h"

namespace scheduler {

namespace {

void refresh_no_workers_since(State& state) {
  if (!state.running.empty() || (state.queued() == 0 && state.unrunnable.empty())) {
    state.no_workers_since.reset();
  } else if (!state.no_workers_since) {
    state.no_workers_since = state.now.mono;
  }
}

void start_using(State& state, Worker& worker) {
  state.running.set(worker.rank, true);
  state.check_idle_saturated(worker);
  update_hunger(state, worker);
  state.offer_from = 0;
  offer_unrunnable(state);
  fill_slots(state);
}

void stop_using(State& state, Worker& worker) {
  state.running.set(worker.rank, false);
  state.set_membership(worker, false, false, false);
  recall_all(state, worker);
  fill_slots(state);
}

void erase(std::vector<WorkerId>& from, WorkerId id) {
  from.erase(std::remove(from.begin(), from.end(), id), from.end());
}

void strike_off(State& state, Worker& worker) {
  state.total_nthreads -= worker.nthreads;
  state.total_memory -= worker.memory_limit;
  state.addresses.erase(worker.address);
  const auto alias = state.aliases.find(worker.name.bytes);
  if (alias != state.aliases.end() && alias->second == worker.id) state.aliases.erase(alias);
  if (--state.hosts[worker.host] == 0) state.hosts.erase(worker.host);
  erase(state.living, worker.id);
  worker.status = WorkerStatus::closed;
  state.rank_workers();
  state.dead.push_back(worker.id);
}

//! The task took this worker with it. True if that was once too often.
bool killed_too_many(State& state, TaskId id, const Worker& worker) {
  Task& task = state.tasks[id];
  const std::uint32_t suspicious = ++state.extra(task).suspicious;
  ++task.group->prefix->suspicious;
  if (suspicious <= state.config.allowed_failures) return false;
  auto error = std::make_shared<TaskError>();
  error->failed = task.key_ref;
  error->own.kind = OwnError::Kind::killed_worker;
  error->own.worker = worker.address;
  error->own.allowed_failures = state.config.allowed_failures;
  state.emit(Note{Note::Kind::task_killed_workers, Key{std::string(task.key().bytes)}});
  to_erred(state, id, std::move(error), WorkerId());
  return true;
}

//! The newest `most` entries of a list that changes while they are seen to.
std::vector<TaskId> newest(const std::vector<TaskId>& list, std::size_t most) {
  return {list.end() - static_cast<std::ptrdiff_t>(std::min(most, list.size())), list.end()};
}

void lose_processing(State& state, const Worker& worker, bool expected, std::size_t most) {
  for (const TaskId id : newest(worker.processing, most)) {
    if (expected || !killed_too_many(state, id, worker)) {
      recommend(state, id, TaskState::released);
    }
  }
}

void lose_replicas(State& state, const Worker& worker, std::size_t most) {
  for (const TaskId id : newest(worker.has_what, most)) {
    const Task& task = state.tasks[id];
    state.remove_replica(id, worker.id);
    const bool was_actor =
        task.actor && std::find(worker.actors.begin(), worker.actors.end(), id) != worker.actors.end();
    if (was_actor) {
      recommend(state, id, TaskState::erred);
    } else if (task.who_has.empty()) {
      recommend(state, id, task.spec ? TaskState::released : TaskState::forgotten);
    }
  }
}

//! Separates memory that has been there for long from memory that may be gone soon.
void track_unmanaged(State& state, Worker& worker) {
  const Duration horizon =
      state.now.mono - Duration::seconds(state.config.memory_recent_to_old);
  auto& history = worker.unmanaged_history;
  const auto fresh = std::find_if(history.begin(), history.end(),
                                  [&](const auto& entry) { return entry.first >= horizon; });
  history.erase(history.begin(), fresh);
  const std::uint64_t managed = worker.nbytes - std::min(worker.nbytes, worker.spilled_memory);
  const std::uint64_t size = worker.memory_rss - std::min(worker.memory_rss, managed);
  history.emplace_back(state.now.mono, size);
  worker.unmanaged_old = size;
  for (const auto& entry : history) {
    worker.unmanaged_old = std::min(worker.unmanaged_old, entry.second);
  }
}

}  // namespace

void on_worker_added(State& state, const WorkerAdded& added) {
  if (!added.worker.valid() || state.addresses.contains(added.address) ||
      (added.worker.value < state.workers.size() && state.workers[added.worker.value])) {
    return;
  }
  if (state.workers.size() <= added.worker.value) state.workers.resize(added.worker.value + 1);
  auto made = std::make_unique<Worker>();
  Worker& worker = *made;
  worker.id = added.worker;
  worker.address = added.address;
  worker.host = added.host;
  worker.name = added.name;
  worker.nthreads = std::max<std::uint32_t>(added.nthreads, 1);
  worker.memory_limit = added.memory_limit;
  worker.rask = added.rask;
  worker.resources = added.resources;
  for (const auto& [name, amount] : added.resources) worker.used_resources.emplace_back(name, 0);
  state.workers[added.worker.value] = std::move(made);
  state.living.push_back(worker.id);
  state.addresses.emplace(worker.address, worker.id);
  state.aliases.try_emplace(worker.name.bytes, worker.id);
  ++state.hosts[worker.host];
  state.total_nthreads += worker.nthreads;
  state.total_memory += worker.memory_limit;
  state.last_worker_added = state.now.mono;
  worker.leeway.since = state.now.mono;
  state.rank_workers();
}

void on_worker_status(State& state, const WorkerStatusChanged& changed) {
  if (!state.has_worker(changed.worker) || changed.status == WorkerStatus::closed) return;
  Worker& worker = state.worker(changed.worker);
  if (worker.status == changed.status || worker.fading) return;
  worker.status = changed.status;
  if (worker.running()) {
    start_using(state, worker);
  } else {
    stop_using(state, worker);
  }
  refresh_no_workers_since(state);
}

void on_worker_fading(State& state, const WorkerFading& fading) {
  if (!state.has_worker(fading.worker)) return;
  Worker& worker = state.worker(fading.worker);
  if (!worker.fading) {
    worker.fading = true;
    ++state.fading;
    worker.status = WorkerStatus::closing;
    state.running.set(worker.rank, false);
    state.set_membership(worker, false, false, false);
    state.set_hungry(worker, false);
    lose_ahead(state, worker, fading.expected);
  }
  // What was on it begins elsewhere when all of that is known: later.
  state.hops = state.config.transitions_at_once;
  const std::size_t most = state.config.transitions_at_once;
  if (!worker.processing.empty()) {
    lose_processing(state, worker, fading.expected, most);
  } else {
    lose_replicas(state, worker, most);
  }
  run_transitions(state);
  refresh_no_workers_since(state);
}

void on_worker_lost(State& state, const WorkerLost& lost) {
  if (!state.has_worker(lost.worker)) return;
  Worker& worker = state.worker(lost.worker);
  if (std::exchange(worker.fading, false)) --state.fading;
  strike_off(state, worker);
  lose_ahead(state, worker, lost.expected);
  lose_processing(state, worker, lost.expected, worker.processing.size());
  lose_replicas(state, worker, worker.has_what.size());
  run_transitions(state);
  shuffle_worker_lost(state, worker);
  refresh_no_workers_since(state);
  fill_slots(state);
  if (!state.living.empty()) state.emit(AnnounceWorkerGone{lost.worker});
}

void on_heartbeat(State& state, const WorkerHeartbeat& beat) {
  if (!state.has_worker(beat.worker)) return;
  Worker& worker = state.worker(beat.worker);
  if (beat.bandwidth > 0 && std::isfinite(beat.bandwidth)) {
    const double fraction = 1.0 / static_cast<double>(state.living.size());
    state.bandwidth = state.bandwidth * (1 - fraction) + beat.bandwidth * fraction;
  }
  for (const Executing& running : beat.executing) {
    const TaskId id = state.find(running.key);
    if (!id.valid() || !(running.seconds >= 0)) continue;
    TaskPrefix& prefix = *state.tasks[id].group->prefix;
    prefix.max_exec_time = std::max(prefix.max_exec_time, running.seconds);
    if (running.seconds > 2 * prefix.duration_average) prefix.duration_average = -1;
    state.refresh_estimate(prefix);
  }
  worker.memory_rss = beat.memory_rss;
  worker.spilled_bytes = beat.spilled_bytes;
  worker.spilled_memory = beat.spilled_memory;
  track_unmanaged(state, worker);
}

void on_resources(State& state, const WorkerResourcesSet& set) {
  if (!state.has_worker(set.worker)) return;
  Worker& worker = state.worker(set.worker);
  for (const auto& [name, amount] : set.resources) {
    const auto same = [&](const auto& entry) { return entry.first == name; };
    const auto found = std::find_if(worker.resources.begin(), worker.resources.end(), same);
    if (found != worker.resources.end()) {
      found->second = amount;
      continue;
    }
    worker.resources.emplace_back(name, amount);
    worker.used_resources.emplace_back(name, 0);
  }
  if (worker.running()) start_using(state, worker);
}

void offer_unrunnable(State& state) {
  if (!state.offer_from) return;
  std::vector<TaskId> runnable;
  auto place = state.unrunnable.lower_bound(*state.offer_from);
  std::uint32_t looks = state.config.transitions_at_once;
  for (; place != state.unrunnable.end() && looks > 0; ++place, --looks) {
    const TaskId id = place->second.task;
    const auto valid = valid_workers(state, state.tasks[id]);
    if (!valid || !valid->empty()) runnable.push_back(id);
  }
  state.offer_from.reset();
  if (place != state.unrunnable.end()) state.offer_from = place->first;
  std::stable_sort(runnable.begin(), runnable.end(), [&](TaskId a, TaskId b) {
    return state.tasks[b].priority < state.tasks[a].priority;
  });
  for (const TaskId id : runnable) recommend(state, id, TaskState::processing);
  run_transitions(state);
}

void check_no_workers_timeout(State& state) {
  if (state.config.no_workers_timeout <= 0) return;
  refresh_no_workers_since(state);
  const Duration limit = Duration::seconds(state.config.no_workers_timeout);
  const auto fail = [&](TaskId id, OwnError::Kind kind) {
    auto error = std::make_shared<TaskError>();
    error->failed = state.tasks[id].key_ref;
    error->own.kind = kind;
    error->own.timeout = state.config.no_workers_timeout;
    to_erred(state, id, std::move(error), WorkerId());
  };
  std::vector<std::pair<TaskId, OwnError::Kind>> late;
  for (const auto& [ticket, entry] : state.unrunnable) {
    if (state.now.mono <= entry.since + limit || late.size() == state.config.transitions_at_once) {
      break;  // the next tick is soon
    }
    const bool unfit = !state.no_workers_since || *state.no_workers_since >= entry.since;
    late.emplace_back(entry.task,
                      unfit ? OwnError::Kind::no_valid_worker : OwnError::Kind::no_worker);
  }
  if (state.no_workers_since && state.now.mono > *state.no_workers_since + limit) {
    const auto add = [&](TaskId id) {
      if (late.size() >= state.config.transitions_at_once) return false;
      late.emplace_back(id, OwnError::Kind::no_worker);
      return true;
    };
    state.queue.for_each(add);
    for (const auto& [number, lane] : state.lanes.all()) {
      for (const Lane::Entry& entry : lane.tasks) {
        if (!add(entry.task)) break;
      }
    }
  }
  for (const auto& [id, kind] : late) {
    const TaskState now = state.tasks[id].state;
    if (now == TaskState::no_worker || now == TaskState::queued) fail(id, kind);
  }
  run_transitions(state);
}

}  // namespace scheduler
