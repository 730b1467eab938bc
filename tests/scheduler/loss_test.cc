//! Workers that vanish: fault rows W1 W2 W3 W9 W15 of reliability.md.
#include "tests/scheduler/world.h"

using namespace scheduler;

TEST_CASE("W1: what a lost worker computed begins again elsewhere under a new run", "[scheduler][loss]") {
  World w;
  const WorkerId alice = w.worker();
  const WorkerId bob = w.worker();
  const TaskId x = w.submit("x");
  REQUIRE(w.processing_on("x") == alice);
  w.forget_sent();
  w.lose(alice);
  CHECK(w.sent() == Actions{AnnounceWorkerGone{alice}, SendCompute{bob, x, RunId(1)}});
  CHECK(w.task("x").suspicious() == 1);
  CHECK(w.nothing_else_sent());
}

TEST_CASE("W2: the only replica is lost; just the needed ancestors run again", "[scheduler][loss]") {
  World w;
  const WorkerId alice = w.worker();
  w.graph({{"a"}, {"b", {"a"}}, {"c", {"b"}}});
  w.finish("a");
  w.finish("b");
  w.finish("c");
  const WorkerId bob = w.worker();
  w.forget_sent();
  w.lose(alice);
  CHECK(w.sent() == Actions{ReportLost{w.me(), w.id("c")}, AnnounceWorkerGone{alice},
                            SendCompute{bob, w.id("a"), RunId(3)}});
  w.finish("a");
  w.finish("b");
  w.finish("c");
  CHECK(w.state("c") == TaskState::memory);
  CHECK(w.took<ReportInMemory>() == 1);
}

TEST_CASE("W2: a task that runs elsewhere goes back when its input is lost", "[scheduler][loss]") {
  World w;
  const WorkerId alice = w.worker();
  w.submit("x");
  w.finish("x");
  w.set_status(alice, WorkerStatus::paused);
  const WorkerId bob = w.worker();
  w.graph({{"y", {"x"}}});
  REQUIRE(w.processing_on("y") == bob);
  w.forget_sent();
  w.lose(alice);
  CHECK(w.state("x") == TaskState::processing);
  CHECK(w.state("y") == TaskState::waiting);
  CHECK(w.sent() == Actions{ReportLost{w.me(), w.id("x")}, SendFree{bob, w.id("y")},
                            AnnounceWorkerGone{alice}, SendCompute{bob, w.id("x"), RunId(2)}});
}

TEST_CASE("a second replica saves the recomputation", "[scheduler][loss]") {
  World w;
  const WorkerId alice = w.worker();
  const WorkerId bob = w.worker();
  w.submit("x");
  w.finish("x");
  w.add_keys(bob, {"x"});
  w.forget_sent();
  w.lose(alice);
  CHECK(w.state("x") == TaskState::memory);
  CHECK(w.sent() == Actions{AnnounceWorkerGone{alice}});
}

TEST_CASE("W3: scattered data that is lost is cancelled, with all that needs it", "[scheduler][loss]") {
  World w;
  const WorkerId alice = w.worker();
  w.scatter("data", {alice});
  w.set_status(alice, WorkerStatus::paused);
  const WorkerId bob = w.worker();
  w.graph({{"y", {"data"}}});
  REQUIRE(w.processing_on("y") == bob);
  w.forget_sent();
  w.lose(alice);
  const auto cancelled = w.take<ReportCancelled>();
  REQUIRE(cancelled.size() == 2);
  CHECK(cancelled[0].keys == std::vector{protocol::string_key("data")});
  CHECK(cancelled[0].reason == "already forgotten");
  CHECK(cancelled[1].keys == std::vector{protocol::string_key("y")});
  CHECK(w.took<SendFree>() == 1);
  CHECK(w.took<AnnounceWorkerGone>() == 1);
  CHECK(w.inner().tasks.size() == 0);
  CHECK(w.nothing_else_sent());
}

TEST_CASE("W3: a result made from lost scattered data stays", "[scheduler][loss]") {
  World w;
  const WorkerId alice = w.worker();
  w.scatter("data", {alice});
  w.set_status(alice, WorkerStatus::paused);
  w.worker();
  w.graph({{"y", {"data"}}});
  w.finish("y");
  w.lose(alice);
  CHECK(w.state("y") == TaskState::memory);
  CHECK(w.task("y").has_lost_dependencies);
}

TEST_CASE("W9: all workers gone, tasks wait, one returns, they run", "[scheduler][loss]") {
  World w;
  const WorkerId alice = w.worker();
  Annotations strict;
  strict.resources = {{"A", 0}};
  w.submit("x");
  w.submit("y", {}, strict);
  w.lose(alice);
  CHECK(w.state("x") == TaskState::queued);  // with no threads at all every group is root-ish
  CHECK(w.state("y") == TaskState::no_worker);
  const WorkerId bob = w.worker({.threads = 2, .resources = {{"A", 1}}});
  CHECK(w.processing_on("y") == bob);
  CHECK(w.processing_on("x") == bob);
}

TEST_CASE("W9: root-ish tasks wait in the queue for a worker to return", "[scheduler][loss]") {
  World w;
  const WorkerId alice = w.worker();
  w.map("inc", 10);
  w.lose(alice);
  CHECK(w.state("inc-0") == TaskState::queued);
  const WorkerId bob = w.worker();
  CHECK(w.processing_count(bob) == 2);
  CHECK(w.processing_on("inc-0") == bob);
}

TEST_CASE("W9: a graph submitted without workers waits for the first one", "[scheduler][loss]") {
  World w;
  w.graph({{"a"}, {"b", {"a"}}});
  CHECK(w.state("a") == TaskState::queued);
  const WorkerId alice = w.worker({.status = WorkerStatus::init});
  CHECK(w.state("a") == TaskState::queued);
  w.set_status(alice, WorkerStatus::running);
  CHECK(w.processing_on("a") == alice);
}

TEST_CASE("W15: a task that kills four workers errs; its neighbour survives", "[scheduler][loss]") {
  World w;
  Annotations eager;
  eager.priority = 1;
  w.submit("poison", {}, eager);
  for (int i = 0; i < 4; ++i) {
    const WorkerId victim = w.worker();
    REQUIRE(w.processing_on("poison") == victim);
    w.lose(victim);
  }
  CHECK(w.state("poison") == TaskState::erred);
  const OwnError& error = w.task("poison").error()->own;
  CHECK(error.kind == OwnError::Kind::killed_worker);
  CHECK(error.allowed_failures == 3);
  CHECK(error.worker == "tcp://10.0.0.1:4003");
  CHECK(w.took<ReportErred>() == 1);
  CHECK(w.took<Note>() == 1);

  w.submit("innocent");
  w.worker();
  w.finish("innocent");
  CHECK(w.state("innocent") == TaskState::memory);
}

TEST_CASE("an expected loss blames nobody", "[scheduler][loss]") {
  World w;
  const WorkerId alice = w.worker();
  w.submit("x");
  w.lose(alice, true);
  CHECK(w.task("x").suspicious() == 0);
  CHECK(w.state("x") == TaskState::queued);
}

TEST_CASE("tasks that depend on a killed task err with its error", "[scheduler][loss]") {
  World w({.allowed_failures = 0});
  const WorkerId alice = w.worker();
  w.graph({{"a"}, {"b", {"a"}}, {"c", {"b"}}});
  w.lose(alice);
  CHECK(w.state("c") == TaskState::erred);
  CHECK(w.task("c").error()->own.kind == OwnError::Kind::killed_worker);
  CHECK(w.task("c").error()->failed.view() == protocol::string_key("a").view());
}

TEST_CASE("a lost worker is unknown afterwards and what it says is ignored", "[scheduler][loss]") {
  World w;
  const WorkerId alice = w.worker();
  w.submit("x");
  const RunId run = w.run_of("x");
  w.lose(alice);
  w.forget_sent();
  w.finish("x", alice, run);
  w.err("x", alice, run);
  w.add_keys(alice, {"x"});
  w.drop_key(alice, "x");
  w.lose(alice);
  CHECK(w.state("x") == TaskState::queued);
  CHECK(w.nothing_else_sent());
}
