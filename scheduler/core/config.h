//! Dask's configuration as far as the scheduler's core uses it.
//!
//! The shell reads the files and the environment; the core only sees these values.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "protocol/base/time.h"

namespace scheduler {

using protocol::Duration;
using protocol::Now;

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
  std::uint32_t story_length = 100'000;    //!< transitions remembered
  std::uint64_t seed = 1;
};

}  // namespace scheduler
