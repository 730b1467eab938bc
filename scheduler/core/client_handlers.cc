//! Reactions to clients: wants, cancels, retries, scattered data, restart.
//!
//! Walks over the graph use explicit stacks and Task::mark; a user's graph may be 100 000 deep.
#include <algorithm>

#include "scheduler/core/activation.h"
#include "scheduler/core/ahead.h"
#include "scheduler/core/handlers.h"
#include "scheduler/core/intake.h"
#include "scheduler/core/placement.h"
#include "scheduler/core/shuffle.h"
#include "scheduler/core/transitions.h"

namespace scheduler {

namespace {

Key copy_of(KeyView key) { return Key{std::string(key.bytes)}; }

Client* living_client(State& state, ClientId id) {
  Client* client = state.client(id);
  return client != nullptr && !client->leaving ? client : nullptr;
}

//! Tasks to cancel, each after all its dependents, without recursion.
std::vector<TaskId> cancel_order(State& state, const KeysCancelled& cancelled) {
  const auto mine_alone = [&](const Task& task) {
    return cancelled.force ||
           (task.who_wants.size() == 1 && task.who_wants.front().client == cancelled.client);
  };
  std::vector<TaskId> order;
  std::vector<std::pair<TaskId, std::size_t>> path;  // task, next dependent to look at
  const std::uint32_t mark = state.fresh_mark();
  const auto enter = [&](TaskId id) {
    Task& task = state.tasks[id];
    if (task.mark == mark || !state.visible(task) || !mine_alone(task)) return;
    task.mark = mark;
    path.emplace_back(id, 0);
  };
  for (const KeyView key : cancelled.keys) {
    const TaskId id = state.find(key);
    if (id.valid()) enter(id);
    while (!path.empty()) {
      const TaskId top = path.back().first;
      const Edges& dependents = state.tasks[top].dependents;
      if (path.back().second < dependents.size()) {
        enter(dependents[path.back().second++].task);
      } else {
        order.push_back(top);
        path.pop_back();
      }
    }
  }
  return order;
}

//! Erred tasks without an erred input, reached from these keys.
std::vector<TaskId> erred_roots(State& state, std::span<const KeyView> keys) {
  std::vector<TaskId> stack;
  for (const KeyView key : keys) {
    if (const TaskId id = state.find(key); id.valid()) stack.push_back(id);
  }
  std::vector<TaskId> roots;
  const std::uint32_t mark = state.fresh_mark();
  while (!stack.empty()) {
    const TaskId id = stack.back();
    stack.pop_back();
    Task& task = state.tasks[id];
    if (std::exchange(task.mark, mark) == mark) continue;
    bool root = true;
    for (const Edge& edge : task.dependencies) {
      if (state.tasks[edge.task].state != TaskState::erred) continue;
      stack.push_back(edge.task);
      root = false;
    }
    if (root) roots.push_back(id);
  }
  return roots;
}

}  // namespace

void on_client_added(State& state, const ClientAdded& added) {
  if (!added.client.valid() || state.client(added.client) != nullptr) return;
  if (state.clients.size() <= added.client.value) state.clients.resize(added.client.value + 1);
  auto made = std::make_unique<Client>();
  made->id = added.client;
  made->name = added.name;
  if (added.name == "fire-and-forget") state.fire_and_forget = added.client;
  state.clients[added.client.value] = std::move(made);
  state.present.push_back(added.client);
}

void on_client_removed(State& state, const ClientRemoved& removed) {
  Client* client = living_client(state, removed.client);
  if (client == nullptr) return;
  client->leaving = true;
  state.present.erase(std::remove(state.present.begin(), state.present.end(), removed.client),
                      state.present.end());
  if (state.fire_and_forget == removed.client) state.fire_and_forget = ClientId();
  drop_submissions_of(state, removed.client);
  state.leaving.push_back(removed.client);
  std::uint32_t budget = kSliceBudget;
  release_leaving_clients(state, budget);
}

bool release_leaving_clients(State& state, std::uint32_t& budget) {
  while (!state.leaving.empty() && budget > 0) {
    Client& client = *state.client(state.leaving.front());
    while (!client.wants.empty() && budget > 0) {
      const std::uint32_t slice = std::min<std::uint32_t>(budget, 1024);
      for (std::uint32_t i = 0; i < slice && !client.wants.empty(); ++i) {
        release_want(state, client.id, client.wants.back());
      }
      run_transitions(state);
      fill_slots(state);
      budget -= slice;
    }
    if (!client.wants.empty()) break;
    state.clients[client.id.value].reset();
    state.leaving.pop_front();
  }
  return !state.leaving.empty();
}

void on_desired(State& state, const KeysDesired& desired) {
  if (living_client(state, desired.client) == nullptr) return;
  for (const KeyView key : desired.keys) {
    const TaskId id = state.find(key);
    if (!id.valid()) {
      state.emit(Note{Note::Kind::unknown_key_desired, copy_of(key)});
      continue;
    }
    const TaskState now = state.tasks[id].state;
    const bool over = now == TaskState::memory || now == TaskState::erred ||
                      now == TaskState::released;
    // fire-and-forget lets go when the task is done; of one that is over it would never let go.
    if (desired.client == state.fire_and_forget && over) continue;
    state.add_want(desired.client, id);
    report_to(state, desired.client, id);
  }
}

void on_released(State& state, const KeysReleased& released) {
  if (state.client(released.client) == nullptr) return;
  for (const KeyView key : released.keys) {
    if (const TaskId id = state.find(key); id.valid()) release_want(state, released.client, id);
  }
  run_transitions(state);
  fill_slots(state);
}

void on_cancelled(State& state, const KeysCancelled& cancelled) {
  if (living_client(state, cancelled.client) == nullptr) return;
  const std::vector<TaskId> order = cancel_order(state, cancelled);
  if (order.empty()) return;
  std::vector<Key> keys;
  keys.reserve(order.size());
  for (const TaskId id : order) keys.push_back(copy_of(state.tasks[id].key()));
  for (const TaskId id : order) {
    if (state.tasks[id].state == TaskState::forgotten) continue;
    const Wants wants = state.tasks[id].who_wants;
    for (const Want& want : wants) {
      if (cancelled.force || want.client == cancelled.client) release_want(state, want.client, id);
    }
    run_transitions(state);
  }
  fill_slots(state);
  for (const ClientId client : state.present) {
    state.tell(ReportCancelled{client, keys, std::string(cancelled.reason),
                               std::string(cancelled.message), false});
  }
}

void on_reported(State& state, const KeyReported& reported) {
  const TaskId id = state.find(reported.key);
  if (id.valid()) return report_to(state, reported.client, id);
  state.tell(ReportCancelled{reported.client, {copy_of(reported.key)}, "", "", false});
}

void on_retried(State& state, const KeysRetried& retried) {
  const std::vector<TaskId> roots = erred_roots(state, retried.keys);
  for (const TaskId id : roots) {
    // Whatever its state, as stock: a result that is there is thrown away and made anew.
    recommend(state, id, TaskState::waiting);
  }
  run_transitions(state);
  for (const TaskId id : roots) {  // those whose dependents err all the same
    const TaskState now = state.tasks[id].state;
    if (state.tasks[id].needed() || now == TaskState::memory || now == TaskState::erred) continue;
    recommend(state, id, TaskState::released);
  }
  run_transitions(state);
  fill_slots(state);
}

void on_scattered(State& state, const DataScattered& scattered) {
  const Client* client = living_client(state, scattered.client);
  for (const ScatteredKey& data : scattered.keys) {
    std::vector<WorkerId> holders;
    for (const WorkerId worker : data.workers) {
      if (state.has_worker(worker)) holders.push_back(worker);
    }
    if (holders.empty()) {
      if (client != nullptr) {
        state.tell(ReportCancelled{scattered.client, {copy_of(data.key)}, "", "", false});
      }
      continue;
    }
    const auto [id, made] = state.tasks.intern(data.key);
    Task& task = state.tasks[id];
    if (made) {
      state.join_group(task, TaskState::released);
      if (!data.spelled.empty()) state.extra(task).spelled = data.spelled;
    } else if (!state.visible(task)) {
      disown(state, id);
      state.set_state(task, TaskState::released);
    }
    appear_in_memory(state, id, holders);
    state.set_nbytes(task, data.nbytes);
    if (client != nullptr) state.add_want(scattered.client, id);
    report(state, id);
  }
  run_transitions(state);
  fill_slots(state);
}

void on_restrictions(State& state, const RestrictionsSet& set) {
  const TaskId id = state.find(set.key);
  if (!id.valid()) return;
  set_worker_restrictions(state, id, set.workers);
  const TaskState now = state.tasks[id].state;
  if (now != TaskState::queued && now != TaskState::no_worker) return;
  recommend(state, id, TaskState::released);  // and so to be placed anew
  run_transitions(state);
  fill_slots(state);
}

//! Whether there is a bound at all is decided at the start: tasks wait in lanes only if there is.
void on_memory_budget(State& state, const MemoryBudgetSet& set) {
  if (state.config.memory_budget > 0 && set.fraction > 0) state.config.memory_budget = set.fraction;
  if (set.patience) state.config.memory_patience = *set.patience;
  if (set.too_large_grace) state.config.memory_too_large_grace = *set.too_large_grace;
}

void on_restarted(State& state) {
  state.submissions.clear();
  shuffles_clear(state);
  for (const WorkerId id : state.living) {
    Worker& worker = state.worker(id);
    for (auto& level : worker.stealable) level.clear();
    worker.has_what.clear();
    worker.processing.clear();
    worker.held.clear();
    worker.chained.clear();
    worker.ahead_target = 0;
    worker.actors.clear();
    worker.bounded.clear();
    worker.load.clear();
    worker.needs_what.clear();
    for (auto& [name, used] : worker.used_resources) used = 0;
    worker.long_running = 0;
    worker.nbytes = worker.network_bytes = 0;
    worker.compute_ns = 0;
    worker.stolen_seconds = 0;
    worker.stolen_tasks = 0;
  }
  for (const std::unique_ptr<Client>& client : state.clients) {
    if (!client) continue;
    client->wants.clear();
    client->pending = 0;
  }
  state.queue.clear();
  state.lanes.clear();
  state.unrunnable.clear();
  state.offer_from.reset();
  state.replicated.clear();
  state.thefts.in_flight.clear();
  state.recalls.clear();
  state.put_off.clear();
  state.held = state.chained = 0;
  state.forget_families();
  state.tasks.clear();
  state.total_compute_ns = 0;
  state.total_network_bytes = 0;
  for (const WorkerId id : state.living) {
    state.check_idle_saturated(state.worker(id));
    update_hunger(state, state.worker(id));
  }
  state.emit(ReportRestart{});
}

}  // namespace scheduler
