//! Fetching dependencies: from whom, how much at a time, and what happens when it fails.
#include <catch2/catch.hpp>

#include "tests/worker/world.h"

using tests::Lines;
using tests::Need;
using tests::World;

TEST_CASE("a dependency is fetched, announced and used", "[worker][fetch]") {
  World w;
  w.compute({.key = "y", .needs = {{"x", {"B"}, 30}}});
  CHECK(w.sent() == Lines{"gather-dep B: x, 30 bytes"});
  CHECK(w.state("x") == "flight");
  CHECK(w.core().transfer_incoming_bytes() == 30);
  w.arrive("B", {"x"}, 1000);
  CHECK(w.sent() == Lines{"add-keys x", "execute y run 1"});
  CHECK(w.task("x").nbytes == 30);  // What the scheduler said.
  CHECK(w.core().transfer_incoming_bytes() == 0);
}

TEST_CASE("keys at one peer travel in one message, the most urgent first", "[worker][fetch]") {
  World w;
  w.pause();
  w.compute({.key = "low", .needs = {{"a", {"B"}}}, .priority = {2}});
  w.compute({.key = "high", .needs = {{"b", {"B"}}}, .priority = {1}});
  w.unpause();
  CHECK(w.sent() == Lines{"gather-dep B: b a, 2 bytes"});
}

TEST_CASE("a peer has one transfer at a time", "[worker][fetch]") {
  World w;
  w.compute({.key = "y", .needs = {{"a", {"B"}}}});
  w.compute({.key = "z", .needs = {{"b", {"B"}}}});
  CHECK(w.sent() == Lines{"gather-dep B: a, 1 bytes"});
  w.arrive("B", {"a"});
  CHECK(w.sent() == Lines{"add-keys a", "execute y run 1", "gather-dep B: b, 1 bytes"});
}

TEST_CASE("a key held by several peers is fetched once, from our own host if it can be",
          "[worker][fetch]") {
  World w;
  w.compute({.key = "y", .needs = {{"x", {"B", "near1", "C"}}}});
  CHECK(w.sent() == Lines{"gather-dep near1: x, 1 bytes"});
}

TEST_CASE("among equals the peer that holds most is asked first", "[worker][fetch]") {
  World w;
  w.compute({.key = "z", .needs = {{"a", {"B", "C"}}, {"b", {"C"}}}});
  CHECK(w.sent() == Lines{"gather-dep C: b a, 2 bytes"});
}

TEST_CASE("equal peers share the load by chance", "[worker][fetch]") {
  std::set<std::string> asked;
  for (std::uint64_t seed = 2; seed < 30; ++seed) {
    World w({.seed = seed});
    w.compute({.key = "y", .needs = {{"x", {"B", "C", "D"}}}});
    asked.insert(w.sent().at(0));
  }
  CHECK(asked.size() == 3);
}

TEST_CASE("our own address and doubled addresses count for nothing", "[worker][fetch]") {
  World w;
  w.compute({.key = "y", .needs = {{"x", {"near0", "B", "B"}}}});
  CHECK(w.sent() == Lines{"gather-dep B: x, 1 bytes"});
  CHECK(w.task("x").who_has.size() == 1);
}

TEST_CASE("a key that only we are said to hold, but do not, is missing", "[worker][fetch]") {
  World w;
  w.compute({.key = "y", .needs = {{"x", {"near0"}}}});
  CHECK(w.sent() == Lines{});
  CHECK(w.state("x") == "missing");
}

// ---- limits -------------------------------------------------------------------------------------

TEST_CASE("a message is cut at its limit but never empty", "[worker][fetch]") {
  World w({.transfer_message_bytes_limit = 100});
  w.compute({.key = "y", .needs = {{"a", {"B"}, 500}, {"b", {"B"}, 60}, {"c", {"B"}, 40}}});
  CHECK(w.sent() == Lines{"gather-dep B: c b, 100 bytes"});
  w.arrive("B", {"c", "b"});
  CHECK(w.sent() == Lines{"add-keys c", "add-keys b", "gather-dep B: a, 500 bytes"});
}

TEST_CASE("bytes under way are limited, whatever the number of peers", "[worker][fetch]") {
  World w({.transfer_incoming_bytes_limit = 100});
  w.compute({.key = "y", .needs = {{"a", {"B"}, 60}, {"b", {"C"}, 60}}});
  CHECK(w.sent() == Lines{"gather-dep B: a, 60 bytes"});
  w.arrive("B", {"a"});
  CHECK(w.sent() == Lines{"add-keys a", "gather-dep C: b, 60 bytes"});
}

TEST_CASE("with nothing under way even a key beyond the limit is fetched", "[worker][fetch]") {
  World w({.transfer_incoming_bytes_limit = 100});
  w.compute({.key = "y", .needs = {{"a", {"B"}, 1000}}});
  CHECK(w.sent() == Lines{"gather-dep B: a, 1000 bytes"});
}

TEST_CASE("the number of transfers is limited only once enough bytes are under way",
          "[worker][fetch]") {
  World w({.transfer_incoming_count_limit = 1, .transfer_incoming_bytes_throttle_threshold = 50});
  w.compute({.key = "y", .needs = {{"a", {"B"}, 20}, {"b", {"C"}, 40}, {"c", {"D"}, 1}}});
  CHECK(w.sent() == Lines{"gather-dep B: a, 20 bytes", "gather-dep C: b, 40 bytes"});
  w.arrive("B", {"a"});
  CHECK(w.sent() == Lines{"add-keys a", "gather-dep D: c, 1 bytes"});
}

TEST_CASE("a key of unknown size counts as the default", "[worker][fetch]") {
  World w;
  w.compute({.key = "y", .needs = {{"x", {"B"}, 30}}});
  w.unreachable("B");  // Lost: its size is still known.
  w.sent();
  w.free({"y"});
  w.compute({.key = "a", .needs = {{"x", {"C"}, 40}}});
  CHECK(w.sent() == Lines{"gather-dep C: x, 40 bytes"});
}

// ---- busy ---------------------------------------------------------------------------------------

TEST_CASE("a busy peer is left alone and another holder asked", "[worker][fetch]") {
  World w;
  w.compute({.key = "y", .needs = {{"x", {"B", "C"}}}});
  CHECK(w.sent() == Lines{"gather-dep B: x, 1 bytes"});
  w.busy("B");
  CHECK(w.sent() == Lines{"retry-busy-worker-later B", "gather-dep C: x, 1 bytes"});
}

TEST_CASE("when every holder is busy the scheduler is asked for others", "[worker][fetch]") {
  World w;
  w.compute({.key = "y", .needs = {{"x", {"B"}}}});
  w.sent();
  w.busy("B");
  CHECK(w.sent() == Lines{"retry-busy-worker-later B", "request-refresh-who-has x"});
  w.refresh({{"x", {"B", "C"}}});
  CHECK(w.sent() == Lines{"gather-dep C: x, 1 bytes"});
}

TEST_CASE("a busy peer is asked again after the pause", "[worker][fetch]") {
  World w;
  w.compute({.key = "y", .needs = {{"x", {"B"}}}});
  w.busy("B");
  w.sent();
  w.retry("B");
  CHECK(w.sent() == Lines{"gather-dep B: x, 1 bytes"});
}

// ---- lost ---------------------------------------------------------------------------------------

TEST_CASE("an unreachable peer loses everything it was said to hold", "[worker][fetch]") {
  World w({.transfer_message_bytes_limit = 1});
  w.compute({.key = "y", .needs = {{"a", {"B"}}, {"b", {"B", "C"}}, {"c", {"B"}}}});
  CHECK(w.sent() == Lines{"gather-dep B: c, 1 bytes", "gather-dep C: b, 1 bytes"});
  w.unreachable("B");
  CHECK(w.sent() == Lines{});
  CHECK(w.state("a") == "missing");
  CHECK(w.state("b") == "flight");
  CHECK(w.state("c") == "missing");
  CHECK_FALSE(w.peer("B").valid());
}

TEST_CASE("after a failed transfer the next holder is asked", "[worker][fetch]") {
  World w;
  w.compute({.key = "y", .needs = {{"x", {"B", "C"}}}});
  w.sent();
  w.unreachable("B");
  CHECK(w.sent() == Lines{"gather-dep C: x, 1 bytes"});
}

TEST_CASE("missing keys are asked about again and again until they turn up", "[worker][fetch]") {
  World w;
  w.compute({.key = "y", .needs = {{"x", {"B"}}}});
  w.unreachable("B");
  w.sent();
  w.find_missing();
  CHECK(w.sent() == Lines{"request-refresh-who-has x"});
  w.refresh({{"x", {}}});
  CHECK(w.sent() == Lines{});
  w.find_missing();
  CHECK(w.sent() == Lines{"request-refresh-who-has x"});
  w.refresh({{"x", {"C"}}});
  CHECK(w.sent() == Lines{"gather-dep C: x, 1 bytes"});
  w.find_missing();
  CHECK(w.sent() == Lines{});
}

TEST_CASE("a missing key may be computed here instead", "[worker][fetch]") {
  World w;
  w.compute({.key = "y", .needs = {{"x", {"B"}}}});
  w.unreachable("B");
  w.sent();
  w.compute({.key = "x", .run = 4});
  CHECK(w.sent() == Lines{"execute x run 4"});
  w.finish("x");
  CHECK(w.sent() == Lines{"task-finished x run 4", "execute y run 1"});
}

TEST_CASE("a key that lost all holders while it waits for its turn is missing", "[worker][fetch]") {
  World w;
  w.pause();
  w.compute({.key = "y", .needs = {{"x", {"B"}}}});
  CHECK(w.state("x") == "fetch");
  w.refresh({{"x", {}}});
  CHECK(w.state("x") == "missing");
  w.unpause();
  CHECK(w.sent() == Lines{});
}

TEST_CASE("a holder that does not hold the key after all is struck off", "[worker][fetch]") {
  World w;
  w.compute({.key = "z", .needs = {{"x", {"B"}}, {"y", {"B", "C"}}}});
  w.sent();
  w.arrive("B", {});
  CHECK(w.sent() == Lines{"gather-dep C: y, 1 bytes"});
  CHECK(w.state("x") == "missing");
}

TEST_CASE("a value that was not asked for is dropped", "[worker][fetch]") {
  World w;
  w.compute({.key = "y", .needs = {{"x", {"B"}}}});
  w.sent();
  w.arrive("B", {"x", "stranger"});
  CHECK(w.sent() == Lines{"add-keys x", "execute y run 1", "drop ?"});
}

TEST_CASE("an answer that cannot be read errs the keys and leaves dependents waiting",
          "[worker][fetch]") {
  World w;
  w.compute({.key = "y", .needs = {{"x", {"B"}}}});
  w.sent();
  w.unreadable("B");
  CHECK(w.sent() == Lines{"task-erred x no run"});
  CHECK(w.state("x") == "error");
  CHECK(w.state("y") == "waiting");
}

TEST_CASE("a peer that leaves loses its queue but not its transfer", "[worker][fetch]") {
  World w({.transfer_message_bytes_limit = 1});
  w.compute({.key = "y", .needs = {{"a", {"B"}}, {"b", {"B"}}}});
  CHECK(w.sent() == Lines{"gather-dep B: b, 1 bytes"});
  w.remove_worker("B");
  CHECK(w.sent() == Lines{});
  CHECK(w.state("a") == "missing");
  CHECK(w.state("b") == "flight");
  w.arrive("B", {"b"});
  CHECK(w.sent() == Lines{"add-keys b"});
}

TEST_CASE("a peer that left and failed its transfer leaves the key missing", "[worker][fetch]") {
  World w;
  w.compute({.key = "y", .needs = {{"x", {"B"}}}});
  w.sent();
  w.remove_worker("B");
  w.unreachable("B");
  CHECK(w.sent() == Lines{});
  CHECK(w.state("x") == "missing");
}

TEST_CASE("news about forgotten keys and unknown peers is ignored", "[worker][fetch]") {
  World w;
  w.refresh({{"x", {"B"}}});
  w.remove_worker("C");
  CHECK(w.sent() == Lines{});
  CHECK(w.core().tasks().empty());
}

// ---- replicas, pause ----------------------------------------------------------------------------

TEST_CASE("a replica is fetched and announced", "[worker][fetch]") {
  World w;
  w.acquire({{"x", {"B"}, 10}});
  CHECK(w.sent() == Lines{"gather-dep B: x, 10 bytes"});
  w.arrive("B", {"x"});
  CHECK(w.sent() == Lines{"add-keys x"});
  CHECK(w.core().nbytes() == 10);
  w.acquire({{"x", {"B"}, 10}});
  CHECK(w.sent() == Lines{});
}

TEST_CASE("replicas come after dependencies of ordinary tasks and before those of low ones",
          "[worker][fetch]") {
  World w;
  w.pause();
  w.compute({.key = "low", .needs = {{"c", {"B"}}}, .priority = {2, 0, 0}});
  w.acquire({{"b", {"B"}}});
  w.compute({.key = "normal", .needs = {{"a", {"B"}}}, .priority = {0, 0, 0}});
  w.unpause();
  CHECK(w.sent() == Lines{"gather-dep B: a b c, 3 bytes"});
}

TEST_CASE("a paused worker finishes its transfers and starts none", "[worker][fetch]") {
  World w;
  w.compute({.key = "y", .needs = {{"a", {"B"}}}});
  w.pause();
  w.compute({.key = "z", .needs = {{"b", {"B"}}}});
  w.sent();
  w.arrive("B", {"a"});
  CHECK(w.sent() == Lines{"add-keys a"});
  w.unpause();
  CHECK(w.sent() == Lines{"execute y run 1", "gather-dep B: b, 1 bytes"});
}
