//! The planner of clustered I/O: vectors worked out by hand or recorded in the literature
//! (reference/seeds.md §2.3, §2.4), and what holds for every grid.
#include "scheduler/frontend/io/plan.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "scheduler/frontend/io/seeks.h"

namespace {

using scheduler::io::Axis;
using scheduler::io::BlockId;
using scheduler::io::Box;
using scheduler::io::box_of;
using scheduler::io::Buffer;
using scheduler::io::chunks_touched;
using scheduler::io::cluster;
using scheduler::io::even_axis;
using scheduler::io::Extent;
using scheduler::io::Grid;
using scheduler::io::Interval;
using scheduler::io::Order;
using scheduler::io::Plan;
using scheduler::io::Regime;
using scheduler::io::seeks_of;
using scheduler::io::segments;
using scheduler::io::shape_of;
using scheduler::io::tile;

Grid grid_of(std::vector<Axis> axes, std::uint64_t itemsize = 1, Order order = Order::c) {
  auto grid = Grid::make(std::move(axes), itemsize, order);
  REQUIRE(grid.ok());
  return *grid;
}

//! A grid of blocks of one element.
Grid unit_grid(std::vector<Extent> counts) {
  std::vector<Axis> axes;
  for (const Extent count : counts) axes.push_back(even_axis(count, 1));
  return grid_of(std::move(axes));
}

std::vector<BlockId> all(const Grid& grid) {
  std::vector<BlockId> ids(grid.blocks());
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

//! Sizes of buffers as text, equal neighbours joined: "3 2 x25".
std::string sizes(const Plan& plan) {
  std::string text;
  for (std::size_t i = 0, next; i < plan.buffers.size(); i = next) {
    const std::size_t count = plan.buffers[i].count;
    for (next = i; next < plan.buffers.size() && plan.buffers[next].count == count;) ++next;
    text += (i == 0 ? "" : " ") + std::to_string(count);
    if (next - i > 1) text += "x" + std::to_string(next - i);
  }
  return text;
}

std::string clustered(const Grid& grid, std::uint64_t bound, std::vector<BlockId> used) {
  const auto plan = cluster(grid, std::move(used), bound);
  REQUIRE(plan.ok());
  return sizes(*plan);
}

std::string repeated(const std::string& text, int times) {
  std::string whole = text;
  for (int i = 1; i < times; ++i) whole += " " + text;
  return whole;
}

std::uint64_t volume(const Box& box) {
  std::uint64_t v = 1;
  for (const Interval& side : box) v *= side.length();
  return v;
}

//! Checks what holds for every plan; `used` ascending.
void check(const Grid& grid, const std::vector<BlockId>& used, std::uint64_t bound,
           const Plan& plan) {
  std::vector<BlockId> seen = plan.blocks;
  std::sort(seen.begin(), seen.end());
  REQUIRE(seen == used);
  std::size_t next = 0;
  for (const Buffer& buffer : plan.buffers) {
    REQUIRE(buffer.first == next);
    REQUIRE(buffer.count > 0);
    next += buffer.count;
    std::uint64_t bytes = 0;
    for (const BlockId id : plan.of(buffer)) bytes += grid.bytes(id);
    REQUIRE(bytes == buffer.bytes);
    REQUIRE((bytes <= bound || buffer.count == 1));
    // Nothing is read that nobody needs.
    REQUIRE(volume(box_of(grid, plan.of(buffer))) * grid.itemsize() == bytes);
  }
  REQUIRE(next == used.size());
}

//! An axis of random intervals, with gaps now and then.
Axis random_axis(std::mt19937_64& random) {
  Axis axis;
  const std::size_t count = 1 + random() % 5;
  const bool even = random() % 2 == 0;
  const Extent block = 1 + random() % 4;
  Extent at = random() % 6 == 0 ? 1 + random() % 3 : 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0 && random() % 12 == 0) at += 1 + random() % 3;
    const Extent length = even ? block : 1 + random() % 4;
    axis.blocks.push_back({at, at + length});
    at += length;
  }
  axis.extent = at + (random() % 6 == 0 ? 1 + random() % 3 : 0);
  return axis;
}

std::vector<BlockId> random_blocks(std::mt19937_64& random, const Grid& grid) {
  const std::uint64_t density = random() % 5;  // 0: all
  std::vector<BlockId> used;
  for (BlockId id = 0; id < grid.blocks(); ++id) {
    if (density == 0 || random() % 5 >= density) used.push_back(id);
  }
  return used;
}

}  // namespace

TEST_CASE("A 5x5x5 grid is cut into runs, rows, slices and the whole as the bound grows") {
  const Grid grid = unit_grid({5, 5, 5});
  CHECK(clustered(grid, 1, all(grid)) == "1x125");
  CHECK(clustered(grid, 3, all(grid)) == repeated("3 2", 25));
  CHECK(clustered(grid, 5, all(grid)) == "5x25");
  CHECK(clustered(grid, 10, all(grid)) == repeated("10x2 5", 5));
  CHECK(clustered(grid, 25, all(grid)) == "25x5");
  CHECK(clustered(grid, 75, all(grid)) == "75 50");
  CHECK(clustered(grid, 125, all(grid)) == "125");
}

TEST_CASE("Slabs are a grid whose rows hold one block") {
  const Grid grid = unit_grid({20, 1, 1});
  CHECK(clustered(grid, 7, all(grid)) == "7x2 6");
}

TEST_CASE("A gap after block 0 ends its buffer") {
  CHECK(clustered(unit_grid({4}), 4, {0, 3}) == "1x2");
}

TEST_CASE("Rows with an unused row between them are not joined") {
  const Grid grid = unit_grid({1, 3, 2});
  CHECK(clustered(grid, 6, {0, 1, 4, 5}) == "2x2");
}

TEST_CASE("An incomplete row is not joined to whole ones") {
  const Grid grid = unit_grid({2, 3, 3});
  CHECK(clustered(grid, 18, {0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11}) == "3 2 3x2");
}

TEST_CASE("A block larger than the bound stays alone") {
  const Grid grid = grid_of({even_axis(10, 5), even_axis(10, 5)}, 8);
  CHECK(clustered(grid, 100, all(grid)) == "1x4");
  CHECK(clustered(grid, 0, all(grid)) == "1x4");
}

TEST_CASE("Uneven last blocks count with their own bytes") {
  const Grid grid = grid_of({even_axis(7, 3)}, 2);  // 6, 6 and 2 bytes
  CHECK(clustered(grid, 8, all(grid)) == "1 2");
  CHECK(clustered(grid, 12, all(grid)) == "2 1");
  CHECK(clustered(grid, 14, all(grid)) == "3");
}

TEST_CASE("Fortran order is the same with the axes reversed") {
  const Grid c = grid_of({even_axis(4, 2), even_axis(9, 3)});
  const Grid f = grid_of({even_axis(9, 3), even_axis(4, 2)}, 1, Order::fortran);
  CHECK(clustered(c, 18, all(c)) == clustered(f, 18, all(f)));
  CHECK(c.bytes(4) == f.bytes(4));
}

TEST_CASE("A part of each row that is not the whole row is joined within rows only") {
  Axis part{10, {{2, 4}, {4, 8}}};
  const Grid grid = grid_of({even_axis(6, 2), part});
  CHECK(clustered(grid, 1000, all(grid)) == "2x3");
}

TEST_CASE("The regime of a bound is blocks, rows or slices") {
  const Grid grid = unit_grid({5, 5, 5});
  CHECK(scheduler::io::regime(grid, 4) == Regime::blocks);
  CHECK(scheduler::io::regime(grid, 5) == Regime::rows);
  CHECK(scheduler::io::regime(grid, 24) == Regime::rows);
  CHECK(scheduler::io::regime(grid, 25) == Regime::slices);
}

TEST_CASE("Blocks outside the grid or named twice are refused, as are impossible grids") {
  const Grid grid = unit_grid({2, 2});
  CHECK_FALSE(cluster(grid, {4}, 1).ok());
  CHECK_FALSE(cluster(grid, {1, 1}, 1).ok());
  const auto made = [](std::vector<Axis> axes, std::uint64_t itemsize = 1) {
    return Grid::make(std::move(axes), itemsize, Order::c).ok();
  };
  CHECK_FALSE(made({Axis{4, {{0, 2}, {1, 3}}}}));
  CHECK_FALSE(made({Axis{4, {{0, 5}}}}));
  CHECK_FALSE(made({Axis{4, {{2, 2}}}}));
  CHECK_FALSE(made({Axis{0, {}}}));
  CHECK_FALSE(made({even_axis(4, 2)}, 0));
  const Extent huge = Extent{1} << 40;
  CHECK_FALSE(made({Axis{huge, {{0, huge}}}, Axis{huge, {{0, huge}}}}));
}

TEST_CASE("Segments of a box are the product of its sides before the innermost cut") {
  const std::vector<Extent> shape{10, 20, 30};
  const auto of = [&](Interval a, Interval b, Interval c) { return segments({a, b, c}, shape); };
  CHECK(of({0, 10}, {0, 20}, {0, 30}) == 1);
  CHECK(of({2, 4}, {0, 20}, {0, 30}) == 1);
  CHECK(of({2, 4}, {0, 5}, {0, 30}) == 2);
  CHECK(of({2, 4}, {0, 5}, {3, 9}) == 10);
  CHECK(of({2, 4}, {0, 20}, {3, 9}) == 40);
}

TEST_CASE("Plans of 6000 random grids partition the blocks into boxes within the bound") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 6000; ++round) {
    std::vector<Axis> axes(1 + random() % 4);
    for (Axis& axis : axes) axis = random_axis(random);
    const Grid grid = grid_of(axes, 1 + random() % 3, random() % 2 ? Order::c : Order::fortran);
    const std::vector<BlockId> used = random_blocks(random, grid);
    const std::uint64_t bound = random() % 300;
    INFO("round " << round);
    auto shuffled = used;
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    const auto plan = cluster(grid, shuffled, bound);
    REQUIRE(plan.ok());
    check(grid, used, bound, *plan);
    const auto naive = cluster(grid, used, 0);
    REQUIRE(seeks_of(grid, *plan) <= seeks_of(grid, *naive));

    std::vector<Extent> chunk;
    for (std::size_t d = 0; d < axes.size(); ++d) chunk.push_back(1 + random() % 6);
    const auto tiles = tile(grid, shuffled, bound, chunk);
    REQUIRE(tiles.ok());
    check(grid, used, bound, *tiles);
    REQUIRE(seeks_of(grid, *tiles, chunk) <= seeks_of(grid, *naive, chunk));
  }
}

TEST_CASE("A million blocks are planned at once; bench/io says how long it takes") {
  const Grid grid = grid_of({even_axis(200, 2), even_axis(200, 2), even_axis(200, 2)});
  REQUIRE(grid.blocks() == 1'000'000);
  for (const std::uint64_t blocks : {1, 30, 100, 250, 10'000}) {
    const std::uint64_t bound = blocks * 8;
    const auto plan = cluster(grid, all(grid), bound);
    REQUIRE(plan.ok());
    std::uint64_t largest = 0;
    for (const Buffer& buffer : plan->buffers) largest = std::max(largest, buffer.bytes);
    CHECK(largest <= bound);
    // Runs of 30, 30, 30 and 10 in each row; then rows; then two rows at a time; then slices.
    const std::uint64_t expected = blocks == 1     ? 1'000'000
                                   : blocks == 30  ? 40'000
                                   : blocks == 100 ? 10'000
                                   : blocks == 250 ? 5'000
                                                   : 100;
    CHECK(plan->buffers.size() == expected);
  }
}

TEST_CASE("Blocks that share chunks come together, and each chunk is read once") {
  const Grid grid = grid_of({even_axis(20, 5), even_axis(20, 10)});
  const std::vector<Extent> chunk{10, 10};
  const auto plan = tile(grid, all(grid), 100, chunk);
  REQUIRE(plan.ok());
  CHECK(sizes(*plan) == "2x4");
  CHECK(seeks_of(grid, *plan, chunk) == 4);
  CHECK(seeks_of(grid, *tile(grid, all(grid), 99, chunk), chunk) == 8);
  CHECK(sizes(*tile(grid, {0, 1, 3, 5, 7}, 100, chunk)) == "1 2x2");
}
