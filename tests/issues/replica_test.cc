//! Upstream bugs about replicas and scattered data, replayed: dask/distributed 5265, 3641.
#include "tests/scheduler/world.h"

using namespace scheduler;

TEST_CASE("5265: two rounds of dropping cannot take the last replica", "[issues][replica]") {
  World w;
  const WorkerId alice = w.worker(), bob = w.worker();
  w.scatter("x", {alice, bob});
  w.forget_sent();
  w.tick(2);
  w.tick(2);  // the worker has not answered yet
  CHECK(w.take<SendRemoveReplica>().size() == 1);
  CHECK(w.task("x").who_has.size() == 1);
  // Both asked workers' messages cross: the one that dropped says so.
  const WorkerId kept = w.task("x").who_has.front().worker;
  w.drop_key(kept == alice ? bob : alice, "x");
  CHECK(w.state("x") == TaskState::memory);
}

TEST_CASE("3641: data scattered again after a release is kept", "[issues][replica]") {
  World w;
  const WorkerId alice = w.worker();
  w.scatter("x", {alice});
  w.release({"x"});
  w.scatter("x", {alice});  // the shell keeps the client's order across its channels
  CHECK(w.state("x") == TaskState::memory);
  w.graph({{"y", {"x"}}});
  w.finish("y");
  CHECK(w.state("y") == TaskState::memory);
}

TEST_CASE("3641: a future of scattered data used by a task outlives the client's release",
          "[issues][replica]") {
  World w;
  const WorkerId alice = w.worker();
  w.scatter("x", {alice});
  w.graph({{"y", {"x"}}});
  w.release({"x"});
  CHECK(w.state("x") == TaskState::memory);
  w.finish("y");
  CHECK(w.state("y") == TaskState::memory);
  CHECK(!w.knows("x"));
}
