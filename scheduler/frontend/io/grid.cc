#include "scheduler/frontend/io/grid.h"

#include <algorithm>
#include <string>
#include <utility>

namespace scheduler::io {
namespace {

using protocol::Error;
using protocol::Fault;

constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 62;

//! Multiplies unless the product would pass the limit.
bool grow(std::uint64_t& product, std::uint64_t factor) {
  if (factor != 0 && product > kBytesMax / factor) return false;
  product *= factor;
  return true;
}

bool in_order(const Axis& axis) {
  Extent last = 0;
  for (const Interval& block : axis.blocks) {
    if (block.start < last || block.stop <= block.start || block.stop > axis.extent) return false;
    last = block.stop;
  }
  return !axis.blocks.empty();
}

}  // namespace

bool Axis::covered() const {
  if (blocks.empty() || blocks.front().start != 0 || blocks.back().stop != extent) return false;
  for (std::size_t i = 1; i < blocks.size(); ++i) {
    if (!touches(i)) return false;
  }
  return true;
}

Axis even_axis(Extent extent, Extent block) {
  Axis axis{extent, {}};
  for (Extent at = 0; at < extent; at += block) {
    axis.blocks.push_back({at, std::min(extent, at + block)});
  }
  return axis;
}

protocol::Result<Grid> Grid::make(std::vector<Axis> axes, std::uint64_t itemsize, Order order) {
  if (itemsize == 0) return Error{Fault::bad_type, "grid: elements of no size"};
  Grid grid;
  grid.axes_ = std::move(axes);
  grid.itemsize_ = itemsize;
  if (order == Order::fortran) std::reverse(grid.axes_.begin(), grid.axes_.end());
  std::uint64_t bytes = itemsize, blocks = 1;
  grid.strides_.resize(grid.axes_.size());
  for (std::size_t d = grid.axes_.size(); d-- > 0;) {
    const Axis& axis = grid.axes_[d];
    if (!in_order(axis)) {
      return Error{Fault::bad_type, "grid: blocks of axis " + std::to_string(d) +
                                        " are empty, overlap or leave the array"};
    }
    grid.strides_[d] = blocks;
    if (!grow(blocks, axis.blocks.size()) || !grow(bytes, axis.extent)) {
      return Error{Fault::too_large, "grid: array of more than 2^62 bytes"};
    }
  }
  return grid;
}

std::uint64_t Grid::bytes(BlockId id) const {
  std::uint64_t product = itemsize_;
  for (std::size_t d = 0; d < axes_.size(); ++d) {
    product *= axes_[d].blocks[coordinate(id, d)].length();
  }
  return product;
}

}  // namespace scheduler::io
