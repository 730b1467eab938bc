//! Stealing, replicas and scattered values.
#include <catch2/catch.hpp>

#include "tests/worker/world.h"

using tests::Lines;
using tests::World;

// ---- stealing -----------------------------------------------------------------------------------

TEST_CASE("a task that has not started is given away", "[worker][steal]") {
  World w({.resources = {{"GPU", 0}}});
  SECTION("ready") {
    w.compute({.key = "busy"});
    w.compute({.key = "x"});
    w.sent();
    w.steal("x");
    CHECK(w.sent() == Lines{"steal-response x ready"});
  }
  SECTION("constrained") {
    w.compute({.key = "x", .resources = {{"GPU", 1}}});
    w.steal("x");
    CHECK(w.sent() == Lines{"steal-response x constrained"});
  }
  SECTION("waiting") {
    w.pause();
    w.compute({.key = "x", .needs = {{"d", {"B"}}}});
    w.steal("x");
    CHECK(w.sent() == Lines{"steal-response x waiting"});
    CHECK(w.state("d") == "unknown");
  }
  CHECK(w.state("x") == "unknown");
}

TEST_CASE("a task that has started is not given away", "[worker][steal]") {
  World w;
  w.compute({.key = "x"});
  w.sent();
  SECTION("executing") {
    w.steal("x");
    CHECK(w.sent() == Lines{"steal-response x executing"});
  }
  SECTION("long-running") {
    w.secede("x");
    w.sent();
    w.steal("x");
    CHECK(w.sent() == Lines{"steal-response x long-running"});
  }
  SECTION("cancelled") {
    w.free({"x"});
    w.steal("x");
    CHECK(w.sent() == Lines{"steal-response x cancelled"});
  }
  SECTION("resumed") {
    w.free({"x"});
    w.acquire({{"x", {"B"}}});
    w.steal("x");
    CHECK(w.sent() == Lines{"steal-response x resumed"});
  }
  SECTION("finished") {
    w.finish("x");
    w.sent();
    w.steal("x");
    CHECK(w.sent() == Lines{"steal-response x memory"});
  }
  SECTION("failed") {
    w.fail("x");
    w.sent();
    w.steal("x");
    CHECK(w.sent() == Lines{"steal-response x error"});
  }
  CHECK(w.state("x") != "unknown");
}

TEST_CASE("a theft of something else is answered with its state", "[worker][steal]") {
  World w;
  w.steal("x");
  CHECK(w.sent() == Lines{"steal-response x nil"});
  w.compute({.key = "y", .needs = {{"x", {"B"}}}});
  w.sent();
  w.steal("x");
  CHECK(w.sent() == Lines{"steal-response x flight"});
  w.unreachable("B");
  w.steal("x");
  CHECK(w.sent() == Lines{"steal-response x missing"});
}

TEST_CASE("a stolen task frees the place of its transfers when they end", "[worker][steal]") {
  World w;
  w.compute({.key = "x", .needs = {{"d", {"B"}}}});
  w.steal("x");
  w.sent();
  w.arrive("B", {"d"});
  CHECK(w.sent() == Lines{"drop d"});
  CHECK(w.core().tasks().empty());
}

TEST_CASE("cancel-compute takes back only what has not started", "[worker][steal]") {
  World w;
  w.compute({.key = "x"});
  w.compute({.key = "y"});
  w.sent();
  w.cancel_compute("x");
  w.cancel_compute("y");
  w.cancel_compute("stranger");
  CHECK(w.sent() == Lines{});
  CHECK(w.state("x") == "executing");
  CHECK(w.state("y") == "unknown");
}

// ---- replicas -----------------------------------------------------------------------------------

TEST_CASE("a replica is dropped on request and the scheduler told", "[worker][replica]") {
  World w;
  w.acquire({{"x", {"B"}}});
  w.arrive("B", {"x"});
  w.sent();
  w.remove_replicas({"x", "stranger"});
  CHECK(w.sent() == Lines{"drop x", "release-worker-data x"});
}

TEST_CASE("only what is in memory is a replica to be dropped", "[worker][replica]") {
  World w;
  w.compute({.key = "y"});
  w.acquire({{"x", {"B"}}});
  w.sent();
  w.remove_replicas({"x", "y"});
  CHECK(w.sent() == Lines{});
  CHECK(w.state("x") == "flight");
  CHECK(w.state("y") == "executing");
}

TEST_CASE("a replica in use is kept and announced again", "[worker][replica]") {
  World w;
  w.compute({.key = "y", .needs = {{"x", {"B"}}}});
  w.arrive("B", {"x"});
  w.sent();
  w.remove_replicas({"x"});
  CHECK(w.sent() == Lines{"note replica-in-use x", "add-keys x"});
  CHECK(w.state("x") == "memory");
}

// ---- scatter ------------------------------------------------------------------------------------

TEST_CASE("a scattered value is kept without a word to the scheduler", "[worker][scatter]") {
  World w;
  w.scatter({"x", "y"}, 40);
  CHECK(w.sent() == Lines{});
  CHECK(w.state("x") == "memory");
  CHECK(w.core().nbytes() == 80);
  w.compute({.key = "z", .needs = {{"x", {"near0"}}}});
  CHECK(w.sent() == Lines{"execute z run 1"});
}

TEST_CASE("a value scattered twice is kept once", "[worker][scatter]") {
  World w;
  w.scatter({"x"}, 40);
  w.scatter({"x"}, 50);
  CHECK(w.sent() == Lines{"drop x"});
  CHECK(w.core().nbytes() == 40);
}

TEST_CASE("a scattered value ends the search for it", "[worker][scatter]") {
  World w;
  w.compute({.key = "y", .needs = {{"x", {"B"}, 7}}});
  w.unreachable("B");
  w.sent();
  w.scatter({"x"}, 40);
  CHECK(w.sent() == Lines{"execute y run 1"});
  CHECK(w.task("x").nbytes == 40);
}

TEST_CASE("a value scattered while it is in flight makes the transfer pointless",
          "[worker][scatter]") {
  World w;
  w.compute({.key = "y", .needs = {{"x", {"B"}}}});
  w.sent();
  w.scatter({"x"});
  CHECK(w.sent() == Lines{"add-keys x", "execute y run 1"});
  SECTION("it arrives") {
    w.arrive("B", {"x"});
    CHECK(w.sent() == Lines{"drop x"});
  }
  SECTION("it does not") {
    w.arrive("B", {});
    CHECK(w.sent() == Lines{});
  }
  SECTION("it was freed meanwhile") {
    w.finish("y");
    w.free({"y", "x"});
    w.sent();
    w.arrive("B", {"x"});
    CHECK(w.sent() == Lines{"drop ?"});
    CHECK(w.core().tasks().empty());
    return;
  }
  CHECK(w.state("x") == "memory");
}

TEST_CASE("a value scattered onto a running task is dropped; the task brings its own",
          "[worker][scatter]") {
  World w;
  w.compute({.key = "x", .run = 2});
  w.sent();
  w.scatter({"x"});
  CHECK(w.sent() == Lines{"drop x"});
  w.finish("x");
  CHECK(w.sent() == Lines{"task-finished x run 2"});
}
