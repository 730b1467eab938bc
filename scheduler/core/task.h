//! What the scheduler knows about one task.
//!
//! Plain data, written only by State and the transitions. A million of these must fit, so what
//! most tasks never have (error, restrictions, an odd spelling) lives in TaskExtra, and what
//! siblings share (run spec, annotations, group) is shared.
//!
//! Every edge of the graph is stored at both ends and each end knows the other's place, so adding,
//! removing and flagging an edge is O(1) however wide the graph. The flag of an entry in
//! `dependencies` says "this task still waits for that one" (Dask's waiting_on); the flag of an
//! entry in `dependents` says "that task still needs this one" (Dask's waiters).
//!
//! Answers to: distributed/scheduler.py, TaskState.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/core/events.h"
#include "scheduler/core/few.h"
#include "scheduler/core/key_ref.h"

namespace scheduler {

struct TaskGroup;

enum class TaskState : std::uint8_t {
  staged,  //!< ours: part of a graph not committed, or committed and not yet activated
  released,
  waiting,
  no_worker,
  queued,
  processing,
  memory,
  erred,
  forgotten,
};
inline constexpr int kTaskStates = 9;

//! Whoever wants the task has heard of its end.
constexpr bool settled(TaskState state) {
  return state == TaskState::memory || state == TaskState::erred;
}

//! Dask's spelling: "no-worker" and so on. A staged task calls itself released.
std::string_view state_name(TaskState state);

//! Smaller runs first. `user` is minus the user's priority, as on the wire.
struct Priority {
  double user = 0;
  double generation = 0;
  std::int64_t order = 0;
  auto operator<=>(const Priority&) const = default;
};

//! One end of an edge.
struct Edge {
  TaskId task;                   //!< the other end
  std::uint32_t place : 31 = 0;  //!< index of this edge in the other end's list
  std::uint32_t flag : 1 = 0;
};
using Edges = Few<Edge, 2>;

//! A copy of the result on a worker.
struct Replica {
  WorkerId worker;
  std::uint32_t place;   //!< index in the worker's has_what
  std::uint32_t serial;  //!< order of arrival on that worker
};
using Replicas = Few<Replica, 1>;

//! A client that wants the result.
struct Want {
  ClientId client;
  std::uint32_t place;  //!< index in the client's wants
};
using Wants = Few<Want, 1>;

//! Where a task may run; all empty means anywhere. Entries are resolved when the task is created.
struct Restrictions {
  std::vector<std::string> workers;  //!< addresses; sorted
  std::vector<Key> hosts;            //!< host names, or names of workers not yet known; sorted
  Resources resources;
  bool operator==(const Restrictions&) const = default;
};
using RestrictionsRef = std::shared_ptr<const Restrictions>;

//! An error made by the scheduler itself; the shell writes the exception for it.
struct OwnError {
  enum class Kind : std::uint8_t {
    none,
    killed_worker,    //!< KilledWorker(task, worker, allowed_failures)
    lost_actor,       //!< RuntimeError("Worker holding Actor was lost")
    memory_limit,     //!< MemoryError: inputs larger than the worker
    no_valid_worker,  //!< NoValidWorkerError: restrictions not met within `timeout`
    no_worker,        //!< NoWorkerError: no running worker within `timeout`
    memory_request,   //!< MemoryError: annotated to need more than the largest worker has
  };
  Kind kind = Kind::none;
  std::string worker;                  //!< address, where one is to blame
  std::uint32_t allowed_failures = 0;
  std::uint64_t input_bytes = 0;       //!< or, of a memory_request, what it asks for
  std::uint64_t memory_limit = 0;
  bool is_final = false;               //!< nothing depended on it (changes MemoryError's advice)
  double timeout = 0;                  //!< seconds
};

//! Why a task erred: either the worker's `exception` or an error of our `own`. The task that failed
//! and every task that erred because of it share one.
struct TaskError {
  KeyRef failed;         //!< the task to blame (Dask's exception_blame)
  PayloadRef exception;  //!< null: see `own`
  PayloadRef traceback;
  std::string exception_text;
  std::string traceback_text;
  OwnError own;
};
using TaskErrorRef = std::shared_ptr<const TaskError>;

//! What few tasks have.
struct TaskExtra {
  std::string spelled;               //!< msgpack of the key as the client wrote it; empty: canonical
  RestrictionsRef restrictions;
  ShuffleSpecRef shuffle;            //!< a P2P barrier: what it is the barrier of
  RestrictionsRef before_shuffle;    //!< restrictions to put back when the shuffle run ends
  bool shuffle_restricted = false;
  std::uint32_t suspicious = 0;      //!< workers that died with it
  TaskErrorRef error;                //!< null: has not erred
  std::vector<WorkerId> erred_on;    //!< workers that still hold the failed task
};

struct Task {
  // ---- identity ----
  KeyRef key_ref;
  TaskState state = TaskState::released;
  TaskState recommended = TaskState::staged;  //!< pending transition; staged: none
  std::int8_t steal_level = -1;               //!< -1: not stealable
  // ---- flags ----
  bool actor : 1 = false;
  bool data_producer : 1 = false;
  bool queueable : 1 = true;
  bool loose_restrictions : 1 = false;   //!< allow_other_workers
  bool has_lost_dependencies : 1 = false;
  bool long_running : 1 = false;
  bool compute_pending : 1 = false;      //!< assigned in this step; not yet told to the worker
  bool prioritised : 1 = false;          //!< `priority` has been set
  bool lone : 1 = false;                 //!< a worker died that held it ahead: never ahead again
  bool delayed : 1 = false;              //!< queued, and memory was found to hold it back

  Priority priority;
  Edges dependencies;
  Edges dependents;
  Wants who_wants;
  Replicas who_has;
  [[no_unique_address]] SpecRef spec;    //!< null: pure data
  std::uint32_t mark = 0;                //!< scratch of graph walks
  AnnotationsRef annotations;            //!< null: none
  std::unique_ptr<TaskExtra> extra;      //!< null: none
  TaskGroup* group = nullptr;
  RunId run;                             //!< of the newest assignment
  std::int64_t nbytes = -1;              //!< -1: unknown

  WorkerId processing_on;
  WorkerId ahead_on;                     //!< queued or waiting, and already sent there; see ahead.h
  std::uint32_t processing_place = 0;    //!< in the worker's `processing`, or the ticket in a queue
  std::uint32_t steal_place = 0;         //!< in the worker's `stealable` level, or its lane
  std::uint32_t waiting_on = 0;          //!< dependencies with the flag
  std::uint32_t waiters = 0;             //!< dependents with the flag
  std::uint32_t pins = 0;                //!< open submissions that refer to it
  std::uint32_t retries = 0;
  std::uint32_t type = 0;                //!< see State::type_name; 0: none
  SubmissionId submission;               //!< the graph that staged it, while staged

  // ---- read side ----
  KeyView key() const { return key_ref.view(); }
  //! msgpack of the key as its client spelled it: what goes on the wire.
  ByteView spelled_key() const {
    return extra && !extra->spelled.empty() ? ByteView(extra->spelled) : key().bytes;
  }
  const TaskError* error() const { return extra ? extra->error.get() : nullptr; }
  const Restrictions* restrictions() const { return extra ? extra->restrictions.get() : nullptr; }
  const Resources* resources() const {
    return restrictions() && !restrictions()->resources.empty() ? &restrictions()->resources
                                                                : nullptr;
  }
  std::uint32_t suspicious() const { return extra ? extra->suspicious : 0; }
  bool restricted() const { return restrictions() != nullptr; }
  bool needed() const { return waiters > 0 || !who_wants.empty() || pins > 0; }
  bool on(WorkerId worker) const {
    for (const Replica& replica : who_has) {
      if (replica.worker == worker) return true;
    }
    return false;
  }
};
static_assert(sizeof(Task) <= 216, "a million of these must fit");

}  // namespace scheduler
