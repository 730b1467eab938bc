//! Another worker, as far as fetching from it is concerned.
//!
//! At most one transfer per peer is under way; what else it holds waits in `data_needed`. A peer
//! lives as long as something refers to it: a replica, a transfer or a pause after "busy".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/core/task.h"
#include "worker/core/task_heap.h"

namespace worker {

struct Peer {
  static constexpr std::uint32_t kNowhere = Task::kNowhere;

  std::string address;             //!< empty: the slot is free
  bool remote = true;              //!< not on our host
  bool busy = false;
  bool in_flight = false;
  std::vector<TaskId> has_what;    //!< tasks we know of that it is said to hold; no order
  TaskHeap data_needed;            //!< those in `fetch`, most urgent first
  std::uint32_t needed = 0;        //!< how many of data_needed count
  std::vector<TaskRef> gathering;  //!< asked for in the transfer under way, most urgent first
  std::uint64_t gathering_nbytes = 0;
  std::uint32_t candidate_place = kNowhere;  //!< index in State::candidates
  std::uint64_t seen = 0;                    //!< mark for removing doubles from a list
};

}  // namespace worker
