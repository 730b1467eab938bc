//! Memory-bounded admission: what starts, what waits, in which order, and that nothing waits for
//! ever.
#include "scheduler/core/admission.h"

#include "tests/scheduler/world.h"

using namespace scheduler;

namespace {

constexpr std::uint64_t MB = 1'000'000;

Annotations needs(std::uint64_t megabytes) {
  Annotations annotations;
  annotations.memory = megabytes * MB;
  return annotations;
}

Node load(const std::string& key, std::uint64_t megabytes) {
  return Node{.key = key, .annotations = needs(megabytes)};
}

//! 4 threads, a budget of 600 MB.
WorkerOptions roomy() { return {.threads = 4, .memory_limit = 1000 * MB}; }

WorkerOptions rask_worker(std::uint32_t threads) {
  return {.threads = threads, .memory_limit = 1000 * MB, .rask = true};
}

bool runs(const World& w, const std::string& key) { return w.state(key) == TaskState::processing; }
bool waits(const World& w, const std::string& key) { return w.state(key) == TaskState::queued; }

MemoryUse use_of(const World& w, WorkerId worker) {
  return memory_use(w.inner(), w.core.worker(worker));
}

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

// ---- without annotations ------------------------------------------------------------------------

TEST_CASE("root-ish tasks of unknown size fill the threads, no more", "[scheduler][admission]") {
  World w;
  const WorkerId bob = w.worker(rask_worker(4));
  w.map("load", 40);
  CHECK(w.processing_count(bob) == 4);  // stock: 5
  w.finish("load-0", 8);
  CHECK(w.processing_count(bob) == 5);
}

TEST_CASE("root-ish tasks wait once what is expected passes the target", "[scheduler][admission]") {
  World w;
  const WorkerId bob = w.worker(rask_worker(4));
  w.map("load", 40);
  w.finish("load-0", 100 * MB);
  CHECK(w.processing_count(bob) == 5);  // 100 held + 5 * 100 expected = 600
  w.finish("load-1", 100 * MB);
  CHECK(w.processing_count(bob) == 4);
  CHECK(waits(w, "load-6"));
  w.release({"load-0"});
  CHECK(w.processing_count(bob) == 5);
  w.release({"load-1"});
  CHECK(w.processing_count(bob) == 5);  // no slot
}

TEST_CASE("stock workers are given what stock gives them", "[scheduler][admission]") {
  World w;
  const WorkerId alice = w.worker(roomy());
  w.map("load", 40);
  CHECK(w.processing_count(alice) == 5);
  w.finish("load-0", 900 * MB);
  CHECK(w.processing_count(alice) == 5);
}

TEST_CASE("small results never wait", "[scheduler][admission]") {
  World w;
  const WorkerId bob = w.worker(rask_worker(4));
  w.map("tiny", 40);
  w.scatter("data", {bob}, 900 * MB);
  w.finish("tiny-0", 1000);
  CHECK(w.processing_count(bob) == 5);
}

TEST_CASE("a load leaves room for what is made of it", "[scheduler][admission]") {
  World w;
  const WorkerId bob = w.worker(rask_worker(2));
  std::vector<Node> nodes;
  for (int i = 0; i < 10; ++i) {
    const std::string n = std::to_string(i);
    nodes.push_back({"load-" + n});
    nodes.push_back({"map-" + n, {"load-" + n}});
  }
  w.graph(nodes);
  w.finish("load-0", 100 * MB);
  CHECK(runs(w, "map-0"));
  w.finish("map-0", 200 * MB);
  // 200 held, load-1 and load-2 under way: 2 * (100 + 200); nothing more.
  CHECK(use_of(w, bob).total() == 800 * MB);
  CHECK(waits(w, "load-3"));
}

TEST_CASE("free threads keep room for what they will make of results held here",
          "[scheduler][admission]") {
  World w;
  const WorkerId bob = w.worker(rask_worker(8));
  for (const char* key : {"x0", "x1", "x2", "x3", "x4"}) w.scatter(key, {bob}, 50 * MB);
  w.submit("made", {"x0"});
  w.finish("made", 100 * MB);
  w.release({"made"});
  w.graph({load("a", 100), load("b", 100), load("c", 100), load("d", 100)});
  CHECK(runs(w, "a"));  // nothing else runs, so one may
  CHECK(waits(w, "b"));  // 250 held + 2 * 100 + five times what was last made of one
  w.release({"x1", "x2", "x3", "x4"});
  CHECK(runs(w, "d"));  // 50 held + 4 * 100 + once that

  // Results that were large long ago are no reason to wait.
  w.release({"x0"});
  for (const char* key : {"a", "b", "c", "d"}) w.finish(key, 100 * MB);
  w.submit("busy");
  w.graph({load("e", 100)});
  CHECK(waits(w, "e"));
  for (int i = 0; i < 40; ++i) {
    const std::string key = "small-" + std::to_string(i);
    w.submit(key, {"a"});
    w.finish(key, 8);
  }
  CHECK(runs(w, "e"));
}

TEST_CASE("waiting that frees nothing gives more and more leeway", "[scheduler][admission]") {
  World w;
  const WorkerId bob = w.worker(rask_worker(4));
  w.map("load", 40);
  int done = 0;
  const auto finish_all = [&] {
    for (int left = w.processing_count(bob); left > 0; --left) {
      w.finish("load-" + std::to_string(done++), 200 * MB);
    }
  };
  // Results that stay, as of persist: the first ones run on all threads, then alone, ...
  finish_all();
  CHECK(w.processing_count(bob) == 1);
  w.finish("load-4", 200 * MB);
  done = 5;
  CHECK(w.processing_count(bob) == 2);
  w.finish("load-5", 200 * MB);
  CHECK(w.processing_count(bob) == 2);  // another one takes its place
  done = 6;
  // ... until it frees memory: alone again.
  w.release({"load-0", "load-1"});
  finish_all();
  CHECK(w.processing_count(bob) == 1);
}

TEST_CASE("a long task does not hold up root-ish ones for ever", "[scheduler][admission]") {
  World w;
  const WorkerId bob = w.worker(rask_worker(4));
  w.scatter("data", {bob}, 590 * MB);
  w.submit("long", {"data"});
  w.map("load", 40);
  w.finish("load-0", 100 * MB);
  w.finish("load-1", 100 * MB);
  w.finish("load-2", 100 * MB);
  w.finish("load-3", 100 * MB);
  CHECK(w.processing_count(bob) == 1);
  w.tick(1);
  CHECK(w.processing_count(bob) == 1);
  w.tick(61);
  CHECK(w.processing_count(bob) == 2);
}

TEST_CASE("learning can be turned off", "[scheduler][admission]") {
  Config config;
  config.memory_learned = false;
  World w(config);
  const WorkerId bob = w.worker(rask_worker(4));
  w.map("load", 40);
  CHECK(w.processing_count(bob) == 5);
  w.finish("load-0", 900 * MB);
  CHECK(w.processing_count(bob) == 5);
}
