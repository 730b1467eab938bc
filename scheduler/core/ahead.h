//! Work handed to rask workers before its time: batches of queued tasks, and chains.
//!
//! Between two short tasks a worker would wait for us longer than it works. So a rask worker is
//! sent queued tasks beyond its slots ("held": up to Config::prefetch of expected work) and waiting
//! tasks whose missing inputs it is to make itself ("chained"). To everybody else such a task is
//! still `queued` or `waiting`: it takes no slot, counts in no occupancy and is blamed for no
//! death. It becomes `processing` when a slot is free or its inputs are there, without a further
//! message, or when the worker says that it began. It can be asked back at any time (a recall is
//! answered like a theft), and its run id decides whether what the worker says of it is believed.
//!
//! Invariant: Task::ahead_on is valid iff the task stands in that worker's `held` (and is queued,
//! and not in State::queue) or in its `chained` (and is waiting).
//!
//! Answers to: nothing in Dask.
#pragma once

#include "scheduler/core/state.h"

namespace scheduler {

// ---- handing over ----
//! Gives free slots to the tasks their workers hold, unless more urgent ones are in the queue.
void promote_held(State& state);
//! Sends queued tasks ahead to workers that hold little.
void send_ahead(State& state);
//! The task was just given to a worker: may those that wait for it follow?
void chain_after(State& state, TaskId id);
//! The task just began to wait: may it follow what it waits for?
void chain_onto(State& state, TaskId id);

// ---- coming true ----
//! The task is processing from now on where it is ahead.
void promote(State& state, TaskId id);
//! The worker speaks of a run of a task: if that was handed ahead, it has begun.
void believe_begun(State& state, TaskId id, WorkerId worker, RunId run);

// ---- taking back ----
//! The task is ahead no longer, nor is what was chained to it; the worker is told if it had heard.
//! (unless `tell` is false). Its state is for the caller to set.
void leave_ahead(State& state, TaskId id, bool tell = true);
//! The same, and a queued task stands in the queue again.
void withdraw(State& state, TaskId id);
//! What was chained to this task on that worker will not find its input there.
void unchain_after(State& state, TaskId id, WorkerId worker);
//! A replica leaves the worker: tasks ahead there that need it are taken back.
void input_leaves(State& state, const Task& input, WorkerId worker);
//! The worker stops running tasks: asks back what it holds.
void recall_all(State& state, Worker& worker);
//! The worker is gone. Unless that was expected, its tasks will not be handed ahead again: one of
//! them may have killed it, and must be caught `processing` the next time.
void lose_ahead(State& state, Worker& worker, bool expected);
//! Asks back what should long have been done, if others are free to do it.
void recall_overdue(State& state);
//! True if the answer was to a recall.
bool on_recall_answered(State& state, TaskId id, const StealAnswered& answer);

// ---- upkeep ----
void update_hunger(State& state, Worker& worker);
void on_config_changed(State& state, const ConfigChanged& changed);

}  // namespace scheduler
