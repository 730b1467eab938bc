//! Prefetch: rask workers hold a little more than they run, stock workers never do.
#include "tests/scheduler/world.h"

using namespace scheduler;

namespace {

Config short_tasks() {
  Config config;
  config.default_task_durations = {{"inc", 0.0001}};
  return config;
}

WorkerOptions rask_worker() {
  WorkerOptions options;
  options.rask = true;
  return options;
}

}  // namespace

TEST_CASE("a rask worker is given 2 ms of short tasks ahead", "[scheduler][prefetch]") {
  World w(short_tasks());
  const WorkerId bob = w.worker(rask_worker());
  w.map("inc", 100);
  CHECK(w.processing_count(bob) == 20);
  CHECK(w.took<SendCompute>() == 20);
  w.forget_sent();

  // The first one took much longer than expected: nothing more is given ahead.
  w.finish("inc-0");
  CHECK(w.took<ReportInMemory>() == 1);
  CHECK(w.nothing_else_sent());
}

TEST_CASE("a stock worker is given what stock gives it", "[scheduler][prefetch]") {
  World w(short_tasks());
  const WorkerId alice = w.worker();
  w.map("inc", 100);
  CHECK(w.processing_count(alice) == 2);
}

TEST_CASE("tasks of unknown duration are not prefetched", "[scheduler][prefetch]") {
  World w;
  const WorkerId bob = w.worker(rask_worker());
  w.map("slow", 100);
  CHECK(w.processing_count(bob) == 2);
}

TEST_CASE("prefetch can be turned off", "[scheduler][prefetch]") {
  Config config = short_tasks();
  config.prefetch = Duration();
  World w(config);
  const WorkerId bob = w.worker(rask_worker());
  w.map("inc", 100);
  CHECK(w.processing_count(bob) == 2);
}
