//! Everything the scheduler's core can ask of the outside world, as plain data.
//!
//! Actions name tasks by id; the shell reads what it needs for the wire (key, run spec, replicas,
//! priority) from the core right after the step. A task forgotten in a step keeps its id and key
//! readable until the next step begins. Order matters per peer and is kept. Computes come last:
//! a task that was assigned and taken away within one step is never mentioned to the worker.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "scheduler/core/events.h"

namespace scheduler {

// ---- to workers -------------------------------------------------------------------------------

//! An input without holders is still to be made by a task this (rask) worker was given before.
struct SendCompute {
  WorkerId worker;
  TaskId task;
  RunId run;
  bool operator==(const SendCompute&) const = default;
};

struct SendFree {  //!< free-keys
  WorkerId worker;
  TaskId task;
  bool operator==(const SendFree&) const = default;
};

struct SendFreeUnknown {  //!< free-keys for a key the scheduler does not know (any more)
  WorkerId worker;
  Key key;
  bool operator==(const SendFreeUnknown&) const = default;
};

struct SendRemoveReplica {
  WorkerId worker;
  Key key;
  bool operator==(const SendRemoveReplica&) const = default;
};

struct SendAcquireReplica {
  WorkerId worker;
  TaskId task;
  bool operator==(const SendAcquireReplica&) const = default;
};

struct SendRefreshWhoHas {
  WorkerId worker;
  std::vector<TaskId> tasks;
  bool operator==(const SendRefreshWhoHas&) const = default;
};

struct SendStealRequest {  //!< also asks back what was handed ahead
  WorkerId worker;
  TaskId task;
  std::uint64_t theft;
  bool operator==(const SendStealRequest&) const = default;
};

struct SendShuffleFail {  //!< shuffle-fail: the run is over
  WorkerId worker;
  std::string shuffle;
  std::uint64_t run;
  std::string message;
  bool operator==(const SendShuffleFail&) const = default;
};

//! remove-worker: tell every other worker that this one is gone.
struct AnnounceWorkerGone {
  WorkerId gone;
  bool operator==(const AnnounceWorkerGone&) const = default;
};

// ---- to clients -------------------------------------------------------------------------------

struct ReportInMemory {
  ClientId client;
  TaskId task;
  Slice type;  //!< empty: the field is left out
  bool operator==(const ReportInMemory& o) const {
    return client == o.client && task == o.task && type.view() == o.type.view();
  }
};

struct ReportErred {  //!< with the exception of the task that is to blame
  ClientId client;
  TaskId task;
  bool operator==(const ReportErred&) const = default;
};

struct ReportLost {
  ClientId client;
  TaskId task;
  bool operator==(const ReportLost&) const = default;
};

struct ReportRetried {
  ClientId client;
  TaskId task;
  bool operator==(const ReportRetried&) const = default;
};

struct ReportCancelled {
  ClientId client;
  std::vector<Key> keys;
  std::string reason;   //!< empty: left out
  std::string message;  //!< empty: left out
  bool as_set = false;  //!< stock sends a set for lost dependencies, a list otherwise
  bool operator==(const ReportCancelled&) const = default;
};

struct ReportRestart {  //!< to every client
  bool operator==(const ReportRestart&) const = default;
};

// ---- to the shell itself ----------------------------------------------------------------------

//! The core has queued work of its own; send Turn on the next loop turn.
struct WantsTurn {
  bool operator==(const WantsTurn&) const = default;
};

//! Work handed ahead may be overdue while others idle: send a Tick in a few milliseconds.
struct WantsTick {
  bool operator==(const WantsTick&) const = default;
};

//! Something people may want to read in the log.
struct Note {
  enum class Kind : std::uint8_t {
    task_killed_workers,      //!< key, worker: gave up after allowed-failures
    dependencies_changed,     //!< key: resubmitted with other dependencies; the old ones stay
    unknown_key_desired,      //!< key: a client asked for a key nobody knows
    no_valid_worker,          //!< key: waits for a worker that fits its restrictions
    shuffle_ended,            //!< key: id of the shuffle
    shuffle_restarted,        //!< key: its barrier
    shuffle_failed,           //!< key: id of the shuffle; one of its tasks erred
  };
  Kind kind;
  Key key;
  bool operator==(const Note&) const = default;
};

using Action =
    std::variant<SendCompute, SendFree, SendFreeUnknown, SendRemoveReplica, SendAcquireReplica,
                 SendRefreshWhoHas, SendStealRequest, SendShuffleFail, AnnounceWorkerGone,
                 ReportInMemory, ReportErred, ReportLost, ReportRetried, ReportCancelled,
                 ReportRestart, WantsTurn, WantsTick, Note>;
using Actions = std::vector<Action>;

}  // namespace scheduler
