//! Memory-bounded admission: what starts, what waits, in which order, and that nothing waits for
//! ever.
#include "tests/scheduler/admission_bed.h"

using namespace scheduler;

namespace {

void spilled(World& w, WorkerId worker, std::uint64_t megabytes) {
  WorkerHeartbeat beat;
  beat.worker = worker;
  beat.spilled_bytes = beat.spilled_memory = megabytes * MB;
  w.step(beat);
}

}  // namespace

TEST_CASE("a load waits on the scheduler until memory is released", "[scheduler][admission]") {
  World w;
  const WorkerId alice = w.worker(roomy());
  w.graph({load("a", 250), load("b", 250), load("c", 250)});
  CHECK(runs(w, "a"));
  CHECK(runs(w, "b"));
  CHECK(waits(w, "c"));
  CHECK(use_of(w, alice).reserved == 500 * MB);
  w.finish("a", 250 * MB);
  CHECK(use_of(w, alice).managed == 250 * MB);
  CHECK(use_of(w, alice).reserved == 250 * MB);
  CHECK(waits(w, "c"));
  w.forget_sent();
  w.release({"a"});
  CHECK(runs(w, "c"));
  CHECK(w.take<SendCompute>().at(0).task == w.id("c"));
}

TEST_CASE("loads of an array object wait for slots like those without inputs",
          "[scheduler][admission]") {
  World w;
  const WorkerId alice = w.worker({.threads = 2, .memory_limit = 1000 * MB});
  std::vector<Node> nodes{Node{.key = "original"}};
  for (const char* key : {"a", "b", "c", "d"}) {
    Node node = load(key, 10);
    node.needs = {"original"};
    node.data_producer = true;
    nodes.push_back(node);
  }
  w.graph(nodes);
  w.finish("original", 100);
  CHECK(w.processing_count(alice) == 3);  // worker-saturation 1.1, as root-ish tasks
  CHECK(waits(w, "d"));
  w.finish("a", 10 * MB);
  CHECK(runs(w, "d"));
}

TEST_CASE("loads start in order: a small one does not overtake", "[scheduler][admission]") {
  World w;
  w.worker(roomy());
  w.graph({load("a", 500), load("b", 500), load("c", 50), Node{.key = "free"}});
  CHECK(runs(w, "a"));
  CHECK(waits(w, "b"));
  CHECK(waits(w, "c"));
  CHECK(runs(w, "free"));  // said nothing about memory
  w.finish("a", 500 * MB);
  w.finish("free");
  w.release({"a"});
  CHECK(runs(w, "b"));
  CHECK(runs(w, "c"));
}

TEST_CASE("a more urgent load goes first when there is room", "[scheduler][admission]") {
  World w;
  w.worker(roomy());
  w.graph({load("a", 500), load("b", 500)});
  Annotations urgent = needs(500);
  urgent.priority = 1;
  w.submit("c", {}, urgent);
  CHECK(waits(w, "c"));
  w.finish("a", 500 * MB);
  w.release({"a"});
  CHECK(runs(w, "c"));
  CHECK(waits(w, "b"));
}

TEST_CASE("one load may always run when nothing else can free memory", "[scheduler][admission]") {
  World w;
  const WorkerId alice = w.worker(roomy());
  w.graph({load("a", 700), load("b", 700), load("c", 700)});
  CHECK(runs(w, "a"));  // more than the budget, less than the limit
  CHECK(waits(w, "b"));
  w.finish("a", 700 * MB);
  CHECK(runs(w, "b"));
  CHECK(waits(w, "c"));
  CHECK(w.inner().memory_counts.started_over_budget == 2);

  // While something runs that may free memory, it is worth waiting.
  w.finish("b", 700 * MB);
  CHECK(runs(w, "c"));
  w.submit("d", {}, needs(100));
  CHECK(w.processing_count(alice) == 1);
  w.release({"a", "b"});
  w.finish("c", 10 * MB);
  CHECK(runs(w, "d"));
}

TEST_CASE("a worker waits for others that use what it holds", "[scheduler][admission]") {
  World w;
  const WorkerId alice = w.worker({.threads = 4, .memory_limit = 1000 * MB, .name = "alice"});
  Annotations there = needs(600);
  there.workers = {protocol::string_key("alice")};
  w.graph({Node{.key = "a", .annotations = there}});
  w.finish("a", 600 * MB);
  const WorkerId bob = w.worker({.threads = 4, .memory_limit = 1000 * MB, .name = "bob"});
  Annotations elsewhere;
  elsewhere.workers = {protocol::string_key("bob")};
  w.graph({{"sum", {"a"}, elsewhere}});
  CHECK(w.processing_on("sum") == bob);
  there.memory = 300 * MB;
  w.submit("b", {}, there);
  w.release({"a"});  // "sum" still needs it
  CHECK(waits(w, "b"));
  w.finish("sum");
  CHECK(w.processing_on("b") == alice);
}

TEST_CASE("a load goes to the worker that has room", "[scheduler][admission]") {
  World w;
  const WorkerId alice = w.worker(roomy()), bob = w.worker(roomy());
  w.graph({load("a", 500), load("b", 500), load("c", 500)});
  CHECK(w.processing_on("a") == alice);
  CHECK(w.processing_on("b") == bob);
  CHECK(waits(w, "c"));
  w.finish("b", 10 * MB);
  CHECK(w.processing_on("c") == bob);
}

TEST_CASE("bytes on their way count", "[scheduler][admission]") {
  World w;
  const WorkerId alice = w.worker({.threads = 4, .memory_limit = 1000 * MB, .name = "alice"});
  w.submit("x");
  w.finish("x", 400 * MB);
  const WorkerId bob = w.worker({.threads = 4, .memory_limit = 1000 * MB, .name = "bob"});
  Annotations on_bob;
  on_bob.workers = {protocol::string_key("bob")};
  w.submit("y", {"x"}, on_bob);
  CHECK(use_of(w, bob).in_flight == 400 * MB);
  on_bob.memory = 300 * MB;
  w.submit("b", {}, on_bob);
  CHECK(waits(w, "b"));
  w.add_keys(bob, {"x"});
  CHECK(use_of(w, bob).in_flight == 0);
  CHECK(use_of(w, bob).managed == 400 * MB);
  w.finish("y");
  CHECK(runs(w, "b"));  // nothing else runs there
  CHECK(w.processing_on("b") == bob);
  CHECK(use_of(w, alice).managed == 400 * MB);
}

TEST_CASE("measured sizes correct what was asked for", "[scheduler][admission]") {
  World w;
  const WorkerId alice = w.worker(roomy());
  w.graph({load("load-1", 100), load("load-2", 100)});
  w.finish("load-1", 400 * MB);
  CHECK(use_of(w, alice).reserved == 400 * MB);  // the other one is believed to be like it
  w.release({"load-1"});
  w.submit("load-3", {}, needs(100));
  CHECK(waits(w, "load-3"));
  w.finish("load-2", 100 * MB);
  CHECK(runs(w, "load-3"));
}

TEST_CASE("what is spilled makes room", "[scheduler][admission]") {
  World w;
  const WorkerId alice = w.worker(roomy());
  w.graph({load("a", 500), Node{.key = "busy"}, load("b", 500)});
  w.finish("a", 500 * MB);
  CHECK(waits(w, "b"));
  spilled(w, alice, 300);
  CHECK(waits(w, "b"));
  spilled(w, alice, 450);
  CHECK(runs(w, "b"));
}

TEST_CASE("a larger budget lets loads start", "[scheduler][admission]") {
  World w;
  w.worker(roomy());
  w.graph({load("a", 500), load("b", 400)});
  CHECK(waits(w, "b"));
  w.step(MemoryBudgetSet{0.9});
  CHECK(runs(w, "b"));
}

TEST_CASE("a new worker takes what waits", "[scheduler][admission]") {
  World w;
  w.worker(roomy());
  w.graph({load("a", 500), load("b", 500)});
  CHECK(waits(w, "b"));
  const WorkerId bob = w.worker(roomy());
  CHECK(w.processing_on("b") == bob);
}

TEST_CASE("a paused worker takes nothing and forgets nothing", "[scheduler][admission]") {
  World w;
  const WorkerId alice = w.worker(roomy());
  w.graph({load("a", 500), load("b", 500)});
  w.set_status(alice, WorkerStatus::paused);
  CHECK(use_of(w, alice).reserved == 500 * MB);
  w.finish("a", 10 * MB);
  CHECK(waits(w, "b"));
  w.set_status(alice, WorkerStatus::running);
  CHECK(runs(w, "b"));
}

TEST_CASE("what was reserved on a lost worker is reserved where it goes",
          "[scheduler][admission]") {
  World w;
  const WorkerId alice = w.worker(roomy()), bob = w.worker(roomy());
  w.graph({load("a", 500), load("b", 500), load("c", 500)});
  CHECK(w.processing_on("a") == alice);
  w.lose(alice);
  CHECK(use_of(w, bob).reserved == 500 * MB);
  CHECK(waits(w, "a"));
  CHECK(waits(w, "c"));
  w.finish("b", 0);
  CHECK(runs(w, "a"));
  CHECK(waits(w, "c"));
  w.finish("a", 0);
  CHECK(runs(w, "c"));
}

TEST_CASE("a worker that retires gives up its loads", "[scheduler][admission]") {
  World w;
  const WorkerId alice = w.worker(roomy()), bob = w.worker(roomy());
  w.graph({load("a", 500), load("b", 500), load("c", 500)});
  w.set_status(bob, WorkerStatus::closing_gracefully);
  w.finish("b", 0);
  w.release({"b"});
  CHECK(waits(w, "c"));  // alice is full, bob leaves
  w.lose(bob, true);
  CHECK(waits(w, "c"));
  w.finish("a", 0);
  CHECK(w.processing_on("c") == alice);
}

TEST_CASE("a load larger than every worker errs after a grace", "[scheduler][admission]") {
  World w;
  w.worker(roomy());
  w.submit("huge", {}, needs(2000));
  CHECK(w.state("huge") == TaskState::no_worker);
  w.tick(5);
  CHECK(w.state("huge") == TaskState::no_worker);
  w.forget_sent();
  w.tick(6);
  CHECK(w.state("huge") == TaskState::erred);
  CHECK(w.took<ReportErred>() == 1);
  const OwnError& error = w.task("huge").error()->own;
  CHECK(error.kind == OwnError::Kind::memory_request);
  CHECK(error.input_bytes == 2000 * MB);
  CHECK(error.memory_limit == 1000 * MB);
  CHECK(w.inner().memory_counts.too_large == 1);
}

TEST_CASE("a larger worker that comes in time takes it", "[scheduler][admission]") {
  World w;
  w.worker(roomy());
  w.submit("huge", {}, needs(2000));
  w.tick(8);
  w.worker(roomy());  // the cluster still grows: wait on
  w.tick(8);
  CHECK(w.state("huge") == TaskState::no_worker);
  const WorkerId large = w.worker({.threads = 1, .memory_limit = 8000 * MB});
  CHECK(w.processing_on("huge") == large);
}

TEST_CASE("when the only large worker leaves, its loads err", "[scheduler][admission]") {
  World w;
  w.worker(roomy());
  const WorkerId large = w.worker({.threads = 2, .memory_limit = 3000 * MB});
  w.graph({load("a", 1500), load("b", 1500)});
  CHECK(w.processing_on("a") == large);
  CHECK(waits(w, "b"));
  w.lose(large, true);
  CHECK(w.state("a") == TaskState::no_worker);
  CHECK(w.state("b") == TaskState::no_worker);
  w.tick(11);
  CHECK(w.state("a") == TaskState::erred);
  CHECK(w.state("b") == TaskState::erred);
}

TEST_CASE("a worker without a limit holds anything", "[scheduler][admission]") {
  World w;
  w.worker({.threads = 4});
  w.graph({load("a", 5'000'000), load("b", 5'000'000)});
  CHECK(runs(w, "a"));
  CHECK(runs(w, "b"));
}

TEST_CASE("loads for one worker do not hold up those for another", "[scheduler][admission]") {
  World w;
  w.worker({.threads = 4, .memory_limit = 1000 * MB, .name = "alice"});
  const WorkerId bob = w.worker({.threads = 4, .memory_limit = 1000 * MB, .name = "bob"});
  Annotations on_alice = needs(500);
  on_alice.workers = {protocol::string_key("alice")};
  Annotations on_bob = needs(500);
  on_bob.workers = {protocol::string_key("bob")};
  w.graph({Node{.key = "a1", .annotations = on_alice}, Node{.key = "a2", .annotations = on_alice},
           Node{.key = "b1", .annotations = on_bob}, Node{.key = "b2", .annotations = on_bob}});
  CHECK(runs(w, "a1"));
  CHECK(waits(w, "a2"));
  CHECK(w.processing_on("b1") == bob);
  CHECK(waits(w, "b2"));
  CHECK(w.inner().lanes.all().size() == 2);
  w.finish("b1", 0);
  CHECK(runs(w, "b2"));
  CHECK(waits(w, "a2"));
}

TEST_CASE("loads of one device run one at a time", "[scheduler][admission]") {
  World w;
  const WorkerId alice = w.worker({.threads = 8});
  Annotations disk;
  disk.io_device = "/mnt/hdd";
  disk.io_concurrency = 1;
  Annotations fast = disk;
  fast.io_device = "nvme";
  fast.io_concurrency = 2;
  w.graph({Node{.key = "a", .annotations = disk}, Node{.key = "b", .annotations = disk},
           Node{.key = "c", .annotations = fast}});
  CHECK(runs(w, "a"));
  CHECK(waits(w, "b"));
  CHECK(waits(w, "c"));  // behind it: the same workers
  w.finish("a");
  CHECK(runs(w, "b"));
  CHECK(runs(w, "c"));
  CHECK(w.processing_count(alice) == 2);
}

TEST_CASE("a load that waits can be let go, cancelled, forgotten", "[scheduler][admission]") {
  World w;
  const WorkerId alice = w.worker(roomy());
  w.graph({load("a", 500), load("b", 500), load("c", 500), load("d", 500)});
  w.release({"b"});
  CHECK_FALSE(w.knows("b"));
  w.cancel({"c"});
  CHECK_FALSE(w.knows("c"));
  CHECK(w.inner().lanes.size() == 1);
  w.step(Restarted{});
  CHECK(w.inner().lanes.empty());
  CHECK(use_of(w, alice).total() == 0);
}

TEST_CASE("data that appears takes a waiting load's place", "[scheduler][admission]") {
  World w;
  const WorkerId alice = w.worker(roomy());
  w.graph({load("a", 500), load("b", 500)});
  w.scatter("b", {alice}, 8);
  CHECK(w.state("b") == TaskState::memory);
  CHECK(w.inner().lanes.empty());
}

TEST_CASE("the story of a task says why it waited", "[scheduler][admission]") {
  World w;
  w.worker(roomy());
  w.graph({load("a", 500), load("b", 400)});
  const auto lines = w.inner().story.about({w.task("b").key()}, {});
  std::string reason;
  for (const Story::Line& line : lines) {
    if (line.from == TaskState::queued && line.to == TaskState::queued) reason = line.stimulus;
  }
  CHECK(reason == "waits for memory: needs 400 MB; " + w.core.worker(WorkerId(0)).address +
                      " holds 0 MB, reserves 500 MB, fetches 0 MB of 600 MB");
  CHECK(w.inner().memory_counts.delayed == 1);
}

TEST_CASE("the report adds up", "[scheduler][admission]") {
  World w;
  const WorkerId alice = w.worker({.threads = 4, .memory_limit = 1000 * MB, .name = "alice"});
  w.worker({.threads = 4, .memory_limit = 2000 * MB, .name = "bob"});
  Annotations on_alice = needs(500);
  on_alice.workers = {protocol::string_key("alice")};
  w.graph({Node{.key = "a", .annotations = on_alice}, Node{.key = "b", .annotations = on_alice}});
  const MemoryReport report = memory_report(w.inner());
  REQUIRE(report.workers.size() == 2);
  CHECK(report.workers[0].worker == alice);
  CHECK(report.workers[0].budget == 600 * MB);
  CHECK(report.workers[0].use.reserved == 500 * MB);
  CHECK(report.workers[0].delayed_tasks == 1);
  CHECK(report.workers[0].delayed_bytes == 500 * MB);
  CHECK(report.workers[1].delayed_tasks == 0);
  CHECK(report.total.reserved == 500 * MB);
  CHECK(report.delayed_bytes == 500 * MB);
}

TEST_CASE("with admission off annotations change nothing", "[scheduler][admission]") {
  Config config;
  config.memory_budget = 0;
  World w(config);
  w.worker(roomy());
  w.graph({load("a", 900), load("b", 900), load("c", 5000)});
  CHECK(runs(w, "a"));
  CHECK(runs(w, "b"));
  CHECK(runs(w, "c"));
}
