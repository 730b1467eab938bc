//! What the scheduler knows about one worker.
//!
//! A Worker is an incarnation: it never comes back after it is lost. Its record stays readable
//! for the rest of the step that lost it. `has_what` and `processing` mirror the tasks' `who_has`
//! and `processing_on`; the order of their entries means nothing (Replica::serial has the order of
//! arrival).
//!
//! Answers to: distributed/scheduler.py, WorkerState.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "protocol/base/time.h"
#include "scheduler/core/events.h"
#include "scheduler/core/group.h"

namespace scheduler {

inline constexpr int kStealLevels = 15;

//! How far tasks without annotations may pass the memory budget; see admission.h.
struct Leeway {
  std::uint32_t tasks = 1;          //!< that may run at once past the budget
  bool used = false;                //!< one has, and none fitted since
  std::uint64_t freed_before = 0;   //!< Worker::freed when the last one began
  protocol::Duration since{};       //!< when the last one began, or one that fitted
};

struct Worker {
  WorkerId id;
  std::string address;
  std::string host;
  Key name;
  std::uint32_t nthreads = 1;
  std::uint64_t memory_limit = 0;  //!< 0: none
  WorkerStatus status = WorkerStatus::init;
  bool rask = false;
  bool fading = false;             //!< gone; what was on it is taken off a part at a time
  std::uint32_t rank = 0;          //!< place among the living, by address
  bool idle = false;               //!< by occupancy
  bool has_slot = false;           //!< by number of tasks (Dask's idle_task_count)
  bool saturated = false;
  bool hungry = false;             //!< rask, running, and holds little ahead
  std::uint32_t ahead_target = 0;  //!< tasks it held ahead when last filled up
  Duration last_progress;          //!< a task of it ended, or it was given its first one ahead
  Resources resources;             //!< supply
  Resources used_resources;        //!< by processing tasks

  std::vector<TaskId> has_what;
  std::vector<TaskId> processing;
  std::vector<TaskId> actors;
  std::deque<TaskId> held;         //!< queued tasks it was sent ahead of their slots; oldest first
  std::deque<TaskId> chained;      //!< waiting tasks it was sent ahead of inputs it will make
  std::uint32_t long_running = 0;  //!< processing tasks that have seceded
  std::uint64_t nbytes = 0;        //!< of has_what
  std::uint32_t next_serial = 0;   //!< for Replica::serial

  // ---- admission (see admission.h) ----
  std::vector<TaskId> bounded;     //!< processing tasks whose annotations bound them
  std::uint64_t freed = 0;         //!< bytes of results that have left it, ever
  std::uint64_t made_size = 0;     //!< of results made from others here, of late: the largest
  std::uint64_t made_of = 0;       //!< bytes fetched for such a result, of late: the mean
  Leeway leeway;

  // ---- from heartbeats ----
  std::uint64_t memory_rss = 0;
  std::uint64_t spilled_bytes = 0;   //!< on disk
  std::uint64_t spilled_memory = 0;  //!< what those bytes took in memory
  std::uint64_t unmanaged_old = 0;
  std::vector<std::pair<protocol::Duration, std::uint64_t>> unmanaged_history;

  // ---- occupancy (see occupancy.h) ----
  struct PrefixLoad {
    std::uint32_t count = 0;
    std::int64_t estimate_ns = 0;  //!< the estimate `compute_ns` holds for each of them
  };
  absl::flat_hash_map<TaskPrefix*, PrefixLoad> load;
  Wide compute_ns = 0;             //!< sum of count x estimate over `load`
  std::uint64_t load_version = 0;
  struct Fetch {
    std::uint32_t tasks = 0;       //!< processing tasks that need it
    std::uint64_t nbytes = 0;      //!< as counted in network_bytes
  };
  absl::flat_hash_map<TaskId, Fetch> needs_what;
  std::uint64_t network_bytes = 0;

  std::array<std::vector<TaskId>, kStealLevels> stealable;
  double stolen_seconds = 0;       //!< expected change by thefts under way
  std::int32_t stolen_tasks = 0;

  bool running() const { return status == WorkerStatus::running; }
};

}  // namespace scheduler
