//! Messages that are late, doubled, absurd or hostile: each has an answer, none breaks the core.
#include <catch2/catch.hpp>

#include "tests/worker/world.h"

using tests::Lines;
using tests::World;

TEST_CASE("freeing keys nobody knows does nothing", "[worker][odd]") {
  World w;
  w.free({"x", "y"});
  w.remove_replicas({"x"});
  CHECK(w.sent() == Lines{});
}

TEST_CASE("an answer to a transfer that nobody started is noted and its values dropped",
          "[worker][odd]") {
  World w;
  w.arrive("B", {"x"});
  CHECK(w.sent() == Lines{"note unknown-transfer", "drop ?"});
  w.compute({.key = "y", .needs = {{"x", {"B"}}}});
  w.arrive("B", {"x"});
  w.sent();
  w.arrive("B", {"x"});
  CHECK(w.sent() == Lines{"note unknown-transfer", "drop x"});
  w.busy("B");
  w.unreachable("B");
  w.unreadable("B");
  CHECK(w.sent() == Lines{"note unknown-transfer", "note unknown-transfer", "note unknown-transfer"});
  CHECK(w.state("x") == "memory");
}

TEST_CASE("an answer to an execution that nobody started is noted and its value dropped",
          "[worker][odd]") {
  World w;
  w.compute({.key = "x"});
  w.finish("x");
  w.sent();
  w.finish("x");
  CHECK(w.sent() == Lines{"note unknown-execution x", "drop x"});
  w.fail("x");
  w.reschedule("x");
  CHECK(w.sent() == Lines{"note unknown-execution x", "note unknown-execution x"});
  w.step(worker::ExecuteSuccess{worker::TaskId{}, worker::RunId(1), w.new_value(), 1});
  w.step(worker::ExecuteSuccess{worker::TaskId(12345), worker::RunId(1), w.new_value(), 1});
  CHECK(w.sent() == Lines{"note unknown-execution", "drop ?", "note unknown-execution", "drop ?"});
  CHECK(w.state("x") == "memory");
}

TEST_CASE("seceding without running does nothing", "[worker][odd]") {
  World w;
  w.pause();
  w.compute({.key = "x"});
  w.secede("x");
  w.secede("stranger");
  CHECK(w.sent() == Lines{});
  CHECK(w.state("x") == "ready");
}

TEST_CASE("a task that depends on itself does not wait for itself", "[worker][odd]") {
  World w;
  w.compute({.key = "x", .needs = {{"x", {"B"}}}});
  CHECK(w.sent() == Lines{"execute x run 1"});
}

TEST_CASE("a dependency named twice is waited for once", "[worker][odd]") {
  World w;
  w.compute({.key = "y", .needs = {{"x", {"B"}}, {"x", {"B"}}}});
  CHECK(w.sent() == Lines{"gather-dep B: x, 1 bytes"});
  w.arrive("B", {"x"});
  CHECK(w.sent() == Lines{"add-keys x", "execute y run 1"});
}

TEST_CASE("a dependency with no holder is missing, not forgotten", "[worker][odd]") {
  World w;
  w.compute({.key = "y", .needs = {{"x", {}}}});
  CHECK(w.sent() == Lines{});
  w.find_missing();
  CHECK(w.sent() == Lines{"request-refresh-who-has x"});
}

TEST_CASE("tasks that depend on each other do no harm", "[worker][odd]") {
  World w;
  w.pause();
  w.compute({.key = "x", .needs = {{"y", {"B"}}}});
  w.compute({.key = "y", .needs = {{"x", {"B"}}}});
  w.free({"x", "y"});
  w.unpause();
  for (const std::string& line : w.sent()) CHECK(line.substr(0, 4) == "note");
}

// Stock raises RecommendationsConflict here and its worker closes.
TEST_CASE("a key that was to be fetched may be computed from dependencies that are elsewhere",
          "[worker][odd]") {
  World w;
  w.pause();
  w.compute({.key = "y", .needs = {{"x", {"B"}}}});
  w.compute({.key = "x", .needs = {{"d", {"C"}}}, .run = 2});
  w.unpause();
  CHECK(w.sent() == Lines{"gather-dep C: d, 1 bytes"});
  w.arrive("C", {"d"});
  CHECK(w.sent() == Lines{"add-keys d", "execute x run 2"});
}

TEST_CASE("an id that is used again is a new task to every queue", "[worker][odd]") {
  World w;
  w.compute({.key = "busy"});
  for (int i = 0; i < 50; ++i) {
    const std::string key = "k" + std::to_string(i);
    w.compute({.key = key, .needs = {{"d" + std::to_string(i), {"B", "C"}}}});
    w.free({key});
    w.compute({.key = "r" + std::to_string(i), .priority = {static_cast<double>(50 - i)}});
    if (i % 2 == 0) w.free({"r" + std::to_string(i)});
  }
  w.sent();
  w.finish("busy");
  CHECK(w.sent() == Lines{"task-finished busy run 1", "execute r49 run 1"});
  CHECK(w.core().count(worker::TaskState::ready) == 24);
}

TEST_CASE("a peer that comes back at its address is asked again", "[worker][odd]") {
  World w;
  w.acquire({{"x", {"B"}}});
  w.unreachable("B");
  w.sent();
  w.refresh({{"x", {"B"}}});
  CHECK(w.sent() == Lines{"gather-dep B: x, 1 bytes"});
}

// A graph may be deeper than any stack: releases run down a chain of a hundred thousand.
TEST_CASE("a deep chain is released without recursion", "[worker][odd]") {
  worker::Core core({.address = "tcp://me:0"});
  worker::Actions actions;
  constexpr int kDepth = 100'000;
  core.step(worker::Pause{}, "", {}, actions);
  const std::string_view holder = "tcp://B:1";
  for (int i = 1; i <= kDepth; ++i) {
    const auto key = protocol::string_key("k" + std::to_string(i));
    const auto needed = protocol::string_key("k" + std::to_string(i - 1));
    const worker::Replica replica{needed, 1, std::span(&holder, 1)};
    core.step(worker::AcquireReplicas{std::span(&replica, 1)}, "", {}, actions);
    core.step(worker::ComputeTask{.key = key,
                                  .run = worker::RunId(1),
                                  .priority = {0},
                                  .dependencies = std::span(&replica, 1),
                                  .resources = {},
                                  .actor = false,
                                  .work = nullptr},
              "", {}, actions);
  }
  std::vector<worker::Key> keys;
  std::vector<worker::KeyView> views;
  for (int i = 0; i <= kDepth; ++i) keys.push_back(protocol::string_key("k" + std::to_string(i)));
  views.assign(keys.begin(), keys.end());
  core.step(worker::FreeKeys{views}, "", {}, actions);
  CHECK(core.tasks().empty());
}

TEST_CASE("the same events give the same actions", "[worker][odd]") {
  const auto live = [] {
    World w({.nthreads = 2, .seed = 77});
    for (int i = 0; i < 40; ++i) {
      const std::string n = std::to_string(i);
      w.compute({.key = "y" + n, .needs = {{"x" + n, {"B", "C", "D"}}}});
      if (i % 5 == 0) w.free({"y" + n});
      if (i % 7 == 0 && w.peer("C").valid() && w.core().peer(w.peer("C")).in_flight) w.busy("C");
    }
    return w.sent();
  };
  CHECK(live() == live());
}
