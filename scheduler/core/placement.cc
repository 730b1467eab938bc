#include "scheduler/core/placement.h"

#include <algorithm>
#include <cmath>

#include "protocol/base/key_token.h"
#include "scheduler/core/admission.h"

namespace scheduler {

namespace {

using Ranks = std::vector<std::uint32_t>;

//! Bytes of the task's inputs that each worker holds, for all workers in one pass.
struct LocalBytes {
  std::uint64_t total = 0;
  std::vector<std::uint64_t> at;  //!< by rank
  std::vector<bool> holds;        //!< by rank; also true for inputs of no bytes

  LocalBytes(const State& state, const Task& task)
      : at(state.by_rank.size(), 0), holds(state.by_rank.size(), false) {
    for (const Edge& edge : task.dependencies) {
      const Task& input = state.tasks[edge.task];
      const std::uint64_t size = state.size_of(input);
      total += size;
      for (const Replica& replica : input.who_has) {
        const std::uint32_t rank = state.worker(replica.worker).rank;
        at[rank] += size;
        holds[rank] = true;
      }
    }
  }
};

Objective objective(State& state, const Task& task, Worker& worker, std::uint64_t missing) {
  const double stack = state.occupancy(worker) / worker.nthreads;
  return Objective{task.actor ? worker.actors.size() : 0,
                   stack + static_cast<double>(missing) / state.bandwidth, worker.nbytes};
}

Worker* best_of(State& state, const Task& task, const Ranks& candidates, const LocalBytes& local) {
  Worker* best = nullptr;
  Objective least;
  for (const std::uint32_t rank : candidates) {
    Worker& worker = state.worker(state.by_rank[rank]);
    if (candidates.size() == 1) return &worker;
    const Objective here = objective(state, task, worker, local.total - local.at[rank]);
    if (best != nullptr && !(here < least)) continue;
    best = &worker;
    least = here;
  }
  return best;
}

Ranks all_running(const State& state) {
  Ranks ranks;
  ranks.reserve(state.running.size());
  state.running.for_each([&](std::uint32_t rank) { ranks.push_back(rank); });
  return ranks;
}

//! Stock's module function decide_worker.
Worker* decide_by_inputs(State& state, const Task& task, std::optional<Ranks> valid) {
  const LocalBytes local(state, task);
  Ranks holders;
  state.running.for_each([&](std::uint32_t rank) {
    if (task.actor || local.holds[rank]) holders.push_back(rank);
  });
  if (valid) {
    Ranks both;
    std::set_intersection(holders.begin(), holders.end(), valid->begin(), valid->end(),
                          std::back_inserter(both));
    if (both.empty()) both = std::move(*valid);
    if (!both.empty()) return best_of(state, task, both, local);
    if (!task.loose_restrictions) return nullptr;
  }
  if (holders.empty()) holders = all_running(state);
  return best_of(state, task, holders, local);
}

//! For tasks without inputs or restrictions: a quiet worker, in turn.
Worker* decide_in_turn(State& state) {
  const bool any_idle = !state.idle.empty();
  const std::size_t count = any_idle ? state.idle.size() : state.by_rank.size();
  const auto worker_at = [&](std::size_t n) -> Worker& {
    return state.worker(state.by_rank[any_idle ? state.idle.nth(n) : n]);
  };
  if (count >= 20) return &worker_at(state.n_tasks % count);
  Worker* best = nullptr;
  double least = 0;
  for (std::size_t n = 0; n < count; ++n) {
    Worker& worker = worker_at(n);
    const double occupancy = state.occupancy(worker);
    if (best != nullptr && !(occupancy < least)) continue;
    best = &worker;
    least = occupancy;
  }
  if (least > 0) return best;
  const std::size_t start = state.n_tasks % count;
  for (std::size_t n = 0; n < count; ++n) {
    Worker& worker = worker_at((n + start) % count);
    if (state.occupancy(worker) == 0) return &worker;
  }
  return best;
}

bool supplies(const Worker& worker, const Resources& wanted) {
  for (const auto& [name, amount] : wanted) {
    bool enough = false;
    for (const auto& [supplied_name, supplied] : worker.resources) {
      enough = enough || (supplied_name == name && supplied >= amount);
    }
    if (!enough) return false;
  }
  return true;
}

}  // namespace

bool is_rootish(const State& state, const Task& task) {
  if (task.restricted()) return false;
  if (task.data_producer) return true;
  const TaskGroup& group = *task.group;
  if (group.size <= 2 * state.total_nthreads ||
      group.dependencies.size() >= state.config.rootish_taskgroup) {
    return false;
  }
  std::uint64_t inputs = 0;
  for (const auto& family : group.dependencies) inputs += family->size;
  return inputs < state.config.rootish_taskgroup_dependencies;
}

Worker* decide_worker_rootish_queuing_enabled(State& state, const Task& task) {
  Worker* best = nullptr;
  double least = 0;
  state.open.for_each([&](std::uint32_t rank) {
    Worker& worker = state.worker(state.by_rank[rank]);
    const double load = static_cast<double>(worker.processing.size()) / worker.nthreads;
    if ((best != nullptr && !(load < least)) || !may_start(state, task, worker)) return;
    best = &worker;
    least = load;
  });
  return best;
}

Worker* decide_worker_rootish_queuing_disabled(State& state, TaskId id) {
  const Task& task = state.tasks[id];
  const WorkerSet& pool = state.idle.empty() ? state.running : state.idle;
  if (pool.empty()) return nullptr;
  TaskGroup& group = *task.group;
  Worker* chosen = nullptr;
  if (group.last_worker_tasks_left != 0 && state.has_worker(group.last_worker) &&
      state.worker(group.last_worker).running()) {
    chosen = &state.worker(group.last_worker);
  } else {
    Ranks ranks;
    pool.for_each([&](std::uint32_t rank) { ranks.push_back(rank); });
    chosen = best_of(state, task, ranks, LocalBytes(state, task));
    group.last_worker_tasks_left = static_cast<std::int64_t>(
        std::floor(static_cast<double>(group.size) / static_cast<double>(state.total_nthreads) *
                   chosen->nthreads));
  }
  const auto count = [&](TaskState s) { return group.states[static_cast<std::size_t>(s)]; };
  const std::uint64_t left =
      count(TaskState::staged) + count(TaskState::released) + count(TaskState::waiting);
  group.last_worker = left > 1 ? chosen->id : WorkerId();
  --group.last_worker_tasks_left;
  return chosen;
}

Worker* decide_worker_non_rootish(State& state, TaskId id) {
  const Task& task = state.tasks[id];
  if (state.running.empty()) return nullptr;
  std::optional<Ranks> valid = valid_workers(state, task);
  if (!valid && state.running.size() < state.by_rank.size()) valid = all_running(state);
  if (task.dependencies.empty() && !valid) return decide_in_turn(state);
  return decide_by_inputs(state, task, std::move(valid));
}

std::optional<Ranks> valid_workers(const State& state, const Task& task) {
  const Restrictions* limits = task.restrictions();
  if (limits == nullptr) return std::nullopt;
  std::vector<std::string> hosts;
  for (const Key& name : limits->hosts) {
    const auto alias = state.aliases.find(name.bytes);
    hosts.push_back(alias != state.aliases.end() ? state.worker(alias->second).host
                                                 : protocol::key_text(name));
  }
  const bool by_place = !limits->workers.empty() || !hosts.empty();
  Ranks ranks;
  state.running.for_each([&](std::uint32_t rank) {
    const Worker& worker = state.worker(state.by_rank[rank]);
    const bool here =
        std::binary_search(limits->workers.begin(), limits->workers.end(), worker.address) ||
        std::find(hosts.begin(), hosts.end(), worker.host) != hosts.end();
    if (by_place && !here) return;
    if (supplies(worker, limits->resources)) ranks.push_back(rank);
  });
  return ranks;
}

std::uint64_t input_bytes(const State& state, const Task& task) {
  std::uint64_t total = 0;
  for (const Edge& edge : task.dependencies) total += state.size_of(state.tasks[edge.task]);
  return total;
}

double comm_cost(const State& state, const Task& task, const Worker& worker) {
  std::uint64_t missing = 0;
  for (const Edge& edge : task.dependencies) {
    const Task& input = state.tasks[edge.task];
    if (!input.on(worker.id)) missing += state.size_of(input);
  }
  return static_cast<double>(missing) / state.bandwidth;
}

RestrictionsRef resolve_restrictions(const State& state, const std::vector<Key>& names,
                                     const Resources& resources) {
  if (names.empty() && resources.empty()) return nullptr;
  auto limits = std::make_shared<Restrictions>();
  limits->resources = resources;
  for (const Key& name : names) {
    if (const auto alias = state.aliases.find(name.bytes); alias != state.aliases.end()) {
      limits->workers.push_back(state.worker(alias->second).address);
      continue;
    }
    const protocol::KeyToken token = protocol::read_key_token(name.bytes);
    const std::size_t colon = token.body.rfind(':');
    if (token.kind != protocol::KeyToken::Kind::str || colon == ByteView::npos) {
      limits->hosts.push_back(name);
    } else if (token.body.find("://") != ByteView::npos) {
      limits->workers.emplace_back(token.body);
    } else {
      limits->workers.push_back("tcp://" + std::string(token.body));
    }
  }
  std::sort(limits->workers.begin(), limits->workers.end());
  std::sort(limits->hosts.begin(), limits->hosts.end());
  return limits;
}

void set_worker_restrictions(State& state, TaskId id, const std::vector<Key>& names) {
  TaskExtra& extra = state.extra(state.tasks[id]);
  const Resources none;
  const RestrictionsRef named = resolve_restrictions(state, names, none);
  auto limits = std::make_shared<Restrictions>();
  if (extra.restrictions) *limits = *extra.restrictions;
  limits->workers = named ? named->workers : std::vector<std::string>();
  if (named && !named->hosts.empty()) limits->hosts = named->hosts;
  const bool free = limits->workers.empty() && limits->hosts.empty() && limits->resources.empty();
  extra.restrictions = free ? nullptr : RestrictionsRef(std::move(limits));
}

}  // namespace scheduler
