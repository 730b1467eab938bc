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

//! A P2P barrier task and what the scheduler must know of its spec (protocol.md §8.9).
struct GraphBarrier {
  enum class Kind : std::uint8_t { dataframe, array };
  std::uint32_t key;                       //!< number of its key
  Kind kind;
  std::string id;                          //!< shuffle id
  std::uint64_t npartitions = 0;           //!< dataframe: divisor of the partition -> worker map
  std::vector<std::uint64_t> parts_out;    //!< dataframe: the output partitions
  std::vector<std::uint32_t> chunks;       //!< array: number of new chunks per axis
  RunSpecRef spec;                         //!< pickle of the spec alone (own, no tail) and buffers
};

}  // namespace scheduler
