//! Tasks that fail: propagation, blame, retries; row W16 as far as the scheduler is concerned.
#include "tests/scheduler/world.h"

using namespace scheduler;

TEST_CASE("an error is reported to the client and kept", "[scheduler][error]") {
  World w;
  w.worker();
  const TaskId x = w.submit("x");
  w.forget_sent();
  w.err("x");
  CHECK(w.sent() == Actions{ReportErred{w.me(), x}});
  CHECK(w.task("x").error()->exception->header.view() == "boom x");
  CHECK(w.task("x").error()->failed.view() == w.task("x").key());
}

TEST_CASE("dependents err with the blame of the task that failed", "[scheduler][error]") {
  World w;
  w.worker();
  w.graph({{"a"}, {"b", {"a"}}, {"c", {"b"}}});
  w.forget_sent();
  w.err("a");
  CHECK(w.state("b") == TaskState::erred);
  CHECK(w.state("c") == TaskState::erred);
  CHECK(w.task("c").error() == w.task("a").error());
  CHECK(w.sent() == Actions{ReportErred{w.me(), w.id("c")}});
}

TEST_CASE("an input that only the failed task needed is let go", "[scheduler][error]") {
  World w;
  const WorkerId alice = w.worker();
  w.graph({{"a"}, {"b", {"a"}}});
  w.finish("a");
  w.forget_sent();
  w.err("b");
  CHECK(w.sent() == Actions{ReportErred{w.me(), w.id("b")}, SendFree{alice, w.id("a")}});
  CHECK(w.state("a") == TaskState::released);
}

TEST_CASE("retries run the task again and count down", "[scheduler][error]") {
  World w;
  const WorkerId alice = w.worker();
  Annotations twice;
  twice.retries = 2;
  const TaskId x = w.submit("x", {}, twice);
  w.forget_sent();
  w.err("x");
  CHECK(w.sent() == Actions{SendFree{alice, x}, SendCompute{alice, x, RunId(1)}});
  CHECK(w.task("x").retries == 1);
  w.err("x");
  w.forget_sent();
  w.err("x");
  CHECK(w.sent() == Actions{ReportErred{w.me(), x}});
}

TEST_CASE("retry starts at the erred roots and tells the clients", "[scheduler][error]") {
  World w;
  const WorkerId alice = w.worker();
  w.graph({{"a"}, {"b", {"a"}}, {"c", {"b"}}});
  w.err("a");
  w.forget_sent();
  w.retry({"c"});
  CHECK(w.sent() == Actions{SendFree{alice, w.id("a")}, ReportRetried{w.me(), w.id("c")},
                            SendCompute{alice, w.id("a"), RunId(1)}});
  CHECK(w.state("c") == TaskState::waiting);
  CHECK(w.task("c").error() == nullptr);
}

TEST_CASE("retry of one of two failed inputs leaves the dependent erred", "[scheduler][error]") {
  World w;
  w.worker({.threads = 4});
  w.graph({{"a"}, {"b"}, {"c", {"a", "b"}}}, {"a", "b", "c"});
  w.err("a");
  w.err("b");
  w.retry({"a"});
  CHECK(w.state("a") == TaskState::processing);
  CHECK(w.state("c") == TaskState::erred);
  w.retry({"c"});
  CHECK(w.state("b") == TaskState::processing);
  CHECK(w.state("c") == TaskState::waiting);
}

TEST_CASE("a new graph on top of an erred key errs at once", "[scheduler][error]") {
  World w;
  w.worker();
  w.submit("x");
  w.err("x");
  w.forget_sent();
  w.graph({{"y", {"x"}}, {"z", {"y"}}});
  CHECK(w.state("y") == TaskState::erred);
  CHECK(w.state("z") == TaskState::erred);
  CHECK(w.sent() == Actions{ReportErred{w.me(), w.id("z")}});
}

TEST_CASE("W16: a result that could not be stored errs like any other failure", "[scheduler][error]") {
  World w;
  const WorkerId alice = w.worker();
  w.graph({{"a"}, {"b", {"a"}}});
  w.err("a");  // the worker answers task-erred when its result cannot be packed
  CHECK(w.state("b") == TaskState::erred);
  w.release({"b"});
  CHECK(w.inner().tasks.size() == 0);
  CHECK(w.take<SendFree>().at(0).worker == alice);
}

TEST_CASE("a task that errs with its input while it runs is freed on its worker", "[scheduler][error]") {
  World w;
  const WorkerId alice = w.worker();
  w.graph({Node{.key = "actor", .actor = true}});
  w.finish("actor");
  w.set_status(alice, WorkerStatus::paused);
  const WorkerId bob = w.worker();
  w.graph({{"y", {"actor"}}});
  REQUIRE(w.processing_on("y") == bob);
  const TaskId y = w.id("y");
  w.forget_sent();
  w.lose(alice);
  CHECK(w.state("y") == TaskState::erred);
  CHECK(w.task("y").error()->own.kind == OwnError::Kind::lost_actor);
  CHECK(w.take<SendFree>() == std::vector{SendFree{bob, y}});
  CHECK(w.took<ReportErred>() == 2);
}

TEST_CASE("a retry of a task in memory throws the result away and runs it again", "[scheduler][error]") {
  World w;
  const WorkerId alice = w.worker();
  const TaskId x = w.submit("x");
  w.finish("x");
  w.forget_sent();
  w.retry({"x"});
  CHECK(w.sent() == Actions{SendFree{alice, x}, ReportLost{w.me(), x},
                            SendCompute{alice, x, RunId(1)}});
}

TEST_CASE("releasing an erred task and what it blamed forgets both", "[scheduler][error]") {
  World w;
  w.worker();
  w.graph({{"a"}, {"b", {"a"}}}, {"a", "b"});
  w.err("a");
  w.release({"a"});
  CHECK(w.state("a") == TaskState::erred);
  w.release({"b"});
  CHECK(w.inner().tasks.size() == 0);
}

TEST_CASE("an erred state that is retried within one step is not reported as an error", "[scheduler][error]") {
  World w;
  w.worker({.threads = 4});
  w.graph({{"a"}, {"b"}, {"c", {"a", "b"}}}, {"c"});
  w.err("a");
  w.retry({"c"});
  w.err("b");
  w.err("a");
  w.forget_sent();
  w.retry({"c"});
  for (const ReportErred& report : w.take<ReportErred>()) {
    CHECK(w.core.task(report.task).error() != nullptr);
  }
}
