//! Everything the worker's core can ask of the outside world, as plain data.
//!
//! Actions name tasks and peers by id; the shell reads what it needs for the wire (key, address,
//! work, size) from the core right after the step. A task forgotten in a step keeps its id and key
//! readable until the next step begins. Order matters and is kept.
//!
//! Answers to: distributed/worker_state_machine.py, Instruction and its subclasses. DropValue,
//! Transitioned and Note have no counterpart there.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "worker/core/events.h"
#include "worker/core/task_state.h"

namespace worker {

// ---- work to start ----------------------------------------------------------------------------

//! Ask a peer for these keys in one get_data. Answer with one GatherDep… event.
struct GatherDep {
  PeerId peer;
  std::vector<TaskId> to_gather;  //!< most urgent first
  std::uint64_t total_nbytes = 0;
  bool operator==(const GatherDep&) const = default;
};

//! Run the task. Answer with one Execute… event that names the same run.
struct Execute {
  TaskId task;
  RunId run;
  bool operator==(const Execute&) const = default;
};

//! Send RetryBusyWorker after a pause (stock: 0.15 s).
struct RetryBusyWorkerLater {
  PeerId peer;
  bool operator==(const RetryBusyWorkerLater&) const = default;
};

// ---- to the scheduler -------------------------------------------------------------------------

struct SendTaskFinished {
  TaskId task;
  RunId run;
  bool operator==(const SendTaskFinished&) const = default;
};

struct SendTaskErred {  //!< with the exception of the event of this step
  TaskId task;
  RunId run;
  bool operator==(const SendTaskErred&) const = default;
};

struct SendReleaseWorkerData {
  TaskId task;
  bool operator==(const SendReleaseWorkerData&) const = default;
};

struct SendReschedule {
  TaskId task;
  bool operator==(const SendReschedule&) const = default;
};

struct SendLongRunning {
  TaskId task;
  RunId run;
  double compute_seconds = -1;  //!< < 0: not told (nil)
  bool operator==(const SendLongRunning&) const = default;
};

struct SendAddKeys {
  TaskId task;
  bool operator==(const SendAddKeys&) const = default;
};

struct SendRequestRefreshWhoHas {
  std::vector<TaskId> tasks;
  bool operator==(const SendRequestRefreshWhoHas&) const = default;
};

struct SendStealResponse {
  Key key;          //!< may name a task nobody knows
  TaskState state;  //!< forgotten: unknown key (nil on the wire)
  bool operator==(const SendStealResponse&) const = default;
};

// ---- to the shell itself ----------------------------------------------------------------------

//! The core gives this value back; nothing refers to it any more.
struct DropValue {
  TaskId task;
  ValueId value;
  bool operator==(const DropValue&) const = default;
};

//! For worker plugins that watch transitions; only while Core::observe_transitions is on.
struct Transitioned {
  TaskId task;
  TaskState start;
  TaskState finish;
  bool operator==(const Transitioned&) const = default;
};

//! Something that should not have happened and was survived; for the log.
struct Note {
  enum class Kind : std::uint8_t {
    impossible_transition,  //!< key: an event asked for a change its state does not know
    replica_in_use,         //!< key: remove-replicas while a dependent runs; kept
    unknown_transfer,       //!< an answer to a transfer that nobody started
    unknown_execution,      //!< key if known: an answer to an execution that nobody started
  };
  Kind kind;
  Key key;
  bool operator==(const Note&) const = default;
};

using Action = std::variant<GatherDep, Execute, RetryBusyWorkerLater,
                            SendTaskFinished, SendTaskErred, SendReleaseWorkerData, SendReschedule,
                            SendLongRunning, SendAddKeys, SendRequestRefreshWhoHas,
                            SendStealResponse, DropValue, Transitioned, Note>;
using Actions = std::vector<Action>;

}  // namespace worker
