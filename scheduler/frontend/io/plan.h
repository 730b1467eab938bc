//! Which blocks are loaded (or stored) together: the clustered strategy.
//!
//! Blocks that lie next to each other on disk become one buffer, never larger than the bound: runs
//! within a block row, then whole rows, then whole slices, and so on to the slowest axis. In
//! storage that is itself chunked the place of a block says nothing; there, blocks that share
//! chunks become one buffer, so that each chunk is read (or written) once.
//!
//! Invariants: the buffers partition the used blocks; each buffer is one box and the box holds
//! nothing but its blocks, so no byte is read that nobody asked for; a buffer of several blocks
//! never exceeds the bound. Linear in the used blocks once they are sorted.
//!
//! Answers to: create_buffers of the clustered strategy (Hayot-Sasson et al.; Guedon et al.),
//! corrected: reference/seeds.md §2.3.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "protocol/base/result.h"
#include "scheduler/frontend/io/grid.h"

namespace scheduler::io {

//! Consecutive entries of Plan::blocks.
struct Buffer {
  std::size_t first = 0;
  std::size_t count = 0;
  std::uint64_t bytes = 0;
  bool operator==(const Buffer&) const = default;
};

//! What a buffer holds at most: the three regimes, by the axis along which it grows.
enum class Regime : std::uint8_t { blocks, rows, slices };

struct Plan {
  std::vector<BlockId> blocks;  //!< buffer by buffer; ascending unless the storage is chunked
  std::vector<Buffer> buffers;

  std::span<const BlockId> of(const Buffer& buffer) const {
    return std::span(blocks).subspan(buffer.first, buffer.count);
  }
};

//! Buffers of at most `bound` bytes for data stored in one piece. A block larger than the bound is
//! a buffer of its own. Fails on blocks that are not in the grid or are named twice.
protocol::Result<Plan> cluster(const Grid& grid, std::vector<BlockId> used, std::uint64_t bound);

//! Buffers for data stored in chunks of this shape (slowest axis first): blocks that share chunks
//! come together if all of them are used and fit into the bound; the others stay alone.
protocol::Result<Plan> tile(const Grid& grid, std::vector<BlockId> used, std::uint64_t bound,
                            std::span<const Extent> chunk);

//! The elements of one buffer of a plan for this grid.
Box box_of(const Grid& grid, std::span<const BlockId> blocks);

//! The regime of a bound in an even grid: what fits, by the first block's size.
Regime regime(const Grid& grid, std::uint64_t bound);

}  // namespace scheduler::io
