//! Rules of scheduler/frontend/ordering: bad arrays are refused, cycles named, sequences valid.
//! How good the sequences are is judged beside dask.order in pytests/test_ordering.py.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/base/rng.h"
#include "scheduler/frontend/ordering/order.h"

namespace {

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

TEST_CASE("a cycle is reported as a walk along dependencies that ends where it began", "[ordering]") {
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
