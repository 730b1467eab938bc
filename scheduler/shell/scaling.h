//! How many workers are wanted, and which can go.
//!
//! Pure functions over the core's state. Answers to: Scheduler.workers_to_close, adaptive_target.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/core/core.h"

namespace scheduler {

struct Downscale {
  std::optional<double> memory_ratio;
  std::optional<std::int64_t> n;        //!< how many to close
  std::optional<std::int64_t> minimum;  //!< how many to keep
  std::optional<std::int64_t> target;   //!< how many to have afterwards
};

//! Idle workers with the least data first; never one with a task that has seceded.
std::vector<WorkerId> workers_to_close(const Core& core, Downscale wish);

//! Workers the present load asks for.
std::int64_t adaptive_target(const Core& core, double target_duration);

}  // namespace scheduler
