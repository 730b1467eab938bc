//! What was started cannot be stopped: releases and second thoughts while a task runs or flies.
#include <catch2/catch.hpp>

#include "tests/worker/world.h"

using tests::Lines;
using tests::World;

// ---- executing ----------------------------------------------------------------------------------

TEST_CASE("the outcome of a task released while it ran is thrown away", "[worker][cancel]") {
  World w;
  w.compute({.key = "x"});
  w.sent();
  w.free({"x"});
  CHECK(w.sent() == Lines{});
  CHECK(w.state("x") == "cancelled");
  CHECK(w.core().executing_count() == 1);
  SECTION("success") {
    w.finish("x");
    CHECK(w.sent() == Lines{"drop x"});
  }
  SECTION("failure") {
    w.fail("x");
    CHECK(w.sent() == Lines{});
  }
  SECTION("reschedule") {
    w.reschedule("x");
    CHECK(w.sent() == Lines{});
  }
  CHECK(w.state("x") == "unknown");
}

TEST_CASE("a cancelled task holds its thread until it ends", "[worker][cancel]") {
  World w;
  w.compute({.key = "x"});
  w.free({"x"});
  w.compute({.key = "y"});
  w.sent();
  w.fail("x");
  CHECK(w.sent() == Lines{"execute y run 1"});
}

TEST_CASE("a cancelled task that is wanted again runs on and reports its old run",
          "[worker][cancel]") {
  World w;
  w.compute({.key = "x", .run = 1});
  w.free({"x"});
  w.sent();
  w.compute({.key = "x", .run = 2});
  CHECK(w.sent() == Lines{});
  CHECK(w.state("x") == "executing");
  w.finish("x");
  CHECK(w.sent() == Lines{"task-finished x run 1"});
}

TEST_CASE("a cancelled task that is wanted as a dependency is kept if it succeeds",
          "[worker][cancel]") {
  World w;
  w.compute({.key = "x"});
  w.free({"x"});
  w.compute({.key = "y", .needs = {{"x", {"B"}}}});
  CHECK(w.state("x") == "resumed");
  w.sent();
  w.finish("x");
  CHECK(w.sent() == Lines{"add-keys x", "execute y run 1"});
}

TEST_CASE("a cancelled task that is wanted as a dependency is fetched if it does not succeed",
          "[worker][cancel]") {
  World w;
  w.compute({.key = "x"});
  w.free({"x"});
  w.compute({.key = "y", .needs = {{"x", {"B"}}}});
  w.sent();
  SECTION("failure") { w.fail("x"); }
  SECTION("reschedule") { w.reschedule("x"); }
  CHECK(w.sent() == Lines{"gather-dep B: x, 1 bytes"});
  CHECK(w.state("x") == "flight");
}

TEST_CASE("a resumed task that nobody wants any more is cancelled again", "[worker][cancel]") {
  World w;
  w.compute({.key = "x"});
  w.free({"x"});
  w.compute({.key = "y", .needs = {{"x", {"B"}}}});
  w.free({"y", "x"});
  CHECK(w.state("x") == "cancelled");
  w.sent();
  w.finish("x");
  CHECK(w.sent() == Lines{"drop x"});
  CHECK(w.core().tasks().empty());
}

TEST_CASE("a resumed task that is to be computed after all just runs on", "[worker][cancel]") {
  World w;
  w.compute({.key = "x", .run = 1});
  w.free({"x"});
  w.acquire({{"x", {"B"}}});
  CHECK(w.state("x") == "resumed");
  w.compute({.key = "x", .run = 2});
  CHECK(w.state("x") == "executing");
  w.sent();
  w.finish("x");
  CHECK(w.sent() == Lines{"task-finished x run 1"});
}

TEST_CASE("resources of a cancelled task are held until it ends, whatever is asked meanwhile",
          "[worker][cancel]") {
  World w({.resources = {{"GPU", 1}}});
  w.compute({.key = "x", .resources = {{"GPU", 1}}});
  w.free({"x"});
  w.compute({.key = "x", .run = 2});  // Now without resources.
  CHECK(w.core().resources()[0].available == 0);
  w.sent();
  w.finish("x");
  CHECK(w.core().resources()[0].available == 1);
}

// ---- long-running -------------------------------------------------------------------------------

TEST_CASE("a cancelled long-running task that is wanted again says so again", "[worker][cancel]") {
  World w;
  w.compute({.key = "x", .run = 1});
  w.secede("x");
  w.free({"x"});
  w.sent();
  w.compute({.key = "x", .run = 2});
  CHECK(w.sent() == Lines{"long-running x run 2 after nil"});
  CHECK(w.state("x") == "long-running");
}

TEST_CASE("a cancelled task that secedes gives up its thread in silence", "[worker][cancel]") {
  World w;
  w.compute({.key = "x"});
  w.free({"x"});
  w.compute({.key = "y"});
  w.sent();
  w.secede("x");
  CHECK(w.sent() == Lines{"execute y run 1"});
  CHECK(w.state("x") == "cancelled");
  w.compute({.key = "x", .run = 5});
  CHECK(w.sent() == Lines{"long-running x run 5 after nil"});
}

TEST_CASE("a resumed task that secedes is still fetched if it fails", "[worker][cancel]") {
  World w;
  w.compute({.key = "x"});
  w.free({"x"});
  w.acquire({{"x", {"B"}}});
  w.sent();
  w.secede("x");
  CHECK(w.sent() == Lines{});
  w.fail("x");
  CHECK(w.sent() == Lines{"gather-dep B: x, 1 bytes"});
}

// ---- flight -------------------------------------------------------------------------------------

TEST_CASE("what arrives for nobody is dropped", "[worker][cancel]") {
  World w;
  w.compute({.key = "y", .needs = {{"x", {"B"}}}});
  w.free({"y"});
  CHECK(w.state("x") == "cancelled");
  w.sent();
  SECTION("it arrives") {
    w.arrive("B", {"x"});
    CHECK(w.sent() == Lines{"drop x"});
  }
  SECTION("it does not") {
    w.arrive("B", {});
    CHECK(w.sent() == Lines{});
  }
  SECTION("the peer is busy") {
    w.busy("B");
    CHECK(w.sent() == Lines{"retry-busy-worker-later B", "request-refresh-who-has x"});
  }
  SECTION("the peer is gone") {
    w.unreachable("B");
    CHECK(w.sent() == Lines{});
  }
  SECTION("it cannot be read") {
    w.unreadable("B");
    CHECK(w.sent() == Lines{});
  }
  CHECK(w.core().tasks().empty());
}

TEST_CASE("a cancelled transfer that is wanted again was never cancelled", "[worker][cancel]") {
  World w;
  w.compute({.key = "y", .needs = {{"x", {"B"}}}});
  w.free({"y"});
  w.compute({.key = "z", .needs = {{"x", {"B"}}}});
  CHECK(w.state("x") == "flight");
  w.sent();
  w.arrive("B", {"x"});
  CHECK(w.sent() == Lines{"add-keys x", "execute z run 1"});
}

TEST_CASE("a key in flight that is to be computed counts as computed when it arrives",
          "[worker][cancel]") {
  World w;
  w.compute({.key = "y", .needs = {{"x", {"B"}}}});
  w.free({"y"});
  w.compute({.key = "x", .run = 9});
  CHECK(w.state("x") == "resumed");
  w.sent();
  w.arrive("B", {"x"});
  CHECK(w.sent() == Lines{"task-finished x run 9"});
}

TEST_CASE("a key in flight that is to be computed is computed when the transfer fails",
          "[worker][cancel]") {
  World w;
  w.compute({.key = "y", .needs = {{"x", {"B"}}}});
  w.free({"y"});
  w.compute({.key = "x", .run = 9});
  w.sent();
  SECTION("no such key") {
    w.arrive("B", {});
    CHECK(w.sent() == Lines{"execute x run 9"});
  }
  SECTION("unreachable") {
    w.unreachable("B");
    CHECK(w.sent() == Lines{"execute x run 9"});
  }
  SECTION("unreadable") {
    w.unreadable("B");
    CHECK(w.sent() == Lines{"execute x run 9"});
  }
  SECTION("busy") {
    w.busy("B");
    CHECK(w.sent() ==
          Lines{"retry-busy-worker-later B", "request-refresh-who-has x", "execute x run 9"});
  }
}

TEST_CASE("a key in flight that is to be computed first fetches what it needs", "[worker][cancel]") {
  World w;
  w.compute({.key = "y", .needs = {{"x", {"B"}}}});
  w.free({"y"});
  w.compute({.key = "x", .needs = {{"d", {"C"}}}, .run = 9});
  w.sent();
  w.arrive("B", {});
  CHECK(w.sent() == Lines{"gather-dep C: d, 1 bytes"});
  w.arrive("C", {"d"});
  CHECK(w.sent() == Lines{"add-keys d", "execute x run 9"});
}

TEST_CASE("a resumed transfer that is wanted as before is a transfer again", "[worker][cancel]") {
  World w;
  w.acquire({{"x", {"B"}}});
  w.compute({.key = "x"});
  CHECK(w.state("x") == "resumed");
  w.acquire({{"x", {"B"}}});
  CHECK(w.state("x") == "flight");
  w.sent();
  w.arrive("B", {"x"});
  CHECK(w.sent() == Lines{"add-keys x"});
}

TEST_CASE("freeing twice is freeing once", "[worker][cancel]") {
  World w;
  w.compute({.key = "x"});
  w.free({"x"});
  w.free({"x", "x"});
  CHECK(w.state("x") == "cancelled");
  w.sent();
  w.finish("x");
  CHECK(w.sent() == Lines{"drop x"});
}

// The scheduler frees a task and its dependency while the dependency is in flight, then sends the
// dependency here to be computed; everything else must go on as if nothing had been.
TEST_CASE("cancel and resume at both ends of an edge leave nothing behind", "[worker][cancel]") {
  World w;
  w.compute({.key = "y", .needs = {{"x", {"B"}}}, .run = 1});
  w.free({"y", "x"});
  w.compute({.key = "x", .run = 2});
  w.compute({.key = "y", .needs = {{"x", {"B"}}}, .run = 3});
  CHECK(w.state("x") == "flight");  // As stock: a dependent asks for the transfer again.
  w.sent();
  w.arrive("B", {"x"});
  CHECK(w.sent() == Lines{"add-keys x", "execute y run 3"});
  w.finish("y");
  w.sent();
  w.free({"y", "x"});
  CHECK(w.core().tasks().empty());
}
