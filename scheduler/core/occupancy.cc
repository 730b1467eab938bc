//! Load of workers: what they process, how long that is expected to take, who is idle.
//!
//! A worker's occupancy is the sum over prefixes of count x expected duration, plus the bytes it
//! still has to fetch over the bandwidth. Durations change with every finished task. So the sum is
//! brought up to date when somebody asks; for a worker with very many prefixes only after enough
//! estimates have changed, which keeps the cost per event constant.
//!
//! Answers to: distributed/scheduler.py, WorkerState.add_to_processing and its kin,
//! SchedulerState.check_idle_saturated.
#include <algorithm>
#include <cmath>

#include "scheduler/core/admission.h"

namespace scheduler {

namespace {

constexpr std::size_t kFewPrefixes = 32;

void use_resources(Worker& worker, const Resources& wanted, double sign) {
  for (const auto& [name, amount] : wanted) {
    for (auto& [used_name, used] : worker.used_resources) {
      if (used_name == name) used += sign * amount;
    }
  }
}

}  // namespace

// ---- what a worker processes --------------------------------------------------------------------

void State::add_to_processing(TaskId id, Worker& on) {
  Task& task = tasks[id];
  task.processing_on = on.id;
  task.processing_place = static_cast<std::uint32_t>(on.processing.size());
  on.processing.push_back(id);
  count_load(on, *task.group->prefix, 1);
  for (const Edge& edge : task.dependencies) {
    if (!tasks[edge.task].on(on.id)) fetch(on, edge.task);
  }
  if (const Resources* wanted = task.resources()) use_resources(on, *wanted, 1);
  if (task.annotations && bounded(*this, task)) on.bounded.push_back(id);
}

void State::remove_from_processing(TaskId id, Worker& on) {
  Task& task = tasks[id];
  const TaskId moved = on.processing.back();
  on.processing[task.processing_place] = moved;
  tasks[moved].processing_place = task.processing_place;
  on.processing.pop_back();
  task.processing_on = WorkerId();
  task.processing_place = 0;
  if (task.long_running) {
    task.long_running = false;
    --on.long_running;
  } else {
    count_load(on, *task.group->prefix, -1);
  }
  for (const Edge& edge : task.dependencies) unfetch(on, edge.task);
  if (const Resources* wanted = task.resources()) use_resources(on, *wanted, -1);
  if (task.annotations && !on.bounded.empty()) std::erase(on.bounded, id);
}

void State::set_long_running(Task& task, Worker& on) {
  if (task.long_running) return;
  count_load(on, *task.group->prefix, -1);
  task.long_running = true;
  ++on.long_running;
}

void State::add_actor(Worker& on, TaskId id) {
  if (std::find(on.actors.begin(), on.actors.end(), id) == on.actors.end()) {
    on.actors.push_back(id);
  }
}

void State::remove_actor(Worker& on, TaskId id) {
  on.actors.erase(std::remove(on.actors.begin(), on.actors.end(), id), on.actors.end());
}

// ---- sums ---------------------------------------------------------------------------------------

void State::count_load(Worker& on, TaskPrefix& prefix, int change) {
  prefix.processing += static_cast<std::uint64_t>(change);
  total_compute_ns += static_cast<Wide>(change) * prefix.estimate_ns;
  Worker::PrefixLoad& load = on.load[&prefix];
  on.compute_ns += static_cast<Wide>(load.count) * (prefix.estimate_ns - load.estimate_ns);
  load.estimate_ns = prefix.estimate_ns;
  load.count += static_cast<std::uint32_t>(change);
  on.compute_ns += static_cast<Wide>(change) * prefix.estimate_ns;
  if (load.count == 0) on.load.erase(&prefix);
}

void State::refresh_load(Worker& on) {
  if (on.load_version == estimates_version) return;
  if (on.load.size() > kFewPrefixes && estimates_version - on.load_version < on.load.size() / 8) {
    return;
  }
  for (auto& [prefix, load] : on.load) {
    on.compute_ns += static_cast<Wide>(load.count) * (prefix->estimate_ns - load.estimate_ns);
    load.estimate_ns = prefix->estimate_ns;
  }
  on.load_version = estimates_version;
}

void State::fetch(Worker& on, TaskId dependency) {
  Worker::Fetch& entry = on.needs_what[dependency];
  if (entry.tasks++ > 0) return;
  entry.nbytes = size_of(tasks[dependency]);
  on.network_bytes += entry.nbytes;
  total_network_bytes += entry.nbytes;
}

void State::unfetch(Worker& on, TaskId dependency) {
  const auto found = on.needs_what.find(dependency);
  if (found == on.needs_what.end() || --found->second.tasks > 0) return;
  on.network_bytes -= found->second.nbytes;
  total_network_bytes -= found->second.nbytes;
  on.needs_what.erase(found);
}

void State::forget_fetch(Worker& on, TaskId dependency) {
  if (on.needs_what.empty()) return;
  const auto found = on.needs_what.find(dependency);
  if (found == on.needs_what.end()) return;
  on.network_bytes -= found->second.nbytes;
  total_network_bytes -= found->second.nbytes;
  on.needs_what.erase(found);
}

double State::occupancy(Worker& on) {
  refresh_load(on);
  return static_cast<double>(on.compute_ns) * 1e-9 +
         static_cast<double>(on.network_bytes) / bandwidth;
}

double State::occupancy(const Worker& on) const {
  Wide ns = 0;
  for (const auto& [prefix, load] : on.load) ns += static_cast<Wide>(load.count) * prefix->estimate_ns;
  return static_cast<double>(ns) * 1e-9 + static_cast<double>(on.network_bytes) / bandwidth;
}

double State::total_occupancy() const {
  return static_cast<double>(total_compute_ns) * 1e-9 +
         static_cast<double>(total_network_bytes) / bandwidth;
}

// ---- idle and saturated -------------------------------------------------------------------------

std::int64_t State::slots(const Worker& on) const {
  const double most = std::max(std::ceil(config.worker_saturation * on.nthreads), 1.0);
  if (most > 1e15) return 1;  // no queueing on the scheduler: never full
  return static_cast<std::int64_t>(most) -
         (static_cast<std::int64_t>(on.processing.size()) - on.long_running);
}

bool State::unoccupied(const Worker& on, double seconds, std::size_t processing) const {
  return processing < on.nthreads ||
         seconds < on.nthreads * (total_occupancy() / static_cast<double>(total_nthreads)) / 2;
}

void State::check_idle_saturated(Worker& on, double seconds) {
  if (total_nthreads == 0 || on.status == WorkerStatus::closed) return;
  if (!on.running()) return set_membership(on, false, false, false);
  if (seconds < 0) seconds = occupancy(on);
  const std::size_t processing = on.processing.size();
  const bool is_idle = unoccupied(on, seconds, processing);
  bool is_saturated = false;
  if (!is_idle && processing > on.nthreads) {
    const auto p = static_cast<double>(processing);
    const double pending = seconds * (p - on.nthreads) / (p * on.nthreads);
    const double average = total_occupancy() / static_cast<double>(total_nthreads);
    is_saturated = pending > 0.4 && pending > 1.9 * average;
  }
  set_membership(on, is_idle, slots(on) > 0, is_saturated);
}

}  // namespace scheduler
