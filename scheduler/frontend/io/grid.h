//! A grid of blocks over an array on disk, in storage order.
//!
//! Axes are kept slowest first, whatever the order of the array: a Fortran array is the same grid
//! with its axes reversed, so nothing after this file knows about orders. An axis is a list of
//! intervals; they may leave gaps (a sliced array) and differ in length (a ragged tail).
//!
//! Invariant: the linear number of a block grows with its place on disk.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "protocol/base/result.h"

namespace scheduler::io {

using Extent = std::uint64_t;
using BlockId = std::uint64_t;

enum class Order : std::uint8_t { c, fortran };

struct Interval {
  Extent start = 0;
  Extent stop = 0;
  Extent length() const { return stop - start; }
  bool operator==(const Interval&) const = default;
};

struct Axis {
  Extent extent = 0;  //!< of the array
  std::vector<Interval> blocks;

  //! The intervals leave out nothing of the array.
  bool covered() const;
  //! Interval i begins where the one before it ends.
  bool touches(std::size_t i) const { return i > 0 && blocks[i].start == blocks[i - 1].stop; }
};

//! Intervals of `block` elements each, the last one possibly shorter.
Axis even_axis(Extent extent, Extent block);

class Grid {
 public:
  //! `axes` in the order in which the array is indexed. Fails on intervals that are empty, overlap,
  //! leave the array or go backwards, and on sizes that do not fit into 64 bits.
  static protocol::Result<Grid> make(std::vector<Axis> axes, std::uint64_t itemsize, Order order);

  std::span<const Axis> axes() const { return axes_; }  //!< slowest first
  std::size_t dimensions() const { return axes_.size(); }
  std::uint64_t itemsize() const { return itemsize_; }
  BlockId blocks() const { return strides_.empty() ? 1 : strides_[0] * axes_[0].blocks.size(); }
  //! Blocks in one step along an axis (slowest first).
  BlockId stride(std::size_t axis) const { return strides_[axis]; }
  std::size_t coordinate(BlockId id, std::size_t axis) const {
    return static_cast<std::size_t>(id / strides_[axis] % axes_[axis].blocks.size());
  }
  std::uint64_t bytes(BlockId id) const;

 private:
  std::vector<Axis> axes_;
  std::vector<BlockId> strides_;
  std::uint64_t itemsize_ = 1;
};

//! An axis-aligned box of elements, slowest axis first.
using Box = std::vector<Interval>;

}  // namespace scheduler::io
