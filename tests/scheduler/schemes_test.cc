//! The chunk sequences of the self-scheduling schemes, against vectors worked out by hand from the
//! formulas in the literature (reference/seeds.md §3.2), and what holds for all of them.
#include "scheduler/core/schemes.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace {

using scheduler::all_chunks;
using scheduler::parse_scheme;
using scheduler::plan_chunks;
using scheduler::Scheme;
using scheduler::SchemeOptions;

constexpr Scheme kSchemes[] = {Scheme::static_chunks, Scheme::ss,   Scheme::mfsc, Scheme::gss,
                               Scheme::tss,           Scheme::fac2, Scheme::tfss, Scheme::fiss,
                               Scheme::viss,          Scheme::pls,  Scheme::pss};

//! Chunks as text, equal neighbours joined: "125x4 63x4 1".
std::string dealt(const char* name, std::uint64_t items, std::uint64_t workers,
                  SchemeOptions options = {}) {
  const auto scheme = parse_scheme(name);
  REQUIRE(scheme.has_value());
  const auto chunks = all_chunks(plan_chunks(*scheme, items, workers, options));
  std::string text;
  for (std::size_t i = 0, next; i < chunks.size(); i = next) {
    for (next = i; next < chunks.size() && chunks[next] == chunks[i];) ++next;
    text += (i == 0 ? "" : " ") + std::to_string(chunks[i]);
    if (next - i > 1) text += "x" + std::to_string(next - i);
  }
  return text;
}

}  // namespace

TEST_CASE("1000 items for 4 workers are dealt out as the literature says", "[schemes]") {
  CHECK(dealt("STATIC", 1000, 4) == "250x4");
  CHECK(dealt("SS", 1000, 4) == "1x1000");
  CHECK(dealt("MFSC", 1000, 4) == "31x32 8");
  CHECK(dealt("GSS", 1000, 4) == "250 188 141 106 79 59 45 33 25 19 14 11 8 6 4 3x2 2 1x4");
  CHECK(dealt("TSS", 1000, 4) == "125 117 109 101 93 85 77 69 61 53 45 37 28");
  CHECK(dealt("FAC2", 1000, 4) == "125x4 63x4 32x4 16x4 8x4 4x4 2x4");
  CHECK(dealt("TFSS", 1000, 4) == "113x4 81x4 49x4 17 11");
  CHECK(dealt("FISS", 1000, 4) == "27x4 29x4 31x4 33x4 35x4 37x4 39x4 41 35");
  CHECK(dealt("FISS", 1000, 4, {.batches = 3}) == "50x4 83x4 116x4 4");
  CHECK(dealt("VISS", 1000, 4) == "27x4 40x4 47x4 50x4 52x4 53x2 30");
  CHECK(dealt("PLS", 1000, 4) == "125x5 94 71 53 40 30 22 17 12 9 7 5 4 3 2x2 1x4");
  CHECK(dealt("PSS", 1000, 4) ==
        "167 139 116 97 81 67 56 47 39 32 27 22 19 16 13 11 9 7 6 5 4x2 3x2 2x2 1x6");
}

TEST_CASE("1000 items for 20 workers are dealt out as the literature says", "[schemes]") {
  CHECK(dealt("STATIC", 1000, 20) == "50x20");
  CHECK(dealt("MFSC", 1000, 20) == "9x111 1");
  CHECK(dealt("TSS", 1000, 20) == "25x40");
  CHECK(dealt("FAC2", 1000, 20) == "25x20 13x20 7x20 4x20 2x10");
  CHECK(dealt("TFSS", 1000, 20) == "25x40");
  CHECK(dealt("FISS", 1000, 20) == "7x20 8x20 9x20 10x20 11x20 12x8 4");
  CHECK(dealt("VISS", 1000, 20) == "7x20 10x20 12x20 13x32 4");
}

TEST_CASE("few items are rounded up, never truncated away", "[schemes]") {
  CHECK(dealt("STATIC", 10, 4) == "3x3 1");
  CHECK(dealt("MFSC", 10, 4) == "2x5");
  CHECK(dealt("GSS", 10, 4) == "3 2x2 1x3");
  CHECK(dealt("TSS", 10, 4) == "2x5");
  CHECK(dealt("FAC2", 10, 4) == "2x4 1x2");
  CHECK(dealt("TFSS", 10, 4) == "2x5");
  CHECK(dealt("FISS", 10, 4) == "1x4 2x3");
  CHECK(dealt("VISS", 10, 4) == "1x10");
  CHECK(dealt("PLS", 10, 4) == "2x3 1x4");
  CHECK(dealt("PSS", 10, 4) == "2x2 1x6");
}

TEST_CASE("batches of trapezoid factoring take the mean also where TSS reaches its end",
          "[schemes]") {
  CHECK(dealt("TFSS", 12345, 16) == "341x16 245x16 149x16 53x11 2");
}

TEST_CASE("all items are dealt out, whatever the scheme, the workers and the grain", "[schemes]") {
  for (Scheme scheme : kSchemes) {
    for (std::uint64_t items : {0, 1, 2, 3, 7, 10, 64, 1000, 4097}) {
      for (std::uint64_t workers : {0, 1, 2, 3, 7, 20, 5000}) {
        for (std::uint64_t grain : {0, 1, 5, 10'000}) {
          const auto chunks = all_chunks(plan_chunks(scheme, items, workers, {.grain = grain}));
          CAPTURE(scheme_name(scheme), items, workers, grain);
          REQUIRE(std::accumulate(chunks.begin(), chunks.end(), std::uint64_t{0}) == items);
          REQUIRE(std::find(chunks.begin(), chunks.end(), 0) == chunks.end());
          if (!chunks.empty()) {
            REQUIRE(std::all_of(chunks.begin(), chunks.end() - 1,
                                [&](std::uint64_t chunk) { return chunk >= grain; }));
          }
        }
      }
    }
  }
}

TEST_CASE("a chunk never exceeds what is left, also far beyond the last step", "[schemes]") {
  for (Scheme scheme : kSchemes) {
    const auto plan = plan_chunks(scheme, 1'000'000, 3);
    for (std::uint64_t step : {0ULL, 1ULL, 100ULL, 1'000'000ULL, 1ULL << 40}) {
      CAPTURE(scheme_name(scheme), step);
      CHECK(chunk_size(plan, step, 0) == 0);
      CHECK(chunk_size(plan, step, 1) == 1);
      CHECK(chunk_size(plan, step, 1'000'000) >= 1);
    }
  }
}

TEST_CASE("options out of range are taken for the nearest sound value", "[schemes]") {
  CHECK(dealt("FISS", 100, 2, {.batches = 1}) == dealt("FISS", 100, 2, {.batches = 2}));
  CHECK(dealt("PLS", 100, 4, {.static_share = 7}) == "25x4");
  CHECK(dealt("PLS", 100, 4, {.static_share = -1}) == dealt("GSS", 100, 4));
  CHECK(dealt("PSS", 90, 4, {.idle = 0.0}) == dealt("PSS", 90, 4, {.idle = 1.0}));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(dealt("PSS", 90, 4, {.idle = nan}) == dealt("PSS", 90, 4, {.idle = 1.0}));
  CHECK(dealt("PLS", 90, 4, {.static_share = nan}) == dealt("GSS", 90, 4));
}

TEST_CASE("what is dealt out as planned follows the scheme, and else begins anew", "[schemes]") {
  const auto dealt_in_turn = [](Scheme scheme, std::uint64_t items) {
    scheduler::Dealing dealing;
    std::vector<std::uint64_t> found;
    while (items > 0) {
      found.push_back(next_chunk(dealing, scheme, items, 4));
      items -= found.back();
    }
    return found;
  };
  for (Scheme scheme : kSchemes) {
    CAPTURE(scheme_name(scheme));
    CHECK(dealt_in_turn(scheme, 1000) == all_chunks(plan_chunks(scheme, 1000, 4)));
  }
  scheduler::Dealing dealing;
  CHECK(next_chunk(dealing, Scheme::fac2, 1000, 4) == 125);
  CHECK(next_chunk(dealing, Scheme::fac2, 990, 4) == 124);  // 115 of the last chunk were left
  CHECK(next_chunk(dealing, Scheme::fac2, 866, 4) == 124);
  CHECK(next_chunk(dealing, Scheme::fac2, 742, 2) == 186);  // two workers left
  CHECK(next_chunk(dealing, Scheme::ss, 556, 2) == 1);
  CHECK(next_chunk(dealing, Scheme::static_chunks, 555, 0) == 555);
  CHECK(next_chunk(dealing, Scheme::static_chunks, 0, 0) == 0);
}

TEST_CASE("schemes are named as in the literature", "[schemes]") {
  for (Scheme scheme : kSchemes) CHECK(parse_scheme(scheme_name(scheme)) == scheme);
  CHECK_FALSE(parse_scheme("gss").has_value());
  CHECK_FALSE(parse_scheme("").has_value());
}
