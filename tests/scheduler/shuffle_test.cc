//! P2P shuffles as the core sees them: runs, who holds which output, restarts. Rows W6, W7.
//!
//! Every story has the same shape: transfers t-0, t-1 -> the barrier of shuffle s -> outputs o-0 ... o-3.
#include "scheduler/core/shuffle.h"

#include <algorithm>
#include <map>

#include "tests/scheduler/world.h"

using namespace scheduler;

namespace {

const std::string kBarrier = "shuffle-barrier-s";

ShuffleSpecRef frame_of(const std::string& id, std::uint64_t npartitions) {
  auto spec = std::make_shared<ShuffleSpec>();
  spec->id = id;
  spec->npartitions = npartitions;
  for (std::uint64_t i = 0; i < npartitions; ++i) spec->parts_out.push_back(i);
  return spec;
}

ShuffleSpecRef array_of(std::vector<std::uint32_t> chunks) {
  auto spec = std::make_shared<ShuffleSpec>();
  spec->kind = ShuffleSpec::Kind::array;
  spec->id = "s";
  spec->chunks = std::move(chunks);
  return spec;
}

Node barrier(const std::string& key, std::vector<std::string> needs, ShuffleSpecRef spec) {
  Node node{key, std::move(needs)};
  node.shuffle = std::move(spec);
  return node;
}

void shuffle_graph(World& w, const ShuffleSpecRef& spec = frame_of("s", 4)) {
  w.graph({{"t-0"}, {"t-1"}, barrier(kBarrier, {"t-0", "t-1"}, spec), {"o-0", {kBarrier}},
           {"o-1", {kBarrier}}, {"o-2", {kBarrier}}, {"o-3", {kBarrier}}});
}

void start(World& w, const std::string& key, const std::string& shuffle = "s") {
  const Key name = protocol::string_key(key);
  w.step(ShuffleStarted{shuffle, name, w.processing_on(key)});
}

void pin(World& w, const std::string& key, WorkerId worker, std::uint64_t run) {
  const Key name = protocol::string_key(key);
  w.step(ShuffleTaskPinned{"s", run, name, worker});
}

void reschedule(World& w, const std::string& key) {
  const Key name = protocol::string_key(key);
  w.step(TaskRescheduled{w.processing_on(key), name});
}

//! Both transfers and the barrier are done.
void pass_barrier(World& w) {
  for (const char* key : {"t-0", "t-1"}) {
    start(w, key);
    w.finish(key);
  }
  w.finish(kBarrier);
}

const ShuffleRun* run(const World& w, const std::string& shuffle = "s") {
  return find_run(w.inner(), shuffle);
}

SendShuffleFail fail(WorkerId worker, std::uint64_t run, const std::string& message) {
  return SendShuffleFail{worker, "s", run, message};
}

std::string state_text(int run) { return "SchedulerShuffleState<s[" + std::to_string(run) + "]>"; }

Note note(Note::Kind kind, const std::string& key) { return Note{kind, protocol::string_key(key)}; }

}  // namespace

TEST_CASE("the first transfer that asks begins the run; partitions are pinned in ranges", "[shuffle]") {
  World w;
  const WorkerId alice = w.worker();
  const WorkerId bob = w.worker();
  shuffle_graph(w);
  w.forget_sent();
  CHECK(run(w) == nullptr);
  start(w, "t-0");
  start(w, "t-1");
  REQUIRE(run(w) != nullptr);
  CHECK(run(w)->number == 1);
  CHECK(run(w)->worker_for == std::vector<WorkerId>{alice, alice, bob, bob});
  CHECK(run(w)->participants == std::vector<WorkerId>{alice, bob});
  CHECK(w.nothing_else_sent());
}

TEST_CASE("a worker that asks takes part", "[shuffle]") {
  World w;
  const WorkerId alice = w.worker();
  shuffle_graph(w);
  start(w, "t-0");
  CHECK(run(w)->participants == std::vector<WorkerId>{alice});
  const WorkerId bob = w.worker();
  w.step(ShuffleJoined{"s", bob});
  CHECK(run(w)->participants == std::vector<WorkerId>{alice, bob});
  CHECK(run(w)->worker_for == std::vector<WorkerId>(4, alice));
}

TEST_CASE("a transfer of a large graph may begin the run before the barrier is activated", "[shuffle]") {
  World w;
  w.worker();
  w.worker();
  std::vector<std::string> transfers;
  std::vector<Node> nodes;
  for (int i = 0; i < 5'000; ++i) {
    transfers.push_back("t-" + std::to_string(i));
    nodes.push_back({transfers.back()});
  }
  nodes.push_back(barrier(kBarrier, transfers, frame_of("s", 4)));
  for (int i = 0; i < 4; ++i) nodes.push_back({"o-" + std::to_string(i), {kBarrier}});
  const SubmissionId graph = w.open();
  w.stage(graph, nodes);
  w.want(graph, {"o-0", "o-1", "o-2", "o-3"});
  w.commit(graph, false);
  while (w.state("t-0") != TaskState::processing) REQUIRE(w.turn());
  REQUIRE(w.task(kBarrier).state == TaskState::staged);
  start(w, "t-0");
  w.forget_sent();
  w.turns();
  CHECK(w.state(kBarrier) == TaskState::waiting);
  REQUIRE(run(w) != nullptr);
  CHECK(run(w)->number == 1);
  CHECK(w.took<SendShuffleFail>() == 0);
}

TEST_CASE("outputs of an array are spread evenly, whatever its dimensions", "[shuffle]") {
  const auto chunks = GENERATE(std::vector<std::uint32_t>{17}, std::vector<std::uint32_t>{3, 5},
                               std::vector<std::uint32_t>{10, 10, 10},
                               std::vector<std::uint32_t>{4, 8, 16}, std::vector<std::uint32_t>{2, 2, 2, 2},
                               std::vector<std::uint32_t>{1, 7, 1, 9, 3});
  const int workers = GENERATE(1, 2, 3, 7, 10);
  World w;
  for (int i = 0; i < workers; ++i) w.worker();
  shuffle_graph(w, array_of(chunks));
  start(w, "t-0");
  std::map<WorkerId, std::uint64_t> held;
  for (const WorkerId worker : w.inner().living) held[worker] = 0;
  for (const WorkerId worker : run(w)->worker_for) ++held[worker];
  std::uint64_t most = 0, least = ~std::uint64_t{0};
  for (const auto& [worker, count] : held) {
    most = std::max(most, count);
    least = std::min(least, count);
  }
  CHECK(run(w)->worker_for.size() == run(w)->spec->outputs());
  CHECK(most - least <= 1);
}

TEST_CASE("in two dimensions the spread is stock's: the first axis runs fastest", "[shuffle]") {
  World w;
  const WorkerId a = w.worker(), b = w.worker();
  shuffle_graph(w, array_of({2, 3}));
  start(w, "t-0");
  // (0,0) (0,1) (0,2) (1,0) (1,1) (1,2)
  CHECK(run(w)->worker_for == std::vector<WorkerId>{a, a, b, a, b, b});
}

TEST_CASE("the next shuffle begins with the next worker", "[shuffle]") {
  World w;
  const WorkerId alice = w.worker(), bob = w.worker();
  shuffle_graph(w);
  w.graph({{"u"}, barrier("shuffle-barrier-r", {"u"}, frame_of("r", 2)), {"p", {"shuffle-barrier-r"}}});
  start(w, "t-0");
  w.finish("t-0");
  w.finish("t-1");
  start(w, "u", "r");
  CHECK(run(w, "r")->number == 2);
  CHECK(run(w, "r")->worker_for == std::vector<WorkerId>{bob, alice});
}

TEST_CASE("two shuffles that share outputs agree on them even if a worker came between", "[shuffle]") {
  World w;
  w.worker({.threads = 2});
  w.graph({{"t-0"}, {"u-0"}, barrier(kBarrier, {"t-0"}, frame_of("s", 4)),
           barrier("shuffle-barrier-r", {"u-0"}, frame_of("r", 4)),
           {"join-0", {kBarrier, "shuffle-barrier-r"}}});
  start(w, "t-0");
  w.worker();
  start(w, "u-0", "r");
  CHECK(run(w, "r")->number == 2);
  CHECK(run(w, "r")->worker_for == run(w)->worker_for);
}

TEST_CASE("a barrier's restrictions say who may hold outputs; who does not run holds none", "[shuffle]") {
  World w;
  w.worker();
  const WorkerId bob = w.worker();
  w.set_status(w.worker(), WorkerStatus::paused);
  Node limited = barrier(kBarrier, {"t-0"}, frame_of("s", 4));
  limited.annotations.workers.push_back(protocol::string_key("tcp://10.0.0.1:4001"));
  w.graph({{"t-0"}, limited, {"o-0", {kBarrier}}});
  start(w, "t-0");
  CHECK(run(w)->worker_for == std::vector<WorkerId>(4, bob));
}

TEST_CASE("a run does not begin for a task that is not meant to run, or without its barrier", "[shuffle]") {
  World w;
  w.worker();
  shuffle_graph(w);
  const Key t0 = protocol::string_key("t-0"), output = protocol::string_key("o-0");
  const Key stranger = protocol::string_key("stranger");
  CHECK(may_start(w.inner(), "s", t0) == ShuffleRefusal::none);
  CHECK(may_start(w.inner(), "s", output) == ShuffleRefusal::not_processing);
  CHECK(may_start(w.inner(), "s", stranger) == ShuffleRefusal::no_transfer);
  CHECK(may_start(w.inner(), "other", t0) == ShuffleRefusal::no_barrier);
  w.submit("shuffle-barrier-plain");
  CHECK(may_start(w.inner(), "plain", t0) == ShuffleRefusal::no_spec);
}

TEST_CASE("an output on the wrong worker is pinned to the right one and set free at the end", "[shuffle]") {
  World w;
  const WorkerId alice = w.worker();
  const WorkerId bob = w.worker();
  shuffle_graph(w);
  pass_barrier(w);
  const WorkerId wrong = w.processing_on("o-0");
  const WorkerId right = wrong == alice ? bob : alice;
  pin(w, "o-0", right, 1);
  pin(w, "o-0", wrong, 1);    // the other side of a join comes too late
  pin(w, "o-1", right, 7);    // another run
  CHECK(!w.task("o-1").restricted());
  reschedule(w, "o-0");
  CHECK(w.processing_on("o-0") == right);
  CHECK(w.task("o-0").restrictions()->workers ==
        std::vector<std::string>{w.core.worker(right).address});
  for (const char* key : {"o-1", "o-2", "o-3"}) w.finish(key);
  w.forget_sent();
  const TaskId last = w.id("o-0"), middle = w.id(kBarrier);
  const WorkerId holder = w.task(kBarrier).who_has[0].worker;
  w.finish("o-0");
  CHECK(w.sent() == Actions{ReportInMemory{w.me(), last, Slice()}, SendFree{holder, middle},
                            fail(alice, 1, state_text(1) + " forgotten"),
                            fail(bob, 1, state_text(1) + " forgotten"),
                            note(Note::Kind::shuffle_ended, "s")});
  CHECK(run(w) == nullptr);
  CHECK(!w.task("o-0").restricted());
}

TEST_CASE("W6: a participant lost before the barrier restarts the shuffle under a higher run", "[shuffle][W6]") {
  World w;
  const WorkerId alice = w.worker();
  const WorkerId bob = w.worker();
  shuffle_graph(w);
  start(w, "t-0");
  REQUIRE(w.processing_on("t-0") == alice);
  w.finish("t-0");
  start(w, "t-1");
  REQUIRE(w.processing_on("t-1") == bob);
  const TaskId t0 = w.id("t-0"), t1 = w.id("t-1");
  w.forget_sent();
  w.lose(bob);
  // What t-0 sent to bob is gone, so t-0 begins again as well.
  CHECK(w.sent() ==
        Actions{fail(alice, 1, "Worker tcp://10.0.0.1:4001 left during active " + state_text(1)),
                note(Note::Kind::shuffle_ended, "s"), note(Note::Kind::shuffle_restarted, kBarrier),
                SendFree{alice, t0}, AnnounceWorkerGone{bob}, SendCompute{alice, t1, RunId(5)},
                SendCompute{alice, t0, RunId(6)}});
  CHECK(run(w) == nullptr);
  start(w, "t-0");
  CHECK(run(w)->number == 2);
  CHECK(run(w)->worker_for == std::vector<WorkerId>(4, alice));
}

TEST_CASE("W7: a participant lost after the barrier restarts it whole, finished outputs included", "[shuffle][W7]") {
  World w;
  const WorkerId alice = w.worker();
  const WorkerId bob = w.worker();
  shuffle_graph(w);
  pass_barrier(w);
  w.finish("o-0");
  w.forget_sent();
  w.lose(bob);
  const auto told = w.take<SendShuffleFail>();
  REQUIRE(told.size() == 1);
  CHECK(told[0].worker == alice);
  CHECK(run(w) == nullptr);
  CHECK(w.state("t-0") == TaskState::processing);
  CHECK(w.state("t-1") == TaskState::processing);
  CHECK(w.state(kBarrier) == TaskState::waiting);
  for (const char* key : {"o-0", "o-1", "o-2", "o-3"}) CHECK(w.state(key) == TaskState::waiting);
  pass_barrier(w);
  CHECK(w.inner().shuffles.last_run == 2);
  for (const char* key : {"o-0", "o-1", "o-2", "o-3"}) w.finish(key);
  CHECK(run(w) == nullptr);
}

TEST_CASE("W6: workers that take no part may go", "[shuffle][W6]") {
  World w;
  const WorkerId alice = w.worker();
  shuffle_graph(w);
  start(w, "t-0");
  const WorkerId bob = w.worker();
  w.forget_sent();
  w.lose(bob);
  CHECK(w.sent() == Actions{AnnounceWorkerGone{bob}});
  CHECK(run(w)->participants == std::vector<WorkerId>{alice});
}

TEST_CASE("W9: a shuffle that lost all its workers waits and begins again", "[shuffle][W9]") {
  World w;
  const WorkerId alice = w.worker();
  shuffle_graph(w);
  start(w, "t-0");
  w.lose(alice);
  CHECK(run(w) == nullptr);
  CHECK(w.state("t-0") == TaskState::queued);
  w.worker();
  pass_barrier(w);
  CHECK(run(w)->number == 2);
}

TEST_CASE("transfers of different runs make the barrier begin again", "[shuffle]") {
  World w;
  const WorkerId alice = w.worker({.threads = 2});
  shuffle_graph(w);
  for (const char* key : {"t-0", "t-1"}) {
    start(w, key);
    w.finish(key);
  }
  w.forget_sent();
  w.step(ShuffleRestarted{"s", 5});
  CHECK(w.nothing_else_sent());
  w.step(ShuffleRestarted{"s", 1});
  CHECK(w.took<SendShuffleFail>() == 1);
  CHECK(w.state("t-0") == TaskState::processing);
  CHECK(w.state("t-1") == TaskState::processing);
  CHECK(w.state(kBarrier) == TaskState::waiting);
  CHECK(w.task(kBarrier).waiting_on == 2);
  CHECK(run(w) == nullptr);
  CHECK(w.processing_count(alice) == 2);
}

TEST_CASE("a transfer that errs ends the run and nothing of it is tried again", "[shuffle]") {
  World w;
  const WorkerId alice = w.worker();
  const WorkerId bob = w.worker();
  shuffle_graph(w);
  start(w, "t-0");
  w.forget_sent();
  w.err("t-0");
  CHECK(w.take<Note>() == std::vector<Note>{note(Note::Kind::shuffle_failed, "s"),
                                            note(Note::Kind::shuffle_ended, "s")});
  CHECK(w.take<SendShuffleFail>() ==
        std::vector<SendShuffleFail>{fail(alice, 1, state_text(1) + " forgotten"),
                                     fail(bob, 1, state_text(1) + " forgotten")});
  CHECK(w.took<ReportErred>() == 4);
  w.lose(bob);
  CHECK(w.state("o-0") == TaskState::erred);
  CHECK(w.took<SendCompute>() == 0);
}

TEST_CASE("cancelling in the middle ends the run; the same graph can run again", "[shuffle][C7]") {
  World w;
  const WorkerId alice = w.worker();
  shuffle_graph(w);
  start(w, "t-0");
  w.forget_sent();
  w.cancel({"o-0", "o-1", "o-2", "o-3"});
  CHECK(w.take<SendShuffleFail>() ==
        std::vector<SendShuffleFail>{fail(alice, 1, state_text(1) + " forgotten")});
  CHECK(!w.knows(kBarrier));
  shuffle_graph(w);
  pass_barrier(w);
  CHECK(run(w)->number == 2);
  for (const char* key : {"o-0", "o-1", "o-2", "o-3"}) w.finish(key);
  CHECK(run(w) == nullptr);
}

TEST_CASE("outputs are never queued, so that each finds its worker at once", "[shuffle]") {
  World w;
  w.worker();
  std::vector<Node> nodes{{"t-0"}, barrier(kBarrier, {"t-0"}, frame_of("s", 9))};
  for (int i = 0; i < 9; ++i) nodes.push_back({"o-" + std::to_string(i), {kBarrier}});
  w.graph(nodes);
  start(w, "t-0");
  w.finish("t-0");
  w.finish(kBarrier);
  for (int i = 0; i < 9; ++i) CHECK(w.state("o-" + std::to_string(i)) == TaskState::processing);
}

TEST_CASE("a restart of the cluster forgets runs; their numbers go on", "[shuffle][C14]") {
  World w;
  w.worker();
  shuffle_graph(w);
  start(w, "t-0");
  w.step(Restarted{});
  CHECK(run(w) == nullptr);
  shuffle_graph(w);
  start(w, "t-0");
  CHECK(run(w)->number == 2);
}
