//! Threads, resources, secede and pause.
#include <catch2/catch.hpp>

#include "tests/worker/world.h"

using tests::Lines;
using tests::World;

TEST_CASE("a task waits for its resources and takes them while it runs", "[worker][execute]") {
  World w({.nthreads = 3, .resources = {{"GPU", 1}}});
  w.compute({.key = "a", .resources = {{"GPU", 1}}});
  w.compute({.key = "b", .resources = {{"GPU", 1}}});
  CHECK(w.sent() == Lines{"execute a run 1"});
  CHECK(w.state("b") == "constrained");
  w.finish("a");
  CHECK(w.sent() == Lines{"task-finished a run 1", "execute b run 1"});
}

TEST_CASE("a task that lacks resources does not hold up those that need none",
          "[worker][execute]") {
  World w({.nthreads = 2, .resources = {{"GPU", 1}}});
  w.compute({.key = "a", .resources = {{"GPU", 1}}});
  w.compute({.key = "b", .priority = {-1}, .resources = {{"GPU", 1}}});
  w.compute({.key = "c"});
  CHECK(w.sent() == Lines{"execute a run 1", "execute c run 1"});
}

TEST_CASE("between the queues the more urgent task goes first", "[worker][execute]") {
  World w({.resources = {{"GPU", 1}}});
  w.compute({.key = "first"});
  w.compute({.key = "plain", .priority = {1}});
  w.compute({.key = "gpu", .priority = {0}, .resources = {{"GPU", 1}}});
  w.sent();
  w.finish("first");
  CHECK(w.sent() == Lines{"task-finished first run 1", "execute gpu run 1"});
  w.finish("gpu");
  CHECK(w.sent() == Lines{"task-finished gpu run 1", "execute plain run 1"});
}

TEST_CASE("a failed task gives its resources back", "[worker][execute]") {
  World w({.resources = {{"GPU", 1}}});
  w.compute({.key = "x", .resources = {{"GPU", 1}}});
  w.fail("x");
  CHECK(w.core().resources()[0].available == 1);
}

TEST_CASE("a resource nobody heard of is waited for until it is there", "[worker][execute]") {
  World w;
  w.compute({.key = "x", .resources = {{"TPU", 2}}});
  CHECK(w.sent() == Lines{});
  CHECK(w.state("x") == "constrained");
  w.set_resource("TPU", 1);
  CHECK(w.sent() == Lines{});
  w.set_resource("TPU", 2);
  CHECK(w.sent() == Lines{"execute x run 1"});
}

TEST_CASE("a task that secedes frees its thread and keeps its resources", "[worker][execute]") {
  World w({.resources = {{"GPU", 1}}});
  w.compute({.key = "x", .resources = {{"GPU", 1}}});
  w.compute({.key = "y"});
  w.compute({.key = "z", .resources = {{"GPU", 1}}});
  w.sent();
  w.secede("x", 1.5);
  CHECK(w.sent() == Lines{"long-running x run 1 after 1.5", "execute y run 1"});
  w.finish("y");
  CHECK(w.sent() == Lines{"task-finished y run 1"});
  w.finish("x");
  CHECK(w.sent() == Lines{"task-finished x run 1", "execute z run 1"});
}

TEST_CASE("seceding twice is seceding once", "[worker][execute]") {
  World w;
  w.compute({.key = "x"});
  w.secede("x");
  w.sent();
  w.secede("x");
  CHECK(w.sent() == Lines{});
  CHECK(w.core().executing_count() == 0);
}

TEST_CASE("a long-running task may fail or ask to run elsewhere", "[worker][execute]") {
  World w;
  w.compute({.key = "x", .run = 3});
  w.secede("x");
  w.sent();
  SECTION("fail") {
    w.fail("x");
    CHECK(w.sent() == Lines{"task-erred x run 3"});
  }
  SECTION("reschedule") {
    w.reschedule("x");
    CHECK(w.sent() == Lines{"reschedule x"});
  }
}

TEST_CASE("a paused worker finishes what runs and starts nothing", "[worker][execute]") {
  World w;
  w.compute({.key = "x"});
  w.pause();
  w.compute({.key = "y"});
  w.sent();
  w.finish("x");
  CHECK(w.sent() == Lines{"task-finished x run 1"});
  CHECK_FALSE(w.core().running());
  w.unpause();
  CHECK(w.sent() == Lines{"execute y run 1"});
}

TEST_CASE("unpausing fills every thread", "[worker][execute]") {
  World w({.nthreads = 2});
  w.pause();
  w.compute({.key = "a"});
  w.compute({.key = "b"});
  w.compute({.key = "c"});
  w.unpause();
  // As stock: both are chosen by priority, the start of the later choice is told first.
  CHECK(w.sent() == Lines{"execute b run 1", "execute c run 1"});
}

TEST_CASE("a stale entry of a queue never starts a task twice", "[worker][execute]") {
  World w;
  w.compute({.key = "busy"});
  w.compute({.key = "other", .priority = {1}});
  w.compute({.key = "x", .run = 1, .priority = {0}});
  w.free({"x"});
  w.compute({.key = "x", .run = 2, .priority = {2}});
  w.sent();
  w.finish("busy");
  CHECK(w.sent() == Lines{"task-finished busy run 1", "execute other run 1"});
  w.finish("other");
  CHECK(w.sent() == Lines{"task-finished other run 1", "execute x run 2"});
  w.finish("x");
  CHECK(w.sent() == Lines{"task-finished x run 2"});
}
