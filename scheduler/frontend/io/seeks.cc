#include "scheduler/frontend/io/seeks.h"

namespace scheduler::io {

std::uint64_t segments(const Box& box, std::span<const Extent> shape) {
  std::size_t partial = box.size();
  while (partial > 0 && box[partial - 1].length() == shape[partial - 1]) --partial;
  // Below the innermost axis that is cut, every step on an axis is a jump.
  std::uint64_t count = 1;
  for (std::size_t d = 0; d + 1 < partial; ++d) count *= box[d].length();
  return count;
}

std::uint64_t chunks_touched(const Box& box, std::span<const Extent> chunk) {
  std::uint64_t count = 1;
  for (std::size_t d = 0; d < box.size(); ++d) {
    const Extent first = box[d].start / chunk[d];
    const Extent end = (box[d].stop + chunk[d] - 1) / chunk[d];
    count *= end - first;
  }
  return count;
}

std::uint64_t seeks_of(const Grid& grid, const Plan& plan, std::span<const Extent> chunk) {
  const std::vector<Extent> shape = shape_of(grid);
  std::uint64_t total = 0;
  for (const Buffer& buffer : plan.buffers) {
    const Box box = box_of(grid, plan.of(buffer));
    total += chunk.empty() ? segments(box, shape) : chunks_touched(box, chunk);
  }
  return total;
}

std::vector<Extent> shape_of(const Grid& grid) {
  std::vector<Extent> shape;
  for (const Axis& axis : grid.axes()) shape.push_back(axis.extent);
  return shape;
}

}  // namespace scheduler::io
