//! One task as this worker sees it.
//!
//! Links between tasks are Edges, kept in a pool and chained into lists, so that linking and
//! unlinking cost the same whether a task has three dependents or a hundred thousand.
//!
//! Answers to: distributed/worker_state_machine.py, TaskState. Its `previous` is `activity` here
//! and its `next` follows from it (see task_state.h).
#pragma once

#include <cstdint>
#include <limits>
#include <utility>

#include <absl/container/inlined_vector.h>

#include "worker/core/events.h"
#include "worker/core/priority.h"
#include "worker/core/task_state.h"

namespace worker {

using EdgeId = protocol::Id<struct EdgeTag>;

//! `dependent` needs `dependency`.
struct Edge {
  TaskId dependent;
  TaskId dependency;
  EdgeId previous;       //!< among the dependents of `dependency`, oldest first
  EdgeId next;
  bool waiting = false;  //!< the dependency was not in memory when last looked at
  bool waiter = false;   //!< the dependent has asked for it and was not released since
};

//! A peer that is said to hold a task's value.
struct Holder {
  PeerId peer;
  std::uint32_t place = 0;  //!< index in Peer::has_what
  bool needed = false;      //!< the task stands in Peer::data_needed
};

//! A slot of the task table is used again; the generation tells its tenants apart.
struct TaskRef {
  TaskId id;
  std::uint32_t generation = 0;
  bool operator==(const TaskRef&) const = default;
};

struct Task {
  static constexpr std::uint64_t kUnknownSize = std::numeric_limits<std::uint64_t>::max();
  static constexpr std::uint32_t kNowhere = std::numeric_limits<std::uint32_t>::max();

  Key key;
  std::uint32_t generation = 0;
  TaskState state = TaskState::forgotten;
  Activity activity = Activity::none;
  bool done = false;    //!< the activity is over, its outcome not yet digested
  bool actor = false;
  bool chained = false; //!< some input is made here, by a task that was sent before this one
  RunId run;            //!< of the newest compute-task; none for what is only fetched
  Priority priority;    //!< empty until somebody needs the task
  WorkRef work;         //!< null for what is only fetched
  ValueId value;        //!< valid while in memory
  std::uint64_t nbytes = kUnknownSize;
  PeerId coming_from;   //!< while in flight
  absl::InlinedVector<Holder, 2> who_has;
  absl::InlinedVector<std::pair<std::uint16_t, double>, 1> resources;  //!< index, amount

  absl::InlinedVector<EdgeId, 2> dependencies;
  EdgeId first_dependent;
  EdgeId last_dependent;
  std::uint32_t dependents = 0;        //!< how many
  std::uint32_t waiting_for_data = 0;  //!< edges to dependencies with `waiting`
  std::uint32_t waiters = 0;           //!< edges to dependents with `waiter`

  bool in_queue = false;                    //!< stands in State::ready or State::constrained
  std::uint32_t missing_place = kNowhere;   //!< index in State::missing
  std::uint32_t recommendation = kNowhere;  //!< index among those of the present step
  std::uint32_t offer = kNowhere;           //!< index among the values that came with this event
  std::uint64_t seen = 0;                   //!< mark for removing doubles from a list
};

}  // namespace worker
