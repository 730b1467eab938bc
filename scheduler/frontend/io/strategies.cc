#include "scheduler/frontend/io/strategies.h"

#include <algorithm>

#include "scheduler/frontend/io/plan.h"
#include "scheduler/frontend/io/seeks.h"

namespace scheduler::io {
namespace {

std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

std::uint64_t largest(const Plan& plan) {
  std::uint64_t bytes = 0;
  for (const Buffer& buffer : plan.buffers) bytes = std::max(bytes, buffer.bytes);
  return bytes;
}

std::uint64_t array_bytes(const Grid& grid) {
  std::uint64_t bytes = grid.itemsize();
  for (const Axis& axis : grid.axes()) bytes *= axis.extent;
  return bytes;
}

//! Intervals of an axis that [start, stop) touches.
std::uint64_t touched(const Axis& axis, Extent start, Extent stop) {
  const auto ends_after = [](const Interval& i, Extent at) { return i.stop <= at; };
  const auto first = std::lower_bound(axis.blocks.begin(), axis.blocks.end(), start, ends_after);
  const auto last = std::lower_bound(first, axis.blocks.end(), stop - 1, ends_after);
  return static_cast<std::uint64_t>(last - first) + 1;
}

//! The array in one pass from front to back, in loads of at most `bound` bytes that are one box
//! each; for each load, every block file it touches is opened.
Prediction multiple(const Grid& grid, std::uint64_t bound) {
  const std::size_t n = grid.dimensions();
  std::uint64_t unit = grid.itemsize();  //!< bytes of one step along `axis`
  std::size_t axis = n - 1;
  while (axis > 0 && unit * grid.axes()[axis].extent <= bound) {
    unit *= grid.axes()[axis].extent;
    --axis;
  }
  const Extent step = std::max<Extent>(1, bound / unit);
  std::uint64_t outer = 1, inner = 1;
  for (std::size_t d = 0; d < axis; ++d) outer *= grid.axes()[d].extent;
  for (std::size_t d = axis + 1; d < n; ++d) inner *= grid.axes()[d].blocks.size();
  const Extent extent = grid.axes()[axis].extent;
  Prediction found{"multiple", outer * ceil_div(extent, step), 0, array_bytes(grid),
                   unit * std::min(step, extent)};
  for (Extent at = 0; at < extent; at += step) {
    found.block_seeks += touched(grid.axes()[axis], at, std::min(extent, at + step));
  }
  found.block_seeks *= outer * inner;
  return found;
}

}  // namespace

std::vector<Prediction> predict(const Grid& grid, std::span<const BlockId> used,
                                std::uint64_t bound) {
  std::vector<Prediction> found;
  const std::uint64_t n = used.size();
  const auto clustered = cluster(grid, {used.begin(), used.end()}, bound);
  const auto naive = cluster(grid, {used.begin(), used.end()}, 0);
  if (!clustered || !naive || n == 0) return found;
  std::uint64_t bytes = 0;
  for (const Buffer& buffer : naive->buffers) bytes += buffer.bytes;
  const bool whole = n == grid.blocks() && grid.dimensions() > 0 &&
                     std::all_of(grid.axes().begin(), grid.axes().end(),
                                 [](const Axis& axis) { return axis.covered(); });
  if (whole) found.push_back({"naive slabs", n, n, bytes, ceil_div(bytes, n)});
  found.push_back({"naive blocks", seeks_of(grid, *naive), n, bytes, largest(*naive)});
  if (whole) {
    const std::uint64_t loads = ceil_div(bytes, std::max<std::uint64_t>(1, bound));
    found.push_back({"buffered slabs", loads, n, bytes, std::min(bound, bytes)});
  }
  found.push_back({"clustered", seeks_of(grid, *clustered), n, bytes, largest(*clustered)});
  if (whole) found.push_back(multiple(grid, bound));
  return found;
}

}  // namespace scheduler::io
