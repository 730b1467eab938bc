//! Families of tasks: prefixes ("inc") and, finer, groups ("inc-abc" of one collection).
//!
//! Durations are learned per prefix; whether a task is root-ish is decided per group. Durations
//! are kept in whole nanoseconds so that sums over them are exact and their order is of no matter.
//!
//! Answers to: distributed/scheduler.py, TaskPrefix and TaskGroup.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "protocol/base/time.h"
#include "scheduler/core/task.h"

namespace scheduler {

__extension__ typedef __int128 Wide;  //!< sums of nanoseconds over any number of tasks

inline constexpr int kStartStopKinds = 6;
using StateCounts = std::array<std::uint64_t, kTaskStates>;  //!< indexed by TaskState

//! What a prefix and a group both count.
struct TaskCollection {
  std::string name;
  StateCounts states{};
  std::uint64_t size = 0;                                    //!< tasks ever, forgotten ones too
  std::int64_t nbytes_total = 0;
  std::uint64_t measured = 0;                                //!< tasks whose bytes are in there
  std::int64_t duration_us = 0;                              //!< of all actions
  std::array<std::int64_t, kStartStopKinds> durations_us{};  //!< by StartStop::Kind
  absl::flat_hash_map<std::uint32_t, std::uint64_t> types;   //!< type -> tasks; State::type_name
};

struct TaskPrefix : TaskCollection {
  std::uint64_t serial = 0;          //!< order of creation
  double duration_average = -1;      //!< seconds; < 0: unknown
  double max_exec_time = -1;         //!< longest time a task was seen running
  std::uint64_t suspicious = 0;
  StateCounts state_counts{};        //!< how often each state was entered
  std::vector<TaskGroup*> groups;
  std::int64_t size_average = -1;    //!< bytes of a result, of late; < 0: unknown
  std::uint64_t consumer_size = 0;   //!< of the results made from it, if it needs no input
  bool consumer_seen = false;        //!< else it is a guess
  // Ledger of Occupancy: what processing tasks of this prefix are counted with.
  std::int64_t estimate_ns = 0;
  std::uint64_t processing = 0;
  bool never_stolen = false;         //!< default duration <= 1 ms
  std::vector<TaskId> unknown_duration;  //!< stealable at a level guessed without a measurement
};

struct TaskGroup : TaskCollection, std::enable_shared_from_this<TaskGroup> {
  TaskPrefix* prefix = nullptr;
  std::size_t place = 0;                 //!< in the prefix's groups
  //! Shares, because stock counts the tasks of groups that are gone.
  absl::flat_hash_set<std::shared_ptr<TaskGroup>> dependencies;
  const TaskGroup* last_dependency = nullptr;  //!< the newest of `dependencies`
  WorkerId last_worker;                  //!< co-assignment of root-ish tasks without queueing
  std::int64_t last_worker_tasks_left = 0;
  double start = 0;                      //!< first computation began (Unix seconds); 0: none yet
  double stop = 0;
};

}  // namespace scheduler
