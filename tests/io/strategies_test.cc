//! Predicted seeks against counts recorded in the literature and against walking through every
//! element (reference/seeds.md §2.4, §2.5).
#include "scheduler/frontend/io/strategies.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "scheduler/frontend/io/plan.h"
#include "scheduler/frontend/io/seeks.h"

namespace {

using namespace scheduler::io;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

Grid even_grid(std::vector<Extent> shape, std::vector<Extent> block, std::uint64_t itemsize,
               Order order = Order::c) {
  std::vector<Axis> axes;
  for (std::size_t d = 0; d < shape.size(); ++d) axes.push_back(even_axis(shape[d], block[d]));
  auto grid = Grid::make(axes, itemsize, order);
  REQUIRE(grid.ok());
  return *grid;
}

std::map<std::string, std::uint64_t> predicted(const Grid& grid, std::uint64_t bound) {
  std::vector<BlockId> used(grid.blocks());
  std::iota(used.begin(), used.end(), 0);
  std::map<std::string, std::uint64_t> seeks;
  for (const Prediction& p : predict(grid, used, bound)) seeks[p.strategy] = p.seeks();
  return seeks;
}

//! Seeks of a box by visiting its elements and counting jumps.
std::uint64_t counted(const Box& box, const std::vector<Extent>& shape) {
  std::uint64_t jumps = 0, last = ~std::uint64_t{0};
  std::vector<Extent> at;
  for (const Interval& side : box) at.push_back(side.start);
  while (true) {
    std::uint64_t place = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) place = place * shape[d] + at[d];
    if (jumps == 0 || place != last + 1) ++jumps;
    last = place;
    std::size_t d = shape.size();
    while (d > 0 && ++at[d - 1] == box[d - 1].stop) {
      at[d - 1] = box[d - 1].start;
      --d;
    }
    if (d == 0) return jumps;
  }
}

}  // namespace

TEST_CASE("Both rows of BigBrain come out exactly") {
  const std::vector<Extent> shape{3850, 3025, 3500}, block{770, 605, 700};
  const std::vector<std::uint64_t> gib{3, 6, 9, 12, 16};
  const std::vector<std::uint64_t> fortran{21175125, 17625, 10625, 7125, 130};
  const std::vector<std::uint64_t> c{23292625, 19375, 11675, 7825, 130};
  const Grid f_grid = even_grid(shape, block, 2, Order::fortran);
  const Grid c_grid = even_grid(shape, block, 2, Order::c);
  CHECK(predicted(f_grid, kGiB)["naive blocks"] == 52937625);
  CHECK(predicted(c_grid, kGiB)["naive blocks"] == 58231375);
  for (std::size_t i = 0; i < gib.size(); ++i) {
    CHECK(predicted(f_grid, gib[i] * kGiB)["clustered"] == fortran[i]);
    CHECK(predicted(c_grid, gib[i] * kGiB)["clustered"] == c[i]);
  }
}

TEST_CASE("Slabs cost two seeks each, buffered slabs one per load and file") {
  const Grid grid = even_grid({10, 10, 10}, {5, 5, 5}, 2);
  const auto seeks = predicted(grid, 500);
  CHECK(seeks.at("naive slabs") == 16);
  CHECK(seeks.at("buffered slabs") == 8 + 4);
}

TEST_CASE("Multiple: every load opens each block file it touches") {
  const Grid grid = even_grid({8, 8, 8}, {4, 4, 4}, 1);
  CHECK(predicted(grid, 512)["multiple"] == 1 + 8);       // everything at once
  CHECK(predicted(grid, 256)["multiple"] == 2 + 2 * 4);   // block slices
  CHECK(predicted(grid, 64)["multiple"] == 8 + 8 * 4);    // slices
  CHECK(predicted(grid, 32)["multiple"] == 16 + 16 * 2);  // tile columns
  CHECK(predicted(grid, 8)["multiple"] == 64 + 64 * 2);   // columns
  CHECK(predicted(grid, 4)["multiple"] == 128 + 128);     // sub-columns
  CHECK(predicted(grid, 5)["multiple"] == 128 + 64 * 3);  // they straddle a border
}

TEST_CASE("In a grid with gaps only strategies that make sense there are predicted") {
  Axis sliced{10, {{2, 4}, {6, 8}}};
  auto grid = Grid::make({sliced, even_axis(4, 2)}, 1, Order::c);
  REQUIRE(grid.ok());
  const auto seeks = predicted(*grid, 100);
  CHECK(seeks.size() == 2);
  CHECK(seeks.at("clustered") == 4 + 2);
  CHECK(seeks.at("naive blocks") == 4 + 8);
}

TEST_CASE("The seek model equals a walk over every element") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Extent> shape(1 + random() % 4);
    Box box;
    for (Extent& extent : shape) {
      extent = 1 + random() % 6;
      const Extent start = random() % 3 == 0 ? random() % extent : 0;
      const Extent stop = random() % 3 == 0 ? start + 1 + random() % (extent - start) : extent;
      box.push_back({start, stop});
    }
    INFO("round " << round);
    REQUIRE(segments(box, shape) == counted(box, shape));
  }
}

TEST_CASE("KEEP reads in the ideal shape when memory allows: one seek per file") {
  const std::vector<Extent> shape{700, 700, 700}, in{140, 140, 140}, out{175, 175, 175};
  const KeepPlan plan = keep(shape, in, out, 2, std::uint64_t{1} << 40);
  CHECK(plan.fits);
  CHECK(plan.read == std::vector<Extent>{280, 280, 280});
  CHECK(plan.seeks == 125 + 64);
  CHECK(repartition_baseline(shape, in, out) > 100 * plan.seeks);

  const std::vector<Extent> smaller{100, 100, 100};
  const KeepPlan down = keep(shape, in, smaller, 2, std::uint64_t{1} << 40);
  CHECK(down.fits);
  CHECK(down.read == in);
  CHECK(down.seeks == 125 + 343);
}

TEST_CASE("KEEP stays within the bound by reading smaller boxes, at the price of seeks") {
  const std::vector<Extent> shape{60, 60, 60}, in{12, 12, 12}, out{15, 15, 15};
  const KeepPlan ample = keep(shape, in, out, 2, std::uint64_t{1} << 40);
  KeepPlan last = ample;
  int steps = 0;
  while (last.fits) {
    const KeepPlan next = keep(shape, in, out, 2, last.peak_bytes - 1);
    if (!next.fits) break;
    CHECK(next.peak_bytes < last.peak_bytes);
    CHECK(next.seeks >= last.seeks);
    last = next;
    ++steps;
  }
  CHECK(steps > 1);
  CHECK(last.seeks > ample.seeks);
  CHECK_FALSE(keep(shape, in, out, 2, 100).fits);
}

TEST_CASE("KEEP on equal shapes copies file by file") {
  const std::vector<Extent> shape{20, 20}, block{5, 10};
  const KeepPlan plan = keep(shape, block, block, 4, 200);
  CHECK(plan.fits);
  CHECK(plan.seeks == 8 + 8);
  CHECK(plan.peak_bytes == 200);
}
