//! What the graph link hands to the scheduler besides the core's own events.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/core/events.h"

namespace scheduler {

//! Why a graph could not be read. Fields as in distributed.core.error_message.
struct GraphError {
  PayloadRef exception;        //!< never null: a pickled exception, ready for task-erred
  PayloadRef traceback;        //!< an inline nil if there is none
  std::string exception_text;
  std::string traceback_text;
};

//! A plugin that a client registered with the scheduler for the graph processes to load.
using UploadId = std::uint32_t;

//! The workers there are while a graph is opened, for defaults that depend on them.
struct GraphWorkers {
  std::uint64_t memory = 0;  //!< the least memory limit of a worker that has one; 0: none
  std::uint32_t threads = 0;      //!< the most of one worker
  std::uint64_t all_threads = 0;  //!< of all
};

}  // namespace scheduler
