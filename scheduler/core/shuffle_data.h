//! P2P shuffles as plain data: what a barrier task's spec says, and one run of it.
//!
//! A shuffle is: transfer tasks -> one barrier task `shuffle-barrier-<id>` -> output tasks. The data
//! moves between workers behind our back; we only say which worker holds which output partition,
//! and number the attempts, so that workers can tell shards of a failed attempt from those of the next.
//!
//! Invariant: every participant of a run is alive; when one is lost the run is over.
//!
//! Answers to: distributed/shuffle/_core.py, ShuffleSpec and SchedulerShuffleState.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "protocol/base/ids.h"
#include "protocol/base/payload.h"
#include "scheduler/core/names.h"

namespace scheduler {

struct ShuffleSpec {
  enum class Kind : std::uint8_t { dataframe, array };

  Kind kind = Kind::dataframe;
  std::string id;
  std::uint64_t npartitions = 0;         //!< dataframe: of the whole frame
  std::vector<std::uint64_t> parts_out;  //!< dataframe: the output partitions
  std::vector<std::uint32_t> chunks;     //!< array: number of new chunks per axis
  protocol::RunSpecRef pickle;           //!< the spec itself, unopened

  //! Output partitions; of an array in the order of their indices, the last axis fastest.
  std::uint64_t outputs() const {
    if (kind == Kind::dataframe) return parts_out.size();
    std::uint64_t product = 1;
    for (const std::uint32_t count : chunks) product *= count;
    return product;
  }
};
using ShuffleSpecRef = std::shared_ptr<const ShuffleSpec>;

struct ShuffleRun {
  std::uint64_t number = 0;                     //!< larger for every new run of any shuffle
  ShuffleSpecRef spec;
  protocol::TaskId barrier;
  std::vector<protocol::WorkerId> worker_for;   //!< by output
  std::vector<protocol::WorkerId> participants; //!< sorted; all of worker_for, and who asked
  bool failed = false;                          //!< a task of it erred; said once

  //! As workers and logs name it.
  std::string name() const;
};

struct Shuffles {
  std::map<std::uint64_t, ShuffleRun> runs;  //!< active ones, by number
  NameMap<std::uint64_t> by_id;
  std::uint64_t last_run = 0;
  std::vector<ShuffleSpecRef> over;          //!< barriers that left their course in this step
};

}  // namespace scheduler
