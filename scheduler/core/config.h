//! Dask's configuration as far as the scheduler's core uses it.
//!
//! The shell reads the files and the environment; the core only sees these values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/base/time.h"
#include "scheduler/core/schemes.h"

namespace scheduler {

using protocol::Duration;
using protocol::Now;

//! What rask does for unmodified programs on rask workers (`rask.spliter.auto`).
enum class Automatic : std::uint8_t {
  off,     //!< one task per message and slot, as stock
  batch,   //!< short tasks are handed over many at a time, ahead of their slots
  reduce,  //!< the same, and known-associative reductions run home-first
};

constexpr std::optional<Automatic> parse_automatic(std::string_view name) {
  if (name == "off") return Automatic::off;
  if (name == "batch") return Automatic::batch;
  if (name == "reduce") return Automatic::reduce;
  return std::nullopt;
}

//! Defaults are stock's.
struct Config {
  double worker_saturation = 1.1;          //!< infinity: no queueing on the scheduler
  std::uint32_t allowed_failures = 3;
  double bandwidth = 100e6;                //!< bytes/s until heartbeats say better
  std::uint64_t default_data_size = 1024;  //!< nbytes of a result nobody measured
  double unknown_task_duration = 0.5;      //!< seconds
  std::vector<std::pair<std::string, double>> default_task_durations = {};  //!< prefix -> seconds
  std::uint32_t rootish_taskgroup = 5;
  std::uint32_t rootish_taskgroup_dependencies = 5;
  bool work_stealing = true;
  Duration work_stealing_interval = Duration::ms(1000);
  bool active_memory_manager = true;
  Duration active_memory_manager_interval = Duration::ms(2000);
  bool memory_terminate = true;            //!< refuse tasks whose inputs exceed the worker's memory
  double no_workers_timeout = 0;           //!< seconds; 0: tasks wait for ever
  double memory_recent_to_old = 30;        //!< seconds until unmanaged memory counts as old
  //! Expected work per thread that a rask worker may hold beyond its slots; 0: none.
  Duration prefetch = Duration::ms(2);
  Automatic automatic = Automatic::batch;
  Scheme batches = Scheme::fac2;           //!< deals the queue out to workers, a batch at a time
  // Memory-bounded admission; see admission.h.
  double memory_budget = 0.6;              //!< of a worker's memory limit; 0: no admission at all
  bool memory_learned = true;              //!< also without annotations, on rask workers
  Duration memory_patience = Duration::ms(5000);  //!< how long waiting may be of no use
  Duration memory_too_large_grace = Duration::ms(10'000);  //!< in which a larger worker may come
  //! Transitions after which a step leaves what can wait to later turns; see later.h.
  std::uint32_t transitions_at_once = 8192;
  std::uint32_t story_length = 100'000;    //!< transitions remembered
  std::uint64_t seed = 1;
};

}  // namespace scheduler
