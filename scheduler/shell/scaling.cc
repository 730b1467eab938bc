//! Choosing workers; see scaling.h.
#include "scheduler/shell/scaling.h"

#include <algorithm>
#include <cmath>

#include "scheduler/core/state.h"

namespace scheduler {

namespace {

//! Workers whose end would make a P2P shuffle begin again.
absl::flat_hash_set<WorkerId> in_shuffles(const State& state) {
  absl::flat_hash_set<WorkerId> out;
  for (const auto& [number, run] : state.shuffles.runs) {
    out.insert(run.participants.begin(), run.participants.end());
  }
  return out;
}

}  // namespace

std::vector<WorkerId> workers_to_close(const Core& core, Downscale wish) {
  const auto total_workers = static_cast<std::int64_t>(core.workers().size());
  if (wish.target && !wish.n) wish.n = total_workers - *wish.target;
  if (wish.n) {
    wish.n = std::max<std::int64_t>(*wish.n, 0);
    wish.target = total_workers - *wish.n;
  }
  if (!wish.n && !wish.memory_ratio) wish.memory_ratio = 2;

  const auto shuffling = in_shuffles(core.state());
  std::vector<const Worker*> idle;
  double limit = 0;
  double total = 0;
  bool all_busy = true;
  for (const WorkerId id : core.workers()) {
    const Worker& worker = core.worker(id);
    all_busy = all_busy && !worker.processing.empty();
    if (worker.long_running > 0 || shuffling.contains(id)) continue;
    limit += static_cast<double>(worker.memory_limit);
    total += static_cast<double>(worker.nbytes);
    idle.push_back(&worker);
  }
  if (wish.n.value_or(0) == 0 && all_busy) return {};
  // The best candidate comes last: idle before busy, then little data before much.
  std::stable_sort(idle.begin(), idle.end(), [](const Worker* a, const Worker* b) {
    if (a->processing.empty() != b->processing.empty()) return b->processing.empty();
    return a->nbytes > b->nbytes;
  });

  std::vector<WorkerId> out;
  std::int64_t remain = total_workers;
  for (; !idle.empty(); idle.pop_back()) {
    const Worker& worker = *idle.back();
    if (!wish.n && !worker.processing.empty()) break;
    if (wish.minimum.value_or(0) > 0 && remain - 1 < *wish.minimum) break;
    limit -= static_cast<double>(worker.memory_limit);
    const bool by_count = wish.n && remain - 1 >= wish.target.value_or(0);
    const bool by_memory = wish.memory_ratio && limit >= *wish.memory_ratio * total;
    if (!by_count && !by_memory) break;
    out.push_back(worker.id);
    --remain;
  }
  return out;
}

std::int64_t adaptive_target(const Core& core, double target_duration) {
  const State& state = core.state();
  const auto workers = static_cast<std::int64_t>(core.workers().size());
  double queued_occupancy = 0;
  std::size_t seen = 0;
  const auto count = [&](TaskId id) {
    if (seen == 100) return false;
    ++seen;
    queued_occupancy += state.estimate(*core.task(id).group->prefix);
    return true;
  };
  state.queue.for_each(count);
  for (const WorkerId id : core.workers()) {
    for (const TaskId held : core.worker(id).held) count(held);
  }
  for (const auto& [number, lane] : state.lanes.all()) {
    for (const Lane::Entry& entry : lane.tasks) {
      if (!count(entry.task)) break;
    }
  }
  for (const auto& [ticket, waiting] : state.unrunnable) {
    if (!count(waiting.task)) break;
  }
  auto tasks_ready = static_cast<std::int64_t>(state.queued() + state.unrunnable.size());
  if (tasks_ready > 100) queued_occupancy *= static_cast<double>(tasks_ready) / 100;
  auto cpu = static_cast<std::int64_t>(
      std::ceil((state.total_occupancy() + queued_occupancy) / target_duration));

  // A few long tasks must not ask for many cores.
  bool enough_tasks = false;
  double nthreads = 0;
  double limit = 0;
  double used = 0;
  for (const WorkerId id : core.workers()) {
    const Worker& worker = core.worker(id);
    enough_tasks = enough_tasks || tasks_ready > cpu;
    if (!enough_tasks) tasks_ready += static_cast<std::int64_t>(worker.processing.size());
    nthreads += worker.nthreads;
    limit += static_cast<double>(worker.memory_limit);
    used += static_cast<double>(worker.nbytes);
  }
  if (!enough_tasks) cpu = std::min(tasks_ready, cpu);
  if (workers > 0) {
    cpu = static_cast<std::int64_t>(std::ceil(static_cast<double>(cpu) / nthreads *
                                              static_cast<double>(workers)));
  } else if (tasks_ready > 0) {
    cpu = std::max<std::int64_t>(1, cpu);
  }
  const std::int64_t memory = used > 0.6 * limit && limit > 0 ? 2 * workers : 0;
  const std::int64_t target = std::max(memory, cpu);
  if (target >= workers) return target;
  return workers - static_cast<std::int64_t>(workers_to_close(core, {}).size());
}

}  // namespace scheduler
