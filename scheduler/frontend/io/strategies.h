//! Predictions: what splitting one array into block files, or merging block files into one array,
//! costs under each strategy, before anything runs.
//!
//! Every access to a descriptor that does not continue the one before it is a seek, and a file that
//! is opened begins with one. Both directions cost the same number of seeks, because one side is
//! read as the other is written.
//!
//! Answers to: the cost models of "Sequential algorithms to split and merge ultra-high resolution
//! 3D images" (reference/seeds.md §2.4), exact also for uneven grids.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "scheduler/frontend/io/grid.h"

namespace scheduler::io {

struct Prediction {
  std::string strategy;
  std::uint64_t array_seeks = 0;  //!< in the one array
  std::uint64_t block_seeks = 0;  //!< in the block files
  std::uint64_t bytes = 0;        //!< moved on each side
  std::uint64_t peak_bytes = 0;   //!< the largest buffer

  std::uint64_t seeks() const { return array_seeks + block_seeks; }
};

//! naive slabs, naive blocks, buffered slabs, clustered, multiple; for a grid that covers its
//! array. In a grid with gaps only naive blocks and clustered are given.
std::vector<Prediction> predict(const Grid& grid, std::span<const BlockId> used,
                                std::uint64_t bound);

//! Blocks of one shape to blocks of another, on disk, with the KEEP heuristic: read in boxes of
//! `read` (slowest axis first), keep what its output block still waits for, write each block once.
struct KeepPlan {
  std::vector<Extent> read;
  std::uint64_t seeks = 0;       //!< in both sets of files
  std::uint64_t peak_bytes = 0;  //!< read box and what is kept, at most
  bool fits = false;             //!< peak_bytes is within the bound
};

//! The shape to read with fewest seeks within the bound; if none fits, the one with the least peak.
KeepPlan keep(std::span<const Extent> shape, std::span<const Extent> in,
              std::span<const Extent> out, std::uint64_t itemsize, std::uint64_t bound);

//! The baseline of KEEP: read each input block once and write its parts into the output blocks.
std::uint64_t repartition_baseline(std::span<const Extent> shape, std::span<const Extent> in,
                                   std::span<const Extent> out);

}  // namespace scheduler::io
