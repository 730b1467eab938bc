//! Copies of results: fewer than there are, more than there are, never none.
//!
//! Dropping follows one rule: the scheduler first takes the worker off `who_has`, then asks it to
//! drop; a worker that keeps the data answers with add-keys. So two rounds can never ask for the
//! last replica, and reads never trust a copy that may be gone.
//!
//! Answers to: distributed/active_memory_manager.py, ReduceReplicas, _find_dropper, _find_recipient.
#pragma once

#include "scheduler/core/state.h"

namespace scheduler {

//! Drops replicas that no waiting task is expected to use.
void reduce_replicas(State& state);
void on_replicas_wanted(State& state, const ReplicasWanted& wanted);
void on_replicas_unwanted(State& state, const ReplicasUnwanted& unwanted);

//! Bytes the worker is expected to use: managed memory and what has been unmanaged for long.
std::uint64_t optimistic_memory(const Worker& worker);

}  // namespace scheduler
