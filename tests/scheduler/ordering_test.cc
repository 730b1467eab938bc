//! Rules of scheduler/frontend/ordering: bad arrays are refused, cycles named, sequences valid.
//! How good the sequences are is judged beside dask.order in pytests/test_ordering.py.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/base/rng.h"
#include "scheduler/frontend/ordering/leaves.h"
#include "scheduler/frontend/ordering/order.h"
#include "scheduler/frontend/ordering/pressure.h"

namespace {

using scheduler::ordering::Graph;
using scheduler::ordering::GraphView;
using scheduler::ordering::Node;
using scheduler::ordering::order;
using scheduler::ordering::Ordering;
using Rows = std::vector<std::vector<std::uint32_t>>;

struct Arrays {
  std::vector<std::uint32_t> offsets{0}, dependencies;
  explicit Arrays(const Rows& rows) {
    for (const auto& row : rows) {
      dependencies.insert(dependencies.end(), row.begin(), row.end());
      offsets.push_back(static_cast<std::uint32_t>(dependencies.size()));
    }
  }
  GraphView view() const { return {offsets, dependencies, {}}; }
};

Ordering ordered(const Rows& rows) {
  auto result = order(Arrays(rows).view());
  REQUIRE(result.ok());
  return *result;
}

bool is_valid(const Rows& rows, const Ordering& ordering) {
  std::vector<bool> seen(rows.size(), false);
  if (ordering.priorities.size() != rows.size()) return false;
  for (std::size_t t = 0; t < rows.size(); ++t) {
    const auto place = ordering.priorities[t];
    if (place < 0 || place >= static_cast<std::int64_t>(rows.size())) return false;
    if (seen[static_cast<std::size_t>(place)]) return false;
    seen[static_cast<std::size_t>(place)] = true;
    for (auto d : rows[t]) {
      if (d < rows.size() && ordering.priorities[d] >= place) return false;
    }
  }
  return true;
}

Rows random_rows(protocol::Rng& rng, std::uint32_t n) {
  Rows rows(n);
  for (std::uint32_t t = 1; t < n; ++t) {
    for (std::uint64_t k = rng.below(4); k > 0; --k)
      rows[t].push_back(static_cast<std::uint32_t>(rng.below(t)));
  }
  return rows;
}

//! Task numbers by place.
std::vector<Node> sequence_of(const Rows& rows) {
  const Ordering ordering = ordered(rows);
  std::vector<Node> sequence(rows.size());
  for (Node t = 0; t < rows.size(); ++t)
    sequence[static_cast<std::size_t>(ordering.priorities[t])] = t;
  return sequence;
}

Graph graph_of(const Rows& rows) {
  auto graph = Graph::build(Arrays(rows).view());
  REQUIRE(graph.ok());
  return *graph;
}

std::uint32_t peak(const Rows& rows, std::uint32_t executors = 1) {
  return scheduler::ordering::rehearse(graph_of(rows), sequence_of(rows), executors);
}

//! `width` inputs cut into `width` pieces each, piece j of all inputs joined to output j.
Rows all_to_all(std::uint32_t width) {
  Rows rows(width);
  for (std::uint32_t i = 0; i < width; ++i) rows.insert(rows.end(), width, {i});
  for (std::uint32_t j = 0; j < width; ++j) {
    std::vector<std::uint32_t> pieces;
    for (std::uint32_t i = 0; i < width; ++i) pieces.push_back(width + i * width + j);
    rows.push_back(pieces);
  }
  return rows;
}

//! A square of loads; every output needs the load at its place and those around it.
Rows nine_point_stencil(std::uint32_t side) {
  Rows rows(side * side);
  for (std::uint32_t i = 0; i < side * side; ++i) {
    const std::uint32_t row = i / side, column = i % side;
    std::vector<std::uint32_t> around;
    for (std::uint32_t j = 0; j < side * side; ++j) {
      if (j / side + 1 >= row && j / side <= row + 1 && j % side + 1 >= column &&
          j % side <= column + 1)
        around.push_back(j);
    }
    rows.push_back(around);
  }
  return rows;
}

//! The same graph with its tasks numbered at random.
Rows renumbered(const Rows& rows, protocol::Rng& rng) {
  std::vector<std::uint32_t> number(rows.size());
  for (std::uint32_t t = 0; t < rows.size(); ++t) {
    const auto other = static_cast<std::uint32_t>(rng.below(t + 1));
    number[t] = number[other];
    number[other] = t;
  }
  Rows out(rows.size());
  for (std::size_t t = 0; t < rows.size(); ++t) {
    for (std::uint32_t d : rows[t]) out[number[t]].push_back(number[d]);
  }
  return out;
}

}  // namespace

TEST_CASE("an empty graph has an empty order", "[ordering]") {
  CHECK(ordered({}).priorities.empty());
}

TEST_CASE("every order is a permutation in which dependencies come first", "[ordering]") {
  protocol::Rng rng(1);
  for (int round = 0; round < 2000; ++round) {
    const Rows rows = random_rows(rng, 1 + static_cast<std::uint32_t>(rng.below(40)));
    CAPTURE(round);
    REQUIRE(is_valid(rows, ordered(rows)));
  }
}

TEST_CASE("a dependency named twice and keys outside the graph do no harm", "[ordering]") {
  const Rows rows{{}, {0, 0, 7}, {1, 0, 1, 9}};
  CHECK(is_valid(rows, ordered(rows)));
}

TEST_CASE("a cycle is reported as a walk along dependencies that ends where it began",
          "[ordering]") {
  CHECK(ordered({{2}, {0}, {1}}).cycle == std::vector<Node>{0, 2, 1, 0});
  CHECK(ordered({{0}}).cycle == std::vector<Node>{0, 0});
  const Ordering mixed = ordered({{}, {0, 3}, {1}, {2}, {3}});
  CHECK(mixed.cycle == std::vector<Node>{1, 3, 2, 1});
  CHECK(mixed.priorities.empty());
}

TEST_CASE("arrays that are no graph are refused with a reason", "[ordering]") {
  const std::vector<std::uint32_t> none, falls{0, 2, 1}, short_end{0, 1}, two{0, 0};
  const std::vector<std::uint8_t> kinds{0};
  CHECK_FALSE(order({none, none, {}}).ok());
  CHECK_FALSE(order({falls, std::vector<std::uint32_t>{0}, {}}).ok());
  CHECK_FALSE(order({short_end, none, {}}).ok());
  CHECK_FALSE(order({std::vector<std::uint32_t>{0, 0, 0}, none, kinds}).ok());
  CHECK_FALSE(order({std::vector<std::uint32_t>{1, 1}, two, {}}).ok());
}

TEST_CASE("the same graph always gets the same order", "[ordering]") {
  protocol::Rng rng(2);
  const Rows rows = random_rows(rng, 3000);
  CHECK(ordered(rows).priorities == ordered(rows).priorities);
}

TEST_CASE("a chain is finished before the next one is started", "[ordering]") {
  CHECK(sequence_of({{}, {}, {0}, {1}, {2}, {3}}) == std::vector<Node>{0, 2, 4, 1, 3, 5});
}

TEST_CASE("the heaviest input of a join comes first", "[ordering]") {
  //  4 needs 0 and 3; 3 needs 1 and 2
  CHECK(sequence_of({{}, {}, {}, {1, 2}, {0, 3}}) == std::vector<Node>{1, 2, 3, 0, 4});
}

TEST_CASE("what frees its inputs runs before new data is loaded", "[ordering]") {
  // x + x.T: 4 and 5 need 0 and 1; 6 and 7 need 2 and 3; 8 joins the first of each pair, 9 the
  // second.
  const Rows rows{{}, {}, {}, {}, {0, 1}, {1, 0}, {2, 3}, {3, 2}, {4, 6}, {5, 7}};
  CHECK(sequence_of(rows) == std::vector<Node>{0, 1, 4, 5, 2, 3, 6, 8, 7, 9});
}

TEST_CASE("a leaf that shares inputs with the last one follows it", "[ordering]") {
  // Leaves 6, 8 and 7, 9 share inputs; numbers alone would interleave them.
  const Rows rows{{}, {}, {}, {}, {}, {}, {0, 1}, {3, 4}, {1, 2}, {4, 5}};
  const auto sequence = sequence_of(rows);
  const std::vector<Node> first(sequence.begin(), sequence.begin() + 5);
  CHECK(first == std::vector<Node>{0, 1, 6, 2, 8});
}

TEST_CASE("parameters and values do not count as loads", "[ordering]") {
  // 0 is a store on which all loads hang: the second pair is not loaded before the first is joined.
  const Rows rows{{}, {0}, {0}, {0}, {0}, {1, 2}, {3, 4}, {5, 6}};
  CHECK(sequence_of(rows) == std::vector<Node>{0, 1, 2, 5, 3, 4, 6, 7});
}

TEST_CASE("pieces exist only while their output needs them", "[ordering]") {
  CHECK(peak(all_to_all(16)) <= 2 * 16 + 1);
}

TEST_CASE("a tree holds one result per level", "[ordering]") {
  Rows rows(1024);
  for (std::uint32_t first = 0, n = 1024; n > 1; first += n, n /= 2) {
    for (std::uint32_t i = 0; i < n; i += 2) rows.push_back({first + i, first + i + 1});
  }
  CHECK(peak(rows) <= 12);
}

TEST_CASE("a paper run counts results beside their inputs and forgets leaves", "[ordering]") {
  const Rows rows{{}, {0}, {1}};
  const std::vector<Node> sequence{0, 1, 2};
  CHECK(scheduler::ordering::rehearse(graph_of(rows), sequence, 1) == 2);
  const Rows flat{{}, {}, {}, {}};
  const std::vector<Node> all{3, 2, 1, 0};
  CHECK(scheduler::ordering::rehearse(graph_of(flat), all, 2) == 0);
}

TEST_CASE("leaves that need the same roots are one class", "[ordering]") {
  const Graph graph = graph_of(all_to_all(8));
  const auto classes =
      scheduler::ordering::classify(graph, scheduler::ordering::topological(graph));
  CHECK(classes.size() == 1);
  CHECK(classes.roots == std::vector<std::uint32_t>{8});
}

TEST_CASE("nearness visits every leaf once, neighbours together", "[ordering]") {
  const Graph graph = graph_of({{}, {}, {0}, {1}, {0}, {1}});
  const std::vector<Node> leaves{2, 3, 4, 5};
  CHECK(scheduler::ordering::by_nearness(graph, leaves) == std::vector<Node>{2, 4, 3, 5});
}

TEST_CASE("depth costs no stack", "[ordering]") {
  Rows rows(1);
  for (std::uint32_t t = 1; t < 300'000; ++t) rows.push_back({t - 1});
  CHECK(is_valid(rows, ordered(rows)));
}

TEST_CASE("steps grow with the graph, not with its square", "[ordering]") {
  protocol::Rng rng(3);
  const auto steps = [&](std::uint32_t n) {
    return static_cast<double>(ordered(random_rows(rng, n)).operations) / n;
  };
  CHECK(steps(80'000) <= 1.5 * steps(10'000));
}

TEST_CASE("a stencil is swept line by line however its tasks are numbered", "[ordering]") {
  constexpr std::uint32_t kSide = 12;
  protocol::Rng rng(3);
  for (int round = 0; round < 50; ++round) {
    CAPTURE(round);
    CHECK(peak(renumbered(nine_point_stencil(kSide), rng)) <= 2 * kSide + 3);
  }
}
