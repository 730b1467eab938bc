//! Upstream bugs about stealing, replayed: dask/distributed 5370, 6356, 8787, 6689.
#include "tests/scheduler/world.h"

using namespace scheduler;

namespace {

//! alice is busy with six tasks, bob has just come, and one theft is under way.
struct Scene {
  World w;
  WorkerId alice, bob;
  std::string key;
  std::uint64_t theft = 0;

  Scene() {
    alice = w.worker();
    for (int i = 0; i < 6; ++i) w.submit("s" + std::string(1, static_cast<char>('a' + i)));
    bob = w.worker();
    w.tick(1);
    const SendStealRequest request = w.take<SendStealRequest>().at(0);
    key = protocol::key_text(w.core.task(request.task).key());
    theft = request.theft;
    w.forget_sent();
  }
};

}  // namespace

TEST_CASE("5370: the confirmation of an old theft of a key cannot confirm a newer one",
          "[issues][stealing]") {
  Scene s;
  // The task is planned anew while the first theft is unanswered, and a second one begins.
  const Key key = protocol::string_key(s.key);
  s.w.step(TaskRescheduled{s.alice, key});
  s.w.tick(1);
  s.w.forget_sent();
  const WorkerId where = s.w.processing_on(s.key);
  const RunId run = s.w.run_of(s.key);
  s.w.answer_steal(s.alice, s.key, s.theft, VictimState::ready);
  CHECK(s.w.processing_on(s.key) == where);
  CHECK(s.w.run_of(s.key) == run);
  CHECK(s.w.nothing_else_sent());
}

TEST_CASE("6356: a worker that comes back at the thief's address is a stranger", "[issues][stealing]") {
  Scene s;
  s.w.lose(s.bob);
  // The same address, another incarnation, not yet running.
  WorkerAdded again;
  again.worker = WorkerId(77);
  again.address = "tcp://10.0.0.1:4001";
  again.host = "10.0.0.1";
  again.name = protocol::string_key("bob again");
  s.w.step(again);
  s.w.forget_sent();
  s.w.answer_steal(s.alice, s.key, s.theft, VictimState::ready);
  CHECK(s.w.processing_on(s.key) == s.alice);
  CHECK(s.w.core.worker(WorkerId(77)).processing.empty());
}

TEST_CASE("6356: a worker that comes back at the victim's address has no tasks", "[issues][stealing]") {
  Scene s;
  s.w.lose(s.alice);
  WorkerAdded again;
  again.worker = WorkerId(77);
  again.address = "tcp://10.0.0.1:4000";
  again.host = "10.0.0.1";
  again.name = protocol::string_key("alice again");
  s.w.step(again);
  s.w.answer_steal(WorkerId(77), s.key, s.theft, VictimState::none);
  CHECK(s.w.processing_on(s.key) == s.bob);
}

TEST_CASE("8787: the task is released before the victim answers", "[issues][stealing]") {
  Scene s;
  const TaskId id = s.w.id(s.key);
  s.w.release({s.key});
  CHECK(!s.w.inner().thefts.in_flight.contains(id));
  s.w.forget_sent();
  s.w.answer_steal(s.alice, s.key, s.theft, VictimState::ready);
  CHECK(s.w.nothing_else_sent());
}

TEST_CASE("8787: the task is released and wanted again before the victim answers", "[issues][stealing]") {
  Scene s;
  s.w.release({s.key});
  s.w.submit(s.key);
  s.w.forget_sent();
  const WorkerId where = s.w.processing_on(s.key);
  s.w.answer_steal(s.alice, s.key, s.theft, VictimState::ready);
  CHECK(s.w.processing_on(s.key) == where);
  CHECK(s.w.nothing_else_sent());
}

TEST_CASE("6689: a stolen task that fails on the victim all the same does not deadlock",
          "[issues][stealing]") {
  Scene s;
  const RunId old = s.w.run_of(s.key);
  s.w.answer_steal(s.alice, s.key, s.theft, VictimState::ready);
  REQUIRE(s.w.processing_on(s.key) == s.bob);
  s.w.forget_sent();
  s.w.err(s.key, s.alice, old);
  CHECK(s.w.processing_on(s.key) == s.bob);
  CHECK(s.w.nothing_else_sent());
  s.w.finish(s.key);
  CHECK(s.w.state(s.key) == TaskState::memory);
}
