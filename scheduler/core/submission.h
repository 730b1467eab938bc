//! One update-graph on its way in.
//!
//! Until it is committed its new tasks are `staged`: known to the table, invisible to everyone
//! else. Keys that others own are pinned so that their ids stay good. See intake.h.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "scheduler/core/task.h"

namespace scheduler {

//! What a graph says about one task, with ids in place of key numbers.
struct TaskRecord {
  TaskId task;
  std::vector<TaskId> dependencies;
  SpecRef spec;
  AnnotationsRef annotations;
  std::int64_t order = 0;
  bool data_producer = false;
  bool actor = false;
};

struct Submission {
  enum class Phase : std::uint8_t { open, culling, activating, unpinning, dropping };

  SubmissionId id;
  ClientId client;
  bool append = false;
  bool closed = false;                //!< no more slices will come
  bool committed = false;             //!< its tasks are visible
  bool lost = false;                  //!< dropped because nobody has what it needs
  Phase phase = Phase::open;
  double generation = 0;
  std::vector<TaskId> keys;           //!< by number
  std::vector<TaskId> outside;        //!< dependencies the graph does not define
  std::vector<TaskId> fresh;          //!< staged by this graph
  std::vector<TaskId> pinned;         //!< once for each pin
  std::vector<TaskId> wants;
  std::vector<TaskId> revive;         //!< known, wanted and released: run again
  std::vector<TaskId> skipped;        //!< activated in vain so far: nobody needs them yet
  std::vector<TaskRecord> kept;       //!< records of tasks that somebody else made
  absl::flat_hash_map<TaskId, ShuffleSpecRef> barriers;  //!< P2P barriers among its tasks
  std::uint64_t unrecorded = 0;       //!< fresh tasks without a record so far
  bool sorted = true;                 //!< `fresh` is in priority order
  Priority last_priority;             //!< of the newest in `fresh`
  std::vector<std::pair<Priority, TaskId>> by_priority;  //!< a heap, if it is not
  AnnotationsRef last_annotations;    //!< siblings share them ...
  RestrictionsRef last_restrictions;  //!< ... and what they resolve to
  std::size_t cursor = 0;             //!< progress of the phase
};

}  // namespace scheduler
