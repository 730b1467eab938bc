//! Work stealing: requests, answers, and answers that come too late.
#include "tests/scheduler/world.h"

using namespace scheduler;

namespace {

//! alice has six tasks of unknown length to run one after the other; bob has none.
struct Unbalanced {
  World w;
  WorkerId alice, bob;
  SendStealRequest request{};

  Unbalanced() {
    alice = w.worker({.name = "alice"});
    Annotations there;
    there.workers = {protocol::string_key("alice")};
    there.allow_other_workers = true;
    w.scatter("x", {alice}, 1'000'000'000);
    for (int i = 0; i < 6; ++i) w.graph({{"t-" + std::to_string(i), {"x"}}});
    bob = w.worker();
    w.forget_sent();
  }
  std::string balance() {
    w.tick(1);
    const auto requests = w.take<SendStealRequest>();
    if (requests.empty()) return "";
    request = requests.front();
    return protocol::key_text(w.core.task(request.task).key());
  }
};

}  // namespace

TEST_CASE("an idle worker makes a busy one be asked for a task", "[scheduler][stealing]") {
  World w;
  const WorkerId alice = w.worker();
  w.map("slow", 2);
  for (int i = 0; i < 8; ++i) w.submit("s" + std::string(1, static_cast<char>('a' + i)));
  w.worker();
  w.forget_sent();
  w.tick(1);
  const auto requests = w.take<SendStealRequest>();
  REQUIRE(!requests.empty());
  CHECK(requests[0].worker == alice);
  CHECK(w.nothing_else_sent());
}

TEST_CASE("nothing is stolen when nobody or everybody is idle", "[scheduler][stealing]") {
  World w;
  w.worker();
  w.worker();
  w.tick(1);
  CHECK(w.nothing_else_sent());
}

TEST_CASE("dear inputs make a task not worth stealing", "[scheduler][stealing]") {
  Unbalanced u;
  CHECK(u.balance() == "");
}

namespace {

//! Six short-named tasks without inputs on alice, then bob arrives and a theft is under way.
struct Theft_ {
  World w;
  WorkerId alice, bob;
  std::string key;
  std::uint64_t id = 0;

  Theft_() {
    alice = w.worker();
    for (int i = 0; i < 6; ++i) w.submit("s" + std::string(1, static_cast<char>('a' + i)));
    bob = w.worker();
    w.forget_sent();
    w.tick(1);
    const SendStealRequest request = w.take<SendStealRequest>().at(0);
    key = protocol::key_text(w.core.task(request.task).key());
    id = request.theft;
    w.forget_sent();
  }
};

}  // namespace

TEST_CASE("a confirmed theft moves the task under a new run", "[scheduler][stealing]") {
  Theft_ t;
  const RunId old = t.w.run_of(t.key);
  t.w.answer_steal(t.alice, t.key, t.id, VictimState::ready);
  CHECK(t.w.processing_on(t.key) == t.bob);
  CHECK(t.w.run_of(t.key) != old);
  CHECK(t.w.sent() == Actions{SendCompute{t.bob, t.w.id(t.key), t.w.run_of(t.key)}});
}

TEST_CASE("a theft of a task that runs already changes nothing", "[scheduler][stealing]") {
  Theft_ t;
  t.w.answer_steal(t.alice, t.key, t.id, VictimState::executing);
  CHECK(t.w.processing_on(t.key) == t.alice);
  CHECK(t.w.nothing_else_sent());
}

TEST_CASE("a victim that does not know the task makes it be planned anew", "[scheduler][stealing]") {
  Theft_ t;
  t.w.answer_steal(t.alice, t.key, t.id, VictimState::none);
  CHECK(t.w.take<SendFree>() == std::vector{SendFree{t.alice, t.w.id(t.key)}});
  CHECK(t.w.took<SendCompute>() == 1);
}

TEST_CASE("an odd state in the answer is taken as: nothing", "[scheduler][stealing]") {
  Theft_ t;
  t.w.answer_steal(t.alice, t.key, t.id, VictimState::other);
  CHECK(t.w.processing_on(t.key) == t.alice);
  CHECK(t.w.nothing_else_sent());
}

TEST_CASE("the thief is gone when the victim agrees: planned anew", "[scheduler][stealing]") {
  Theft_ t;
  t.w.lose(t.bob);
  t.w.forget_sent();
  t.w.answer_steal(t.alice, t.key, t.id, VictimState::ready);
  CHECK(t.w.processing_on(t.key) == t.alice);
  CHECK(t.w.took<SendFree>() == 1);
  CHECK(t.w.took<SendCompute>() == 1);
}

TEST_CASE("an answer that comes twice is ignored the second time", "[scheduler][stealing]") {
  Theft_ t;
  t.w.answer_steal(t.alice, t.key, t.id, VictimState::ready);
  t.w.forget_sent();
  t.w.answer_steal(t.alice, t.key, t.id, VictimState::ready);
  CHECK(t.w.nothing_else_sent());
}

TEST_CASE("the victim finishes the task before it answers", "[scheduler][stealing]") {
  Theft_ t;
  t.w.finish(t.key);
  t.w.forget_sent();
  t.w.answer_steal(t.alice, t.key, t.id, VictimState::memory);
  CHECK(t.w.state(t.key) == TaskState::memory);
  CHECK(t.w.nothing_else_sent());
  CHECK(!t.w.inner().thefts.in_flight.contains(t.w.id(t.key)));
}
