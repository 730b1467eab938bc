//! Upstream bugs about queued tasks, replayed: dask/distributed 7348, 8702, 7223.
#include "tests/scheduler/world.h"

using namespace scheduler;

TEST_CASE("7348: a queued task receives the finish of an old run", "[issues][queueing]") {
  World w;
  const WorkerId alice = w.worker();
  w.map("inc", 10);
  const RunId old = w.run_of("inc-0");
  const WorkerId bob = w.worker();
  w.lose(alice);
  // inc-0 may be back in the queue or on bob; whichever waits gets alice's late answer by proxy.
  REQUIRE(w.state("inc-9") == TaskState::queued);
  w.forget_sent();
  w.finish("inc-9", bob, old);
  CHECK(w.state("inc-9") == TaskState::queued);
  CHECK(w.sent() == Actions{SendFree{bob, w.id("inc-9")}});
}

TEST_CASE("8702: the input of a queued task is lost", "[issues][queueing]") {
  World w;
  const WorkerId alice = w.worker({.threads = 1});
  w.scatter("x", {alice});
  w.release({});
  std::vector<Node> nodes;
  w.submit("root");
  w.finish("root");
  for (int i = 0; i < 10; ++i) nodes.push_back({"t-" + std::to_string(i), {"root"}});
  w.graph(nodes);
  REQUIRE(w.state("t-9") == TaskState::queued);
  w.drop_key(alice, "root");  // the worker lost it
  CHECK(w.state("root") == TaskState::processing);
  CHECK(w.state("t-9") == TaskState::waiting);
  CHECK(w.inner().queue.empty());
  w.finish("root");
  CHECK(w.state("t-9") == TaskState::queued);
}

TEST_CASE("7223: a task that secedes makes room for a queued one", "[issues][queueing]") {
  World w;
  const WorkerId alice = w.worker();
  w.map("inc", 10);
  w.forget_sent();
  const Key key = protocol::string_key("inc-0");
  w.step(TaskSeceded{alice, key, w.run_of("inc-0"), -1});
  CHECK(w.sent() == Actions{SendCompute{alice, w.id("inc-2"), w.run_of("inc-2")}});
}
