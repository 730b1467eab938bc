//! Requests to move a task from a busy worker to an idle one that have not been answered yet.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>

#include "scheduler/core/events.h"

namespace scheduler {

struct Theft {
  std::uint64_t id;
  WorkerId victim;
  WorkerId thief;
  double victim_seconds;  //!< what the victim is expected to be relieved of
  double thief_seconds;
};

struct Thefts {
  absl::flat_hash_map<TaskId, Theft> in_flight;
  std::uint64_t next = 0;
};

//! Requests to give back a task that was handed ahead, not answered yet.
struct Recall {
  std::uint64_t id;  //!< drawn from Thefts::next
  WorkerId worker;
};
using Recalls = absl::flat_hash_map<TaskId, Recall>;

}  // namespace scheduler
