#include "scheduler/frontend/io/plan.h"

#include <algorithm>
#include <utility>

namespace scheduler::io {
namespace {

using protocol::Error;
using protocol::Fault;

//! Sorts the used blocks; an empty error text means they are all there, once.
const char* sort_used(const Grid& grid, std::vector<BlockId>& used) {
  if (!std::is_sorted(used.begin(), used.end())) std::sort(used.begin(), used.end());
  if (!used.empty() && used.back() >= grid.blocks()) return "plan: a block is not in the grid";
  if (std::adjacent_find(used.begin(), used.end()) != used.end()) {
    return "plan: a block is named twice";
  }
  return nullptr;
}

//! Step 1: runs within block rows.
std::vector<Buffer> runs(const Grid& grid, std::span<const BlockId> used, std::uint64_t bound) {
  std::vector<Buffer> found;
  if (grid.dimensions() == 0) return {Buffer{0, used.size(), grid.itemsize()}};
  const std::size_t last_axis = grid.dimensions() - 1;
  const Axis& axis = grid.axes()[last_axis];
  const BlockId row = axis.blocks.size();
  BlockId row_of_area = ~BlockId{0};
  std::uint64_t area = 0;  //!< bytes of a block of this row, per element along the last axis
  for (std::size_t i = 0; i < used.size(); ++i) {
    const BlockId id = used[i];
    const std::size_t place = static_cast<std::size_t>(id % row);
    if (id / row != row_of_area) {
      row_of_area = id / row;
      area = grid.bytes(id) / axis.blocks[place].length();
    }
    const std::uint64_t bytes = area * axis.blocks[place].length();
    const bool joins = !found.empty() && place != 0 && used[i - 1] + 1 == id &&
                       axis.touches(place) && found.back().bytes + bytes <= bound;
    if (!joins) found.push_back({i, 0, 0});
    found.back().count += 1;
    found.back().bytes += bytes;
  }
  return found;
}

//! Step 2, one level: joins neighbours that are whole units along `axis`.
std::vector<Buffer> joined(const Grid& grid, std::span<const BlockId> used,
                           std::vector<Buffer> buffers, std::size_t axis, std::uint64_t bound) {
  const BlockId unit = grid.stride(axis);
  const BlockId parent = unit * grid.axes()[axis].blocks.size();
  std::size_t kept = 0;
  bool open = false;  //!< the last kept buffer is made of whole units
  for (const Buffer& next : buffers) {
    const BlockId first = used[next.first];
    const bool whole = next.count == unit && first % unit == 0;
    if (whole && open) {
      Buffer& last = buffers[kept - 1];
      const BlockId end = used[last.first + last.count - 1];
      if (end + 1 == first && end / parent == first / parent &&
          grid.axes()[axis].touches(grid.coordinate(first, axis)) &&
          last.bytes + next.bytes <= bound) {
        last.count += next.count;
        last.bytes += next.bytes;
        continue;
      }
    }
    buffers[kept++] = next;
    open = whole;
  }
  buffers.resize(kept);
  return buffers;
}

//! For each interval of an axis the number of the group it falls into: intervals are in one group
//! unless a chunk border or a gap lies between them.
std::vector<std::size_t> groups(const Axis& axis, Extent chunk) {
  std::vector<std::size_t> group(axis.blocks.size(), 0);
  for (std::size_t i = 1; i < group.size(); ++i) {
    const bool together = axis.touches(i) && axis.blocks[i].start % chunk != 0;
    group[i] = group[i - 1] + (together ? 0 : 1);
  }
  return group;
}

struct Tiles {
  std::vector<std::vector<std::size_t>> group;       //!< by axis, by interval
  std::vector<std::vector<std::size_t>> group_size;  //!< by axis, by group

  Tiles(const Grid& grid, std::span<const Extent> chunk) {
    for (std::size_t d = 0; d < grid.dimensions(); ++d) {
      group.push_back(groups(grid.axes()[d], chunk[d]));
      group_size.emplace_back(group[d].back() + 1, 0);
      for (const std::size_t g : group[d]) ++group_size[d][g];
    }
  }

  std::uint64_t number(const Grid& grid, BlockId id) const {
    std::uint64_t n = 0;
    for (std::size_t d = 0; d < group.size(); ++d) {
      n = n * group_size[d].size() + group[d][grid.coordinate(id, d)];
    }
    return n;
  }

  //! Blocks in the tile that a block belongs to.
  std::uint64_t size(const Grid& grid, BlockId id) const {
    std::uint64_t n = 1;
    for (std::size_t d = 0; d < group.size(); ++d) {
      n *= group_size[d][group[d][grid.coordinate(id, d)]];
    }
    return n;
  }
};

}  // namespace

protocol::Result<Plan> cluster(const Grid& grid, std::vector<BlockId> used, std::uint64_t bound) {
  Plan plan;
  if (const char* wrong = sort_used(grid, used)) return Error{Fault::bad_type, wrong};
  plan.blocks = std::move(used);
  if (plan.blocks.empty()) return plan;
  plan.buffers = runs(grid, plan.blocks, bound);
  for (std::size_t axis = grid.dimensions(); axis-- > 0;) {
    if (axis + 1 == grid.dimensions()) continue;
    // What is not whole on disk does not become one piece by being joined.
    if (!grid.axes()[axis + 1].covered()) break;
    plan.buffers = joined(grid, plan.blocks, std::move(plan.buffers), axis, bound);
  }
  return plan;
}

protocol::Result<Plan> tile(const Grid& grid, std::vector<BlockId> used, std::uint64_t bound,
                            std::span<const Extent> chunk) {
  Plan plan;
  if (const char* wrong = sort_used(grid, used)) return Error{Fault::bad_type, wrong};
  if (chunk.size() != grid.dimensions() || std::count(chunk.begin(), chunk.end(), 0) != 0) {
    return Error{Fault::bad_type, "plan: chunks do not fit the grid"};
  }
  const Tiles tiles(grid, chunk);
  std::vector<std::pair<std::uint64_t, BlockId>> order;
  order.reserve(used.size());
  for (const BlockId id : used) order.emplace_back(tiles.number(grid, id), id);
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0, end = 0; i < order.size(); i = end) {
    std::uint64_t bytes = 0;
    for (end = i; end < order.size() && order[end].first == order[i].first; ++end) {
      plan.blocks.push_back(order[end].second);
      bytes += grid.bytes(order[end].second);
    }
    if (bytes <= bound && end - i == tiles.size(grid, order[i].second)) {
      plan.buffers.push_back({i, end - i, bytes});
      continue;
    }
    for (std::size_t alone = i; alone < end; ++alone) {
      plan.buffers.push_back({alone, 1, grid.bytes(order[alone].second)});
    }
  }
  return plan;
}

Box box_of(const Grid& grid, std::span<const BlockId> blocks) {
  Box box(grid.dimensions());
  for (std::size_t d = 0; d < box.size(); ++d) {
    const Axis& axis = grid.axes()[d];
    box[d] = {axis.blocks[grid.coordinate(blocks.front(), d)].start,
              axis.blocks[grid.coordinate(blocks.back(), d)].stop};
  }
  return box;
}

Regime regime(const Grid& grid, std::uint64_t bound) {
  const std::size_t n = grid.dimensions();
  if (n < 2) return Regime::blocks;
  std::uint64_t bytes = grid.bytes(0);
  const auto whole = [&](std::size_t d) {
    return bytes / grid.axes()[d].blocks[0].length() * grid.axes()[d].extent;
  };
  bytes = whole(n - 1);
  if (bytes > bound) return Regime::blocks;
  for (std::size_t d = n - 1; d-- > 1;) bytes = whole(d);
  return bytes > bound || n == 2 ? Regime::rows : Regime::slices;
}

}  // namespace scheduler::io
