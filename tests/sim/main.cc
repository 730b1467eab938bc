//! sim: runs seeds of the simulated cluster.
//!
//!   sim --seed 42            one seed, with everything that happens
//!   sim --seeds 0..500       many, quietly; each one twice, to prove that it is deterministic
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/sim/cluster.h"

namespace {

struct Totals {
  std::uint64_t events = 0, held = 0, chained = 0;
  std::uint64_t delays = 0;  //!< tasks that had to wait for memory
};

bool run_seed(std::uint64_t seed, bool verbose, Totals& totals) {
  sim::Cluster cluster(seed, verbose);
  std::string failure = cluster.run();
  totals.events += cluster.events();
  totals.held += cluster.held();
  totals.chained += cluster.chained();
  totals.delays += cluster.delays();
  if (failure.empty() && !verbose) {
    sim::Cluster again(seed, false);
    again.run();
    if (again.hash() != cluster.hash()) failure = "the same seed gave other actions";
  }
  if (failure.empty()) return true;
  std::printf("seed %llu: %s\n  sim --seed %llu\n", static_cast<unsigned long long>(seed),
              failure.c_str(), static_cast<unsigned long long>(seed));
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t first = 0, last = 500;
  Totals totals;
  bool verbose = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--seed") == 0) {
      first = std::strtoull(argv[i + 1], nullptr, 10);
      last = first + 1;
      verbose = true;
    } else if (std::strcmp(argv[i], "--seeds") == 0) {
      first = std::strtoull(argv[i + 1], nullptr, 10);
      const char* dots = std::strstr(argv[i + 1], "..");
      last = dots != nullptr ? std::strtoull(dots + 2, nullptr, 10) : first + 1;
    }
  }
  const auto start = std::chrono::steady_clock::now();
  int failed = 0;
  for (std::uint64_t seed = first; seed < last; ++seed) failed += !run_seed(seed, verbose, totals);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("%llu seeds, %d failed, %llu events, %llu tasks held ahead, %llu chained, "
              "%llu waits for memory, %.1f s\n",
              static_cast<unsigned long long>(last - first), failed,
              static_cast<unsigned long long>(totals.events),
              static_cast<unsigned long long>(totals.held),
              static_cast<unsigned long long>(totals.chained),
              static_cast<unsigned long long>(totals.delays), took.count());
  return failed == 0 ? 0 : 1;
}
