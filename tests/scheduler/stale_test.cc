//! Late, doubled and made-up messages. The run id decides what is believed.
#include "tests/scheduler/world.h"

using namespace scheduler;

TEST_CASE("a result from elsewhere than the assigned worker is freed, not stored", "[scheduler][stale]") {
  World w;
  const WorkerId alice = w.worker();
  const WorkerId bob = w.worker();
  const TaskId x = w.submit("x");
  w.forget_sent();
  w.finish("x", bob, RunId(77));
  CHECK(w.sent() == Actions{SendFree{bob, x}});
  CHECK(w.processing_on("x") == alice);
}

TEST_CASE("a stale result of the assigned worker makes it begin again", "[scheduler][stale]") {
  World w;
  const WorkerId alice = w.worker();
  const TaskId x = w.submit("x");
  w.forget_sent();
  w.finish("x", alice, RunId(77));
  CHECK(w.sent() == Actions{SendFree{alice, x}, SendCompute{alice, x, RunId(1)}});
}

TEST_CASE("a doubled result changes nothing", "[scheduler][stale]") {
  World w;
  const WorkerId alice = w.worker();
  w.submit("x");
  const RunId run = w.run_of("x");
  w.finish("x");
  w.forget_sent();
  w.finish("x", alice, run);
  CHECK(w.nothing_else_sent());
  CHECK(w.task("x").who_has.size() == 1);
}

TEST_CASE("a result for an unknown key is freed", "[scheduler][stale]") {
  World w;
  const WorkerId alice = w.worker();
  w.finish("x", alice, RunId(0));
  CHECK(w.sent() == Actions{SendFreeUnknown{alice, protocol::string_key("x")}});
}

TEST_CASE("a result for a released task is freed", "[scheduler][stale]") {
  World w;
  const WorkerId alice = w.worker();
  w.graph({{"a"}, {"b", {"a"}}});
  w.finish("a");
  const RunId run = w.run_of("a");
  w.finish("b");
  REQUIRE(w.state("a") == TaskState::released);
  w.forget_sent();
  w.finish("a", alice, run);
  CHECK(w.sent() == Actions{SendFree{alice, w.id("a")}});
}

TEST_CASE("a result for an erred task is freed", "[scheduler][stale]") {
  World w;
  const WorkerId alice = w.worker();
  w.submit("x");
  const RunId run = w.run_of("x");
  w.err("x");
  w.forget_sent();
  w.finish("x", alice, run);
  CHECK(w.sent() == Actions{SendFree{alice, w.id("x")}});
  CHECK(w.state("x") == TaskState::erred);
}

TEST_CASE("a result of a waiting task's last run is overtaken by its cancellation", "[scheduler][stale]") {
  World w;
  const WorkerId alice = w.worker();
  w.submit("x");
  w.finish("x");
  w.set_status(alice, WorkerStatus::paused);
  const WorkerId bob = w.worker();
  w.graph({{"y", {"x"}}});
  const RunId run = w.run_of("y");
  w.lose(alice);  // y goes back to waiting; bob was told to drop it
  REQUIRE(w.state("y") == TaskState::waiting);
  w.forget_sent();
  w.finish("y", bob, run);
  CHECK(w.state("y") == TaskState::waiting);
  CHECK(w.nothing_else_sent());
}

TEST_CASE("an old result beside the real one is freed, and tasks that use the real one begin again",
          "[scheduler][stale]") {
  World w;
  const WorkerId alice = w.worker();
  w.submit("x");
  w.finish("x");
  w.set_status(alice, WorkerStatus::paused);
  const WorkerId bob = w.worker();
  w.graph({{"y", {"x"}}});
  w.forget_sent();
  w.finish("x", bob, RunId(500));
  CHECK(w.sent() == Actions{SendFree{bob, w.id("y")}, SendFree{bob, w.id("x")},
                            SendCompute{bob, w.id("y"), RunId(2)}});
}

TEST_CASE("an error of another run is ignored", "[scheduler][stale]") {
  World w;
  w.worker();
  const WorkerId bob = w.worker();
  w.submit("x");
  w.forget_sent();
  w.err("x", bob, RunId(77));
  CHECK(w.state("x") == TaskState::processing);
  CHECK(w.nothing_else_sent());
}

TEST_CASE("a stale error of the assigned worker makes it begin again", "[scheduler][stale]") {
  World w;
  const WorkerId alice = w.worker();
  const TaskId x = w.submit("x");
  w.forget_sent();
  w.err("x", alice, RunId(77));
  CHECK(w.sent() == Actions{SendFree{alice, x}, SendCompute{alice, x, RunId(1)}});
}

TEST_CASE("an error for a task that is done is ignored", "[scheduler][stale]") {
  World w;
  const WorkerId alice = w.worker();
  w.submit("x");
  const RunId run = w.run_of("x");
  w.finish("x");
  w.forget_sent();
  w.err("x", alice, run);
  w.err("unknown", alice, run);
  CHECK(w.state("x") == TaskState::memory);
  CHECK(w.nothing_else_sent());
}

TEST_CASE("add-keys for a key that is not in memory is answered with remove-replicas", "[scheduler][stale]") {
  World w;
  w.worker();
  const WorkerId bob = w.worker();
  w.submit("x");
  w.forget_sent();
  w.add_keys(bob, {"x", "unknown"});
  CHECK(w.sent() == Actions{SendRemoveReplica{bob, protocol::string_key("x")},
                            SendRemoveReplica{bob, protocol::string_key("unknown")}});
}

TEST_CASE("release-worker-data of a replica we know nothing of is ignored", "[scheduler][stale]") {
  World w;
  w.worker();
  const WorkerId bob = w.worker();
  w.submit("x");
  w.finish("x");
  w.forget_sent();
  w.drop_key(bob, "x");
  w.drop_key(bob, "unknown");
  CHECK(w.state("x") == TaskState::memory);
  CHECK(w.nothing_else_sent());
}

TEST_CASE("release-worker-data of the last replica makes a wanted task run again", "[scheduler][stale]") {
  World w;
  const WorkerId alice = w.worker();
  const TaskId x = w.submit("x");
  w.finish("x");
  w.forget_sent();
  w.drop_key(alice, "x");
  CHECK(w.sent() == Actions{ReportLost{w.me(), x}, SendCompute{alice, x, RunId(1)}});
}

TEST_CASE("a worker that misses data is told who has it, and to free what is unknown", "[scheduler][stale]") {
  World w;
  w.worker();
  const WorkerId bob = w.worker();
  const TaskId x = w.submit("x");
  w.finish("x");
  w.forget_sent();
  const Key known = protocol::string_key("x"), unknown = protocol::string_key("gone");
  const std::vector<KeyView> keys{unknown, known};
  w.step(WhoHasRequested{bob, keys});
  CHECK(w.sent() == Actions{SendRefreshWhoHas{bob, {x}}, SendFreeUnknown{bob, unknown}});
}

TEST_CASE("a reschedule from a worker that is not asked is ignored", "[scheduler][stale]") {
  World w;
  const WorkerId alice = w.worker();
  const WorkerId bob = w.worker();
  const TaskId x = w.submit("x");
  w.forget_sent();
  const Key key = protocol::string_key("x");
  w.step(TaskRescheduled{bob, key});
  CHECK(w.nothing_else_sent());
  w.step(TaskRescheduled{alice, key});
  CHECK(w.took<SendFree>() == 1);
  CHECK(w.take<SendCompute>().at(0).task == x);
}

TEST_CASE("events about workers, clients and graphs nobody knows are ignored", "[scheduler][stale]") {
  World w;
  w.step(WorkerStatusChanged{WorkerId(9), WorkerStatus::running});
  w.step(WorkerLost{WorkerId(9), false});
  w.step(WorkerHeartbeat{WorkerId(9), 1, 1, 1, 1, {}});
  w.step(ClientRemoved{ClientId(9)});
  w.desire({"x"}, ClientId(9));
  w.release({"x"}, ClientId(9));
  w.cancel({"x"}, true, ClientId(9));
  w.step(GraphCommitted{SubmissionId(9)});
  w.step(GraphDropped{SubmissionId(9)});
  w.step(GraphRecords{SubmissionId(9), {}});
  w.answer_steal(WorkerId(9), "x", 0, VictimState::ready);
  CHECK(w.nothing_else_sent());
}
