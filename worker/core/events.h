//! Everything that can happen to the worker's core, as plain data.
//!
//! The shell turns messages of the scheduler, ends of transfers and ends of executions into these
//! and calls Core::step. Nothing here is trusted: a key may be unknown, a run id stale, an answer
//! late or doubled; each such case has a defined answer. Views (KeyView, span, string_view) are
//! borrowed for the duration of the step; WorkRef is a share the core keeps.
//!
//! A ValueId passes into the core's keeping with the event that carries it. It comes back in
//! exactly one DropValue: at once if nobody wants it, or when the task is released. TaskIds are used
//! again once their task is forgotten (which no running task ever is); what must outlive that, for
//! example a request to pack a value, goes by ValueId.
//!
//! Answers to: distributed/worker_state_machine.py, StateMachineEvent and its subclasses.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/base/ids.h"
#include "protocol/base/key.h"
#include "worker/core/priority.h"

namespace worker {

using protocol::Key;
using protocol::KeyView;
using protocol::RunId;
using protocol::TaskId;

using PeerId = protocol::Id<struct PeerTag>;                 //!< one address of another worker
using ValueId = protocol::Id<struct ValueTag, std::uint64_t>; //!< a value the shell holds for us

//! Run spec, annotations, span: whatever the shell needs to run a task. Never looked at here.
using WorkRef = std::shared_ptr<const void>;

using Resource = std::pair<std::string_view, double>;

// ---- messages of the scheduler's stream -----------------------------------------------------

//! A key that lies on other workers: its size and their addresses.
struct Replica {
  KeyView key;
  std::uint64_t nbytes = 0;
  //! Empty in a compute-task: a task that was sent here before makes it (only from a rask scheduler).
  std::span<const std::string_view> who_has;
};

struct ComputeTask {  //!< compute-task
  KeyView key;
  RunId run;
  Priority priority;  //!< as sent; the core appends its own decreasing counter
  std::span<const Replica> dependencies;
  std::span<const Resource> resources;
  bool actor = false;
  WorkRef work;
};

struct FreeKeys {  //!< free-keys
  std::span<const KeyView> keys;
};

struct RemoveReplicas {  //!< remove-replicas: only what is in memory and not in use
  std::span<const KeyView> keys;
};

struct AcquireReplicas {  //!< acquire-replicas
  std::span<const Replica> replicas;
};

struct StealRequest {  //!< steal-request
  KeyView key;
};

struct RefreshWhoHas {  //!< refresh-who-has; nbytes of the replicas is not used
  std::span<const Replica> who_has;
};

struct RemoveWorker {  //!< remove-worker: a peer is gone
  std::string_view address;
};

struct CancelCompute {  //!< cancel-compute; no 2026.8.0 scheduler sends it
  KeyView key;
};

// ---- ends of transfers ------------------------------------------------------------------------
// Each GatherDep action is answered by exactly one of these four.

struct Gathered {
  KeyView key;
  ValueId value;
  std::uint64_t nbytes = 0;  //!< measured; used only if the scheduler told no size
};

struct GatherDepSuccess {
  PeerId peer;
  std::span<const Gathered> data;  //!< may lack keys that were asked for
};

struct GatherDepBusy {
  PeerId peer;
};

//! The peer could not be reached: everything it was said to hold is taken for lost.
struct GatherDepNetworkFailure {
  PeerId peer;
};

//! The answer could not be read. SendTaskErred for each key follows in the same step, so the shell
//! has the exception at hand.
struct GatherDepFailure {
  PeerId peer;
};

struct RetryBusyWorker {  //!< the pause asked for by RetryBusyWorkerLater is over
  PeerId peer;
};

// ---- ends of executions -----------------------------------------------------------------------
// Each Execute action is answered by exactly one of these three, perhaps after one TaskSeceded.

struct ExecuteSuccess {
  TaskId task;
  RunId run;  //!< the one Execute named
  ValueId value;
  std::uint64_t nbytes = 0;
};

struct ExecuteFailure {  //!< the shell keeps the exception until the step is over
  TaskId task;
  RunId run;
};

struct ExecuteReschedule {  //!< the task raised Reschedule
  TaskId task;
};

struct Secede {
  TaskId task;
  double compute_seconds = 0;
};

// ---- the worker itself ------------------------------------------------------------------------

struct Pause {};    //!< paused, closing: start nothing, fetch nothing
struct Unpause {};

struct Scattered {
  KeyView key;
  ValueId value;
  std::uint64_t nbytes = 0;
};

struct UpdateData {  //!< scatter put values here; the caller tells the scheduler
  std::span<const Scattered> data;
};

struct FindMissing {};  //!< periodic: ask where the missing dependencies are

struct SetResources {  //!< total amounts of some resources
  std::span<const Resource> resources;
};

using Event = std::variant<
    ComputeTask, FreeKeys, RemoveReplicas, AcquireReplicas, StealRequest, RefreshWhoHas,
    RemoveWorker, CancelCompute,
    GatherDepSuccess, GatherDepBusy, GatherDepNetworkFailure, GatherDepFailure, RetryBusyWorker,
    ExecuteSuccess, ExecuteFailure, ExecuteReschedule, Secede,
    Pause, Unpause, UpdateData, FindMissing, SetResources>;

}  // namespace worker
