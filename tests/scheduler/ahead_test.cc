//! Work handed ahead: batches and chains on rask workers, and how each way of undoing them ends.
#include "scheduler/core/shuffle.h"
#include "tests/scheduler/world.h"

using namespace scheduler;

namespace {

Config short_tasks() {
  Config config;
  config.default_task_durations = {{"inc", 0.0001}, {"a", 0.0001}, {"b", 0.0001}, {"c", 0.0001}};
  return config;
}

WorkerOptions rask_worker(std::uint64_t memory_limit = 0) {
  WorkerOptions options;
  options.rask = true;
  options.memory_limit = memory_limit;
  return options;
}

//! bob runs one of a hundred short tasks; two stand in his slots and twenty are held.
struct Batch {
  World w{short_tasks()};
  WorkerId bob;
  Batch() {
    w.tasks_take(0.0001);
    bob = w.worker(rask_worker());
    w.map("inc", 100);
    w.forget_sent();
  }
  std::size_t held() const { return w.core.worker(bob).held.size(); }
  static std::string key(int number) { return "inc-" + std::to_string(number); }
};

//! a -> b -> c on bob, a being processed.
struct Chain {
  World w{short_tasks()};
  WorkerId bob;
  Chain() {
    w.tasks_take(0.0001);
    bob = w.worker(rask_worker());
    w.graph({{"a"}, {"b", {"a"}}, {"c", {"b"}}});
  }
};

}  // namespace

// ---- batches ------------------------------------------------------------------------------------

TEST_CASE("a rask worker is given 2 ms of short tasks ahead, and they stay queued", "[ahead]") {
  World w(short_tasks());
  const WorkerId bob = w.worker(rask_worker());
  w.map("inc", 100);
  CHECK(w.processing_count(bob) == 2);
  CHECK(w.took<SendCompute>() == 22);
  CHECK(w.state("inc-1") == TaskState::processing);
  CHECK(w.state("inc-2") == TaskState::queued);
  CHECK(w.task("inc-2").ahead_on == bob);
  CHECK(w.state("inc-22") == TaskState::queued);
  CHECK(!w.task("inc-22").ahead_on.valid());
  CHECK(w.inner().occupancy(w.core.worker(bob)) == Approx(0.0002));
}

TEST_CASE("a free slot goes to what the worker holds, without a message", "[ahead]") {
  Batch b;
  b.w.finish("inc-0");
  CHECK(b.w.state("inc-2") == TaskState::processing);
  CHECK(b.w.took<ReportInMemory>() == 1);
  CHECK(b.w.nothing_else_sent());
}

TEST_CASE("a worker is refilled when half of what it held is gone", "[ahead]") {
  Batch b;
  for (int i = 0; i < 9; ++i) b.w.finish(Batch::key(i));
  CHECK(b.w.took<SendCompute>() == 0);
  b.w.finish(Batch::key(9));
  CHECK(b.w.took<SendCompute>() == 10);
  CHECK(b.held() == 20);
}

TEST_CASE("a result that comes before its slot is believed", "[ahead]") {
  Batch b;
  b.w.finish("inc-5", b.bob, b.w.run_of("inc-5"));
  CHECK(b.w.state("inc-5") == TaskState::memory);
  CHECK(b.w.processing_count(b.bob) == 2);
  const auto lines = b.w.inner().story.about({b.w.task("inc-5").key()}, {});
  REQUIRE(lines.size() >= 2);
  CHECK(lines[lines.size() - 2].from == TaskState::queued);
  CHECK(lines[lines.size() - 2].to == TaskState::processing);
}

TEST_CASE("an error in the middle of a batch is that task's alone", "[ahead]") {
  Batch b;
  b.w.err("inc-5", b.bob, b.w.run_of("inc-5"));
  CHECK(b.w.state("inc-5") == TaskState::erred);
  CHECK(b.w.state("inc-6") == TaskState::queued);
  CHECK(b.w.took<ReportErred>() == 1);
  CHECK(b.w.nothing_else_sent());
}

TEST_CASE("a stock worker is given what stock gives it", "[ahead]") {
  World w(short_tasks());
  const WorkerId alice = w.worker();
  w.map("inc", 100);
  CHECK(w.processing_count(alice) == 2);
  CHECK(w.took<SendCompute>() == 2);
}

TEST_CASE("a transfer that was handed ahead may start its shuffle while it still looks queued",
          "[ahead]") {
  Batch b;
  b.w.submit("shuffle-barrier-s");
  const auto refused = [&](int number) {
    return may_start(b.w.inner(), "s", protocol::string_key(Batch::key(number)));
  };
  CHECK(b.w.state("inc-2") == TaskState::queued);
  CHECK(refused(2) == ShuffleRefusal::no_spec);  // allowed: what is missing is the barrier's spec
  CHECK(refused(50) == ShuffleRefusal::not_processing);  // queued, and with no worker
}

TEST_CASE("of unknown duration one task is held", "[ahead]") {
  World w;
  const WorkerId bob = w.worker(rask_worker());
  w.map("slow", 100);
  CHECK(w.processing_count(bob) == 2);
  CHECK(w.took<SendCompute>() == 3);
}

TEST_CASE("long tasks are not held", "[ahead]") {
  Config config;
  config.default_task_durations = {{"inc", 0.01}};
  World w(config);
  w.worker(rask_worker());
  w.map("inc", 100);
  CHECK(w.took<SendCompute>() == 2);
}

TEST_CASE("no more is held than its results have room", "[ahead]") {
  World w(short_tasks());
  w.tasks_take(0.0001);
  const WorkerId bob = w.worker(rask_worker(1'000'000));
  w.map("inc", 100);
  w.forget_sent();
  for (int i = 0; i < 10; ++i) w.finish(Batch::key(i), 40'000);
  // 10 done, 2 processing and 3 held: 15 results of 40 kB fill the budget of 0.6 MB.
  CHECK(w.processing_count(bob) == 2);
  CHECK(w.core.worker(bob).held.size() == 3);
}

TEST_CASE("towards the end batches are shared out", "[ahead]") {
  World w(short_tasks());
  const WorkerId bob = w.worker(rask_worker()), carl = w.worker(rask_worker());
  w.map("inc", 12);
  CHECK(w.core.worker(bob).held.size() <= 4);
  CHECK(w.core.worker(carl).held.size() <= 4);
}

TEST_CASE("a batch is as large as the scheme says", "[ahead]") {
  Config config = short_tasks();
  std::size_t held = 0;
  SECTION("SS") { config.batches = Scheme::ss, held = 1; }
  SECTION("STATIC") { config.batches = Scheme::static_chunks, held = 16; }
  SECTION("GSS") { config.batches = Scheme::gss, held = 16; }
  SECTION("FISS") { config.batches = Scheme::fiss, held = 2; }
  World w(config);
  w.tasks_take(0.0001);
  const WorkerId bob = w.worker(rask_worker());
  w.map("inc", 18);
  CHECK(w.core.worker(bob).held.size() == held);
}

TEST_CASE("prefetch and batching can be turned off, also while they are in use", "[ahead]") {
  Config config = short_tasks();
  SECTION("prefetch") { config.prefetch = Duration(); }
  SECTION("automatic") { config.automatic = Automatic::off; }
  World w(config);
  w.worker(rask_worker());
  w.map("inc", 100);
  CHECK(w.took<SendCompute>() == 2);

  Batch b;
  b.w.step(ConfigChanged{Automatic::off, {}});
  const auto recalls = b.w.take<SendStealRequest>();
  CHECK(recalls.size() == 20);
  for (const SendStealRequest& recall : recalls) {
    b.w.answer_steal(b.bob, protocol::key_text(b.w.core.task(recall.task).key()), recall.theft,
                     VictimState::ready);
  }
  CHECK(b.held() == 0);
  b.w.finish("inc-0");
  CHECK(b.w.took<SendCompute>() == 1);
  b.w.step(ConfigChanged{Automatic::batch, {}});
  CHECK(b.w.took<SendCompute>() == 20);
}

TEST_CASE("cancelling half a map frees what is held", "[ahead]") {
  Batch b;
  std::vector<std::string> half;
  for (int i = 0; i < 100; i += 2) half.push_back(Batch::key(i));
  b.w.cancel(half);
  CHECK(b.w.took<SendFree>() == 11);  // one in a slot, ten held
  CHECK(!b.w.knows("inc-4"));
  CHECK(b.w.state("inc-5") == TaskState::queued);
}

TEST_CASE("a more urgent task takes the slot before what is held", "[ahead]") {
  Batch b;
  Annotations urgent;
  urgent.priority = 10;
  for (int i = 0; i < 3; ++i) {
    Node node{"slow-" + std::to_string(i)};
    node.annotations = urgent;
    node.data_producer = true;
    b.w.graph({node});
  }
  b.w.forget_sent();
  b.w.finish("inc-0");
  CHECK(b.w.state("slow-0") == TaskState::processing);
  CHECK(b.w.state("inc-2") == TaskState::queued);
}

TEST_CASE("what is overdue is asked back when others are free", "[ahead]") {
  Batch b;
  std::vector<std::string> rest;
  for (int i = 22; i < 100; ++i) rest.push_back(Batch::key(i));
  b.w.release(rest);
  b.w.forget_sent();
  const WorkerId carl = b.w.worker(rask_worker());
  CHECK(b.w.took<WantsTick>() == 1);
  b.w.tick(0.001);
  CHECK(b.w.took<SendStealRequest>() == 0);
  b.w.tick(0.02);
  const auto recalls = b.w.take<SendStealRequest>();
  REQUIRE(recalls.size() == 10);
  const std::string last = protocol::key_text(b.w.core.task(recalls[0].task).key());
  CHECK(last == "inc-21");

  SECTION("given back") {
    b.w.answer_steal(b.bob, last, recalls[0].theft, VictimState::ready);
    CHECK(b.w.processing_on(last) == carl);
    CHECK(b.w.took<SendCompute>() == 1);
  }
  SECTION("it runs already") {
    b.w.answer_steal(b.bob, last, recalls[0].theft, VictimState::executing);
    CHECK(b.w.processing_on(last) == b.bob);
    CHECK(b.w.took<SendCompute>() == 0);
  }
  SECTION("it is done") {
    b.w.finish(last, b.bob, b.w.run_of(last));
    CHECK(b.w.state(last) == TaskState::memory);
    b.w.answer_steal(b.bob, last, recalls[0].theft, VictimState::memory);
    CHECK(b.w.state(last) == TaskState::memory);
  }
  SECTION("the worker dies first") {
    b.w.lose(b.bob);
    CHECK(b.w.processing_count(carl) == 2);
    b.w.answer_steal(b.bob, last, recalls[0].theft, VictimState::ready);
  }
  SECTION("nobody wants it any more") {
    b.w.release({last});
    b.w.answer_steal(b.bob, last, recalls[0].theft, VictimState::ready);
    CHECK(!b.w.knows(last));
  }
  SECTION("a wrong answer changes nothing") {
    b.w.answer_steal(carl, last, recalls[0].theft, VictimState::ready);
    b.w.answer_steal(b.bob, last, recalls[0].theft + 1000, VictimState::ready);
    CHECK(b.w.state(last) == TaskState::queued);
  }
}

TEST_CASE("a paused worker is asked for all it holds", "[ahead]") {
  Batch b;
  b.w.set_status(b.bob, WorkerStatus::paused);
  CHECK(b.w.took<SendStealRequest>() == 20);
  CHECK(b.w.nothing_else_sent());
}

TEST_CASE("a lost worker's batch is queued again, blamed for nothing, and ahead no more",
          "[ahead]") {
  Batch b;
  b.w.lose(b.bob);
  CHECK(b.w.task("inc-0").suspicious() == 1);
  CHECK(b.w.task("inc-2").suspicious() == 0);
  CHECK(b.w.state("inc-2") == TaskState::queued);
  b.w.forget_sent();
  const WorkerId carl = b.w.worker(rask_worker());
  CHECK(b.w.processing_count(carl) == 2);
  CHECK(b.w.took<SendCompute>() == 2);
  CHECK(b.w.core.worker(carl).held.empty());
}

TEST_CASE("a restart in the middle of a batch leaves nothing", "[ahead]") {
  Batch b;
  b.w.step(Restarted{});
  CHECK(b.held() == 0);
  b.w.map("inc", 3);
  CHECK(b.w.processing_count(b.bob) == 2);
}

TEST_CASE("a result of an earlier attempt makes a held task begin again", "[ahead]") {
  Batch b;
  b.w.finish("inc-5", b.bob, RunId(12345));
  CHECK(b.w.state("inc-5") == TaskState::queued);
  CHECK(!b.w.task("inc-5").ahead_on.valid());
  CHECK(b.w.took<SendFree>() >= 1);
}

// ---- chains -------------------------------------------------------------------------------------

TEST_CASE("a task follows the one it waits for", "[ahead]") {
  Chain c;
  CHECK(c.w.took<SendCompute>() == 3);
  CHECK(c.w.state("b") == TaskState::waiting);
  CHECK(c.w.task("c").ahead_on == c.bob);
  c.w.finish("a");
  CHECK(c.w.state("b") == TaskState::processing);
  CHECK(c.w.nothing_else_sent());
  c.w.finish("b");
  CHECK(c.w.took<SendFree>() == 1);  // a
  c.w.finish("c");
  CHECK(c.w.state("c") == TaskState::memory);
  CHECK(c.w.took<ReportInMemory>() == 1);
}

TEST_CASE("a stock worker gets no chain", "[ahead]") {
  World w(short_tasks());
  w.worker();
  w.graph({{"a"}, {"b", {"a"}}});
  CHECK(w.took<SendCompute>() == 1);
}

TEST_CASE("a task whose inputs come from two workers is not chained", "[ahead]") {
  World w(short_tasks());
  w.worker(rask_worker());
  w.worker(rask_worker());
  w.graph({{"a"}, {"b"}, {"c", {"a", "b"}}});
  REQUIRE(w.processing_on("a") != w.processing_on("b"));
  CHECK(w.took<SendCompute>() == 2);
}

TEST_CASE("when a link fails, the rest of the chain fails and is freed", "[ahead]") {
  Chain c;
  c.w.forget_sent();
  c.w.err("a");
  CHECK(c.w.state("c") == TaskState::erred);
  CHECK(c.w.took<SendFree>() == 2);
}

TEST_CASE("a chain is dropped when nobody wants it", "[ahead]") {
  Chain c;
  c.w.forget_sent();
  c.w.release({"c"});
  CHECK(c.w.took<SendFree>() == 3);
  CHECK(!c.w.knows("c"));
}

TEST_CASE("a chain on a lost worker starts elsewhere", "[ahead]") {
  Chain c;
  const WorkerId carl = c.w.worker();
  c.w.forget_sent();
  c.w.lose(c.bob);
  CHECK(c.w.processing_on("a") == carl);
  CHECK(c.w.state("b") == TaskState::waiting);
  CHECK(c.w.task("b").suspicious() == 0);
  CHECK(c.w.took<SendCompute>() == 1);
}

TEST_CASE("a chain on a paused worker is taken back", "[ahead]") {
  Chain c;
  c.w.forget_sent();
  c.w.set_status(c.bob, WorkerStatus::paused);
  CHECK(c.w.took<SendFree>() == 2);
  CHECK(!c.w.task("b").ahead_on.valid());
}

TEST_CASE("a chain goes on at the other end as it is worked off", "[ahead]") {
  World w(short_tasks());
  w.tasks_take(0.0001);
  w.worker(rask_worker());
  std::vector<Node> nodes{{"inc-0"}};
  for (int i = 1; i < 60; ++i) nodes.push_back({Batch::key(i), {Batch::key(i - 1)}});
  w.graph(nodes);
  int sent = w.took<SendCompute>();
  CHECK(sent <= 22);
  for (int i = 0; i < 60; ++i) {
    w.finish(Batch::key(i));
    sent += w.took<SendCompute>();
  }
  CHECK(sent == 60);
  CHECK(w.state("inc-59") == TaskState::memory);
}
