//! One reaction per event. Each leaves no recommendation pending.
//!
//! Nothing in an event is trusted: unknown keys, stale runs and lost workers have their answers
//! here. Handlers of graphs are in intake.h, of stealing in stealing.h, of shuffles in shuffle.h.
//!
//! Answers to: distributed/scheduler.py, the handle_* and stimulus_* methods of Scheduler.
#pragma once

#include "scheduler/core/state.h"

namespace scheduler {

// worker_handlers.cc: workers come, change and go
void on_worker_added(State& state, const WorkerAdded& added);
void on_worker_status(State& state, const WorkerStatusChanged& changed);
void on_worker_fading(State& state, const WorkerFading& fading);
void on_worker_lost(State& state, const WorkerLost& lost);
void on_heartbeat(State& state, const WorkerHeartbeat& beat);
void on_resources(State& state, const WorkerResourcesSet& set);
//! no-worker tasks that the workers there are can take by now, most urgent first; those that one
//! step cannot look at wait for the next turn.
void offer_unrunnable(State& state);
//! Tasks that waited too long for a worker err, if that is configured.
void check_no_workers_timeout(State& state);

// task_handlers.cc: what workers say about tasks
void on_finished(State& state, const TaskFinished& done);
void on_erred(State& state, const TaskErred& erred);
void on_replicas_added(State& state, const ReplicasAdded& added);
void on_replica_dropped(State& state, const ReplicaDropped& dropped);
void on_who_has_requested(State& state, const WhoHasRequested& request);
void on_seceded(State& state, const TaskSeceded& seceded);
void on_rescheduled(State& state, const TaskRescheduled& rescheduled);

// client_handlers.cc
void on_client_added(State& state, const ClientAdded& added);
void on_client_removed(State& state, const ClientRemoved& removed);
void on_desired(State& state, const KeysDesired& desired);
void on_released(State& state, const KeysReleased& released);
void on_cancelled(State& state, const KeysCancelled& cancelled);
void on_reported(State& state, const KeyReported& reported);
void on_retried(State& state, const KeysRetried& retried);
void on_scattered(State& state, const DataScattered& scattered);
void on_memory_budget(State& state, const MemoryBudgetSet& set);
void on_restrictions(State& state, const RestrictionsSet& set);
void on_restarted(State& state);
//! Lets go of some wants of clients that left; true while there are more.
bool release_leaving_clients(State& state, std::uint32_t& budget);

}  // namespace scheduler
