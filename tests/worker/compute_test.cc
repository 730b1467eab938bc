//! The life of a task that a worker computes: waits, runs, is kept, is let go.
#include <catch2/catch.hpp>

#include "tests/worker/world.h"

using tests::Lines;
using tests::World;

TEST_CASE("a task without dependencies runs at once and reports its run", "[worker][compute]") {
  World w;
  w.compute({.key = "x", .run = 7});
  CHECK(w.sent() == Lines{"execute x run 7"});
  CHECK(w.task("x").work != nullptr);
  w.finish("x", 100);
  CHECK(w.sent() == Lines{"task-finished x run 7"});
  CHECK(w.state("x") == "memory");
  CHECK(w.task("x").nbytes == 100);
  CHECK(w.task("x").work == nullptr);
  CHECK(w.core().nbytes() == 100);
  CHECK(w.core().executed_count() == 1);
}

TEST_CASE("a value is kept until its key is freed", "[worker][compute]") {
  World w;
  w.compute({.key = "x"});
  w.finish("x", 5);
  w.sent();
  w.free({"x"});
  CHECK(w.sent() == Lines{"drop x", "release-worker-data x"});
  CHECK(w.state("x") == "unknown");
  CHECK(w.core().nbytes() == 0);
  CHECK(w.core().count(worker::TaskState::forgotten) == 0);
}

TEST_CASE("tasks beyond the threads run in order of priority", "[worker][compute]") {
  World w;
  w.compute({.key = "first"});
  w.compute({.key = "low", .priority = {2}});
  w.compute({.key = "high", .priority = {-1}});
  w.compute({.key = "middle", .priority = {1}});
  CHECK(w.sent() == Lines{"execute first run 1"});
  w.finish("first");
  CHECK(w.sent() == Lines{"task-finished first run 1", "execute high run 1"});
  w.finish("high");
  CHECK(w.sent() == Lines{"task-finished high run 1", "execute middle run 1"});
  w.finish("middle");
  CHECK(w.sent() == Lines{"task-finished middle run 1", "execute low run 1"});
}

TEST_CASE("among equals the newest task runs first", "[worker][compute]") {
  World w;
  w.compute({.key = "first"});
  w.compute({.key = "a"});
  w.compute({.key = "b"});
  w.sent();
  w.finish("first");
  CHECK(w.sent() == Lines{"task-finished first run 1", "execute b run 1"});
}

TEST_CASE("as many tasks run as there are threads", "[worker][compute]") {
  World w({.nthreads = 2});
  w.compute({.key = "a"});
  w.compute({.key = "b"});
  w.compute({.key = "c"});
  CHECK(w.sent() == Lines{"execute a run 1", "execute b run 1"});
  CHECK(w.core().executing_count() == 2);
  CHECK(w.state("c") == "ready");
}

TEST_CASE("a compute-task for a value that is here is answered at once", "[worker][compute]") {
  World w;
  w.compute({.key = "x", .run = 1});
  w.finish("x");
  w.sent();
  w.compute({.key = "x", .run = 2});
  CHECK(w.sent() == Lines{"task-finished x run 2"});
}

TEST_CASE("a running task answers with the run it started with", "[worker][compute]") {
  World w;
  w.compute({.key = "x", .run = 1});
  w.sent();
  w.compute({.key = "x", .run = 2});
  CHECK(w.sent() == Lines{});
  w.finish("x");
  CHECK(w.sent() == Lines{"task-finished x run 1"});
}

TEST_CASE("a task that waits for a thread starts with its newest run", "[worker][compute]") {
  World w;
  w.compute({.key = "first"});
  w.compute({.key = "x", .run = 1});
  w.compute({.key = "x", .run = 2});
  w.sent();
  w.finish("first");
  CHECK(w.sent() == Lines{"task-finished first run 1", "execute x run 2"});
}

TEST_CASE("a failed task is reported and holds nothing", "[worker][compute]") {
  World w;
  w.compute({.key = "x", .run = 3});
  w.sent();
  w.fail("x");
  CHECK(w.sent() == Lines{"task-erred x run 3"});
  CHECK(w.state("x") == "error");
  w.free({"x"});
  CHECK(w.sent() == Lines{});
  CHECK(w.state("x") == "unknown");
}

TEST_CASE("a failed task runs again when the scheduler retries it", "[worker][compute]") {
  World w;
  w.compute({.key = "x", .run = 1});
  w.fail("x");
  w.sent();
  w.compute({.key = "x", .run = 2});
  CHECK(w.sent() == Lines{"execute x run 2"});
  w.finish("x");
  CHECK(w.sent() == Lines{"task-finished x run 2"});
}

TEST_CASE("a task that asks to run elsewhere is given back and forgotten", "[worker][compute]") {
  World w;
  w.compute({.key = "x"});
  w.compute({.key = "y"});
  w.sent();
  w.reschedule("x");
  CHECK(w.sent() == Lines{"reschedule x", "execute y run 1"});
  CHECK(w.state("x") == "unknown");
}

TEST_CASE("a task freed before it ran leaves no trace", "[worker][compute]") {
  World w;
  w.compute({.key = "x"});
  w.compute({.key = "y", .needs = {{"d", {"B"}}}});
  w.sent();
  w.free({"y"});
  CHECK(w.sent() == Lines{});
  CHECK(w.state("y") == "unknown");
  CHECK(w.state("d") == "cancelled");  // Its transfer is under way.
}

TEST_CASE("a freed key is computed afresh when asked for again", "[worker][compute]") {
  World w;
  w.compute({.key = "x", .run = 1});
  w.finish("x");
  w.free({"x"});
  w.sent();
  w.compute({.key = "x", .run = 2});
  CHECK(w.sent() == Lines{"execute x run 2"});
}

TEST_CASE("a dependency that is here is not fetched", "[worker][compute]") {
  World w;
  w.compute({.key = "x"});
  w.finish("x");
  w.sent();
  w.compute({.key = "y", .needs = {{"x", {"near0", "B"}}}});
  CHECK(w.sent() == Lines{"execute y run 1"});
}

TEST_CASE("a task starts when its last dependency arrives", "[worker][compute]") {
  World w;
  w.compute({.key = "z", .needs = {{"x", {"B"}}, {"y", {"C"}}}});
  CHECK(w.sent() == Lines{"gather-dep B: x, 1 bytes", "gather-dep C: y, 1 bytes"});
  w.arrive("B", {"x"});
  CHECK(w.sent() == Lines{"add-keys x"});
  w.arrive("C", {"y"});
  CHECK(w.sent() == Lines{"add-keys y", "execute z run 1"});
}

TEST_CASE("of several tasks made ready at once the most urgent gets the thread",
          "[worker][compute]") {
  World w;
  for (int i = 0; i < 5; ++i) {
    const double priority = i == 2 ? -1 : i;
    w.compute({.key = "y" + std::to_string(i), .needs = {{"x", {"B"}}}, .priority = {priority}});
  }
  w.sent();
  w.arrive("B", {"x"});
  CHECK(w.sent() == Lines{"add-keys x", "execute y2 run 1"});
  w.finish("y2");
  CHECK(w.sent() == Lines{"task-finished y2 run 1", "execute y0 run 1"});
}

TEST_CASE("a dependency stays while a dependent is known and goes with the last of them",
          "[worker][compute]") {
  World w;
  w.compute({.key = "y", .needs = {{"x", {"B"}}}});
  w.compute({.key = "z", .needs = {{"x", {"B"}}}});
  w.arrive("B", {"x"});
  w.finish("z");
  w.finish("y");
  w.sent();
  w.free({"x"});
  CHECK(w.sent() == Lines{"drop x", "release-worker-data x"});
  CHECK(w.state("x") == "released");
  w.free({"y"});
  CHECK(w.state("x") == "released");
  w.free({"z"});
  CHECK(w.state("x") == "unknown");
  CHECK(w.core().tasks().empty());
}

TEST_CASE("a task asked for with other dependencies later needs both", "[worker][compute]") {
  World w;
  w.pause();
  w.compute({.key = "z", .needs = {{"x", {"B"}}}, .run = 1});
  w.steal("z");
  w.compute({.key = "a", .needs = {{"z", {"B"}}}});
  w.compute({.key = "z", .needs = {{"y", {"B"}}, {"x", {"B"}}}, .run = 2});
  w.sent();
  w.unpause();
  CHECK(w.sent() == Lines{"gather-dep B: x y, 2 bytes"});
  w.arrive("B", {"x", "y"});
  CHECK(w.sent() == Lines{"add-keys x", "add-keys y", "execute z run 2"});
}

TEST_CASE("an actor is marked until it is released", "[worker][compute]") {
  World w;
  w.compute({.key = "x", .actor = true});
  CHECK(w.task("x").actor);
  w.finish("x");
  CHECK(w.task("x").actor);
  w.sent();
  w.free({"x"});
  CHECK(w.sent() == Lines{"drop x", "release-worker-data x"});
}

TEST_CASE("a task that was to be fetched may become an actor here", "[worker][compute]") {
  World w;
  w.pause();
  w.compute({.key = "y", .needs = {{"x", {"B"}}}});
  CHECK(w.state("x") == "fetch");
  w.compute({.key = "x", .actor = true});
  CHECK(w.task("x").actor);
}

TEST_CASE("transitions are told only to those who watch", "[worker][compute]") {
  World w;
  w.core().observe_transitions(true);
  w.compute({.key = "x"});
  CHECK(w.sent() == Lines{"transitioned x released waiting", "transitioned x waiting ready",
                          "execute x run 1", "transitioned x ready executing"});
  w.core().observe_transitions(false);
  w.finish("x");
  CHECK(w.sent() == Lines{"task-finished x run 1"});
}

// ---- tasks sent ahead of their inputs by a rask scheduler ----

TEST_CASE("a task waits for an input that this worker is still to make", "[worker][compute]") {
  World w;
  w.compute({.key = "a"});
  w.compute({.key = "b", .needs = {{.key = "a", .who_has = {}}}});
  w.compute({.key = "c", .needs = {{.key = "b", .who_has = {}}}});
  CHECK(w.sent() == Lines{"execute a run 1"});
  CHECK(w.state("a") == "executing");
  CHECK(w.state("c") == "waiting");
  w.finish("a");
  CHECK(w.sent() == Lines{"task-finished a run 1", "execute b run 1"});
  w.finish("b");
  CHECK(w.sent() == Lines{"task-finished b run 1", "execute c run 1"});
}

TEST_CASE("when the input fails, the task stays until it is freed", "[worker][compute]") {
  World w;
  w.compute({.key = "a"});
  w.compute({.key = "b", .needs = {{.key = "a", .who_has = {}}}});
  w.fail("a");
  CHECK(w.state("b") == "waiting");
  w.free({"b", "a"});
  CHECK(w.state("b") == "unknown");
  CHECK(w.state("a") == "unknown");
}

TEST_CASE("a task sent ahead can be given back", "[worker][compute]") {
  World w;
  w.compute({.key = "a"});
  w.compute({.key = "b", .needs = {{.key = "a", .who_has = {}}}});
  w.sent();
  w.steal("b");
  CHECK(w.sent() == Lines{"steal-response b waiting"});
  w.finish("a");
  CHECK(w.sent() == Lines{"task-finished a run 1"});
}
