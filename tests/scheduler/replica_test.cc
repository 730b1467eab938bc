//! Replicas: reduced when superfluous, copied when asked for, never lost by design.
#include "tests/scheduler/world.h"

using namespace scheduler;

TEST_CASE("superfluous replicas are dropped, where memory is used most", "[scheduler][replica]") {
  World w;
  const WorkerId alice = w.worker(), bob = w.worker(), carol = w.worker();
  w.scatter("x", {alice, bob, carol}, 100);
  w.step(WorkerHeartbeat{bob, 5000, 0, 0, 0, {}});
  w.pass(60);
  w.step(WorkerHeartbeat{bob, 5000, 0, 0, 0, {}});
  w.forget_sent();
  w.tick(2);
  CHECK(w.task("x").who_has.size() == 1);
  CHECK(!w.task("x").on(bob));
  CHECK(w.took<SendRemoveReplica>() == 2);
  CHECK(w.nothing_else_sent());
}

TEST_CASE("a replica beside a task that will use it is kept", "[scheduler][replica]") {
  World w;
  const WorkerId alice = w.worker({.name = "alice"}), bob = w.worker({.name = "bob"});
  w.scatter("x", {alice, bob}, 100);
  Annotations at_alice, at_bob;
  at_alice.workers = {protocol::string_key("alice")};
  at_bob.workers = {protocol::string_key("bob")};
  w.submit("p", {"x"}, at_alice);
  w.submit("q", {"x"}, at_bob);
  w.forget_sent();
  w.tick(2);
  CHECK(w.task("x").who_has.size() == 2);
  w.finish("q");
  w.tick(2);
  CHECK(w.task("x").on(alice));
  CHECK(w.task("x").who_has.size() == 1);
}

TEST_CASE("a worker that keeps a dropped replica says so and is counted again", "[scheduler][replica]") {
  World w;
  const WorkerId alice = w.worker(), bob = w.worker();
  w.scatter("x", {alice, bob});
  w.tick(2);
  const SendRemoveReplica drop = w.take<SendRemoveReplica>().at(0);
  w.add_keys(drop.worker, {"x"});
  CHECK(w.task("x").who_has.size() == 2);
}

TEST_CASE("a copy is asked of a worker that has none, and counted when it says so", "[scheduler][replica]") {
  World w;
  const WorkerId alice = w.worker(), bob = w.worker();
  w.scatter("x", {alice});
  w.forget_sent();
  const Key name = protocol::string_key("x"), unknown = protocol::string_key("u");
  const std::vector<KeyView> keys{name, unknown};
  w.step(ReplicasWanted{alice, keys});
  w.step(ReplicasWanted{bob, keys});
  CHECK(w.sent() == Actions{SendAcquireReplica{bob, w.id("x")}});
  CHECK(w.task("x").who_has.size() == 1);
  w.add_keys(bob, {"x"});
  CHECK(w.task("x").who_has.size() == 2);
}

TEST_CASE("the last replica is never dropped on request", "[scheduler][replica]") {
  World w;
  const WorkerId alice = w.worker(), bob = w.worker();
  w.scatter("x", {alice, bob});
  const Key name = protocol::string_key("x");
  const KeyView key = name;
  w.forget_sent();
  w.step(ReplicasUnwanted{alice, {&key, 1}});
  w.step(ReplicasUnwanted{bob, {&key, 1}});
  CHECK(w.took<SendRemoveReplica>() == 1);
  CHECK(w.task("x").on(bob));
}

TEST_CASE("has_what can be read in the order of arrival", "[scheduler][replica]") {
  World w;
  const WorkerId alice = w.worker();
  for (const char* key : {"a", "b", "c", "d"}) w.scatter(key, {alice});
  w.release({"b"});
  w.scatter("e", {alice});
  CHECK(w.inner().has_what_in_order(alice) ==
        std::vector{w.id("a"), w.id("c"), w.id("d"), w.id("e")});
}
