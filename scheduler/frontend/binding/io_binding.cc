//! io_plan(), io_predict() and io_keep() of rask._native._graph: the planner on plain numbers.
//!
//! Axes come in the order in which the array is indexed, each as (extent, starts, stops) with
//! int64 buffers; what goes back is in that order, too. The GIL is released while planning.
#include "scheduler/frontend/binding/io_binding.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "scheduler/frontend/io/plan.h"
#include "scheduler/frontend/io/seeks.h"
#include "scheduler/frontend/io/strategies.h"

namespace nb = nanobind;

namespace scheduler::binding {
namespace {

using io::BlockId;
using io::Extent;
using Sides = std::tuple<Extent, std::vector<Extent>, std::vector<Extent>>;

[[noreturn]] void raise(const protocol::Error& error) {
  throw nb::value_error(error.where.c_str());
}

io::Order order_of(const std::string& name) {
  if (name == "C") return io::Order::c;
  if (name == "F") return io::Order::fortran;
  throw nb::value_error("order: neither C nor F");
}

io::Grid grid_of(const std::vector<Sides>& sides, std::uint64_t itemsize,
                 const std::string& order) {
  std::vector<io::Axis> axes;
  for (const auto& [extent, starts, stops] : sides) {
    if (starts.size() != stops.size()) throw nb::value_error("axis: starts and stops differ");
    io::Axis axis{extent, {}};
    for (std::size_t i = 0; i < starts.size(); ++i) axis.blocks.push_back({starts[i], stops[i]});
    axes.push_back(std::move(axis));
  }
  auto grid = io::Grid::make(std::move(axes), itemsize, order_of(order));
  if (!grid) raise(grid.error());
  return std::move(*grid);
}

//! Numbers of blocks as bytes u64; empty: all of them.
std::vector<BlockId> ids_of(const nb::bytes& used, const io::Grid& grid) {
  std::vector<BlockId> ids;
  if (used.size() % sizeof(BlockId) != 0) throw nb::value_error("used: not a whole number of ids");
  if (used.size() == 0) {
    for (BlockId id = 0; id < grid.blocks(); ++id) ids.push_back(id);
    return ids;
  }
  ids.resize(used.size() / sizeof(BlockId));
  std::memcpy(ids.data(), used.c_str(), used.size());
  return ids;
}

std::vector<Extent> in_storage_order(std::vector<Extent> extents, const std::string& order) {
  if (order == "F") std::reverse(extents.begin(), extents.end());
  return extents;
}

//! (ids u64, counts u64, seeks): the ids buffer by buffer, blocks per buffer, seeks of the plan.
nb::tuple plan(const std::vector<Sides>& sides, std::uint64_t itemsize, const std::string& order,
               const nb::bytes& used, std::uint64_t bound, std::vector<Extent> chunk) {
  const io::Grid grid = grid_of(sides, itemsize, order);
  std::vector<BlockId> ids = ids_of(used, grid);
  chunk = in_storage_order(std::move(chunk), order);
  std::vector<std::uint64_t> counts;
  std::uint64_t seeks = 0;
  auto run = [&] {
    const nb::gil_scoped_release released;
    auto found = chunk.empty() ? io::cluster(grid, std::move(ids), bound)
                               : io::tile(grid, std::move(ids), bound, chunk);
    if (found) {
      for (const io::Buffer& buffer : found->buffers) counts.push_back(buffer.count);
      seeks = io::seeks_of(grid, *found, chunk);
    }
    return found;
  };
  const auto found = run();
  if (!found) raise(found.error());
  return nb::make_tuple(nb::bytearray(found->blocks.data(), found->blocks.size() * sizeof(BlockId)),
                        nb::bytearray(counts.data(), counts.size() * sizeof(std::uint64_t)), seeks);
}

nb::list predict(const std::vector<Sides>& sides, std::uint64_t itemsize, const std::string& order,
                 const nb::bytes& used, std::uint64_t bound) {
  const io::Grid grid = grid_of(sides, itemsize, order);
  nb::list rows;
  for (const io::Prediction& p : io::predict(grid, ids_of(used, grid), bound)) {
    rows.append(nb::make_tuple(p.strategy, p.array_seeks, p.block_seeks, p.bytes, p.peak_bytes));
  }
  return rows;
}

nb::tuple keep(std::vector<Extent> shape, std::vector<Extent> in, std::vector<Extent> out,
               std::uint64_t itemsize, std::uint64_t bound, const std::string& order) {
  for (const auto* block : {&in, &out}) {
    if (block->size() != shape.size() || std::count(block->begin(), block->end(), 0) != 0) {
      throw nb::value_error("keep: blocks do not fit the array");
    }
  }
  if (shape.empty() || std::count(shape.begin(), shape.end(), 0) != 0) {
    throw nb::value_error("keep: an array without elements");
  }
  shape = in_storage_order(std::move(shape), order);
  in = in_storage_order(std::move(in), order);
  out = in_storage_order(std::move(out), order);
  io::KeepPlan found;
  std::uint64_t baseline = 0;
  {
    const nb::gil_scoped_release released;
    found = io::keep(shape, in, out, itemsize, bound);
    baseline = io::repartition_baseline(shape, in, out);
  }
  return nb::make_tuple(in_storage_order(found.read, order), found.seeks, found.peak_bytes,
                        found.fits, baseline);
}

}  // namespace

void bind_io(nb::module_& module) {
  module.def("io_plan", &plan, nb::arg("axes"), nb::arg("itemsize"), nb::arg("order"),
             nb::arg("used"), nb::arg("bound"), nb::arg("chunk") = std::vector<Extent>(),
             "Which blocks to load together: (ids u64, blocks per buffer u64, seeks).\n\n"
             "axes: (extent, starts, stops) per axis. used: u64 numbers of blocks in storage\n"
             "order, empty for all. chunk: shape of the chunks the storage itself has.");
  module.def("io_predict", &predict, nb::arg("axes"), nb::arg("itemsize"), nb::arg("order"),
             nb::arg("used"), nb::arg("bound"),
             "[(strategy, seeks in the array, seeks in block files, bytes, peak bytes)].");
  module.def("io_keep", &keep, nb::arg("shape"), nb::arg("in_block"), nb::arg("out_block"),
             nb::arg("itemsize"), nb::arg("bound"), nb::arg("order") = "C",
             "KEEP from blocks to blocks: (read shape, seeks, peak bytes, fits, baseline seeks).");
}

}  // namespace scheduler::binding
