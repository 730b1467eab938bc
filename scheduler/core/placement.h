//! Which worker gets a task. Pure policy: nothing here changes a task.
//!
//! Root-ish tasks (many siblings, few inputs) are handed out one per free slot and otherwise wait
//! in the queue, so that their results are used up before more are made. All others go where
//! their inputs are, unless that worker is too busy. Ties are broken by address.
//!
//! Answers to: distributed/scheduler.py, decide_worker_* and valid_workers.
#pragma once

#include <optional>
#include <vector>

#include "scheduler/core/state.h"

namespace scheduler {

bool is_rootish(const State& state, const Task& task);

//! The least busy worker with a free slot that may start it; null: none, the task must queue.
Worker* decide_worker_rootish_queuing_enabled(State& state, const Task& task);
//! The worker of the task's siblings, for clusters without queueing; null: no worker runs.
Worker* decide_worker_rootish_queuing_disabled(State& state, TaskId id);
//! The worker where the task is expected to start soonest; null: none fits.
Worker* decide_worker_non_rootish(State& state, TaskId id);

//! Ranks of running workers that meet the task's restrictions; nothing: any running worker does.
std::optional<std::vector<std::uint32_t>> valid_workers(const State& state, const Task& task);

//! Seconds to fetch what the worker lacks of the task's inputs.
double comm_cost(const State& state, const Task& task, const Worker& worker);
std::uint64_t input_bytes(const State& state, const Task& task);

//! What is compared: less is better.
struct Objective {
  std::size_t actors = 0;
  double start = 0;
  std::uint64_t nbytes = 0;
  auto operator<=>(const Objective&) const = default;
};

//! Turns the names of an annotation or RPC into restrictions; null if there are none.
RestrictionsRef resolve_restrictions(const State& state, const std::vector<Key>& names,
                                     const Resources& resources);

//! set_restrictions: where the task may run from now on; empty: anywhere. Hosts and resources stay.
void set_worker_restrictions(State& state, TaskId id, const std::vector<Key>& names);

}  // namespace scheduler
