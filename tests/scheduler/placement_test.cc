//! Which worker gets a task: queueing, locality, restrictions, resources, priorities.
#include "tests/scheduler/world.h"

using namespace scheduler;

TEST_CASE("root-ish tasks fill slots, the rest queues on the scheduler", "[scheduler][placement]") {
  World w;
  const WorkerId alice = w.worker({.threads = 2});
  w.map("inc", 10);
  CHECK(w.processing_count(alice) == 3);  // ceil(1.1 * 2)
  CHECK(w.inner().queue.size() == 7);
  w.forget_sent();
  w.finish("inc-0");
  CHECK(w.take<SendCompute>().at(0).task == w.id("inc-3"));
}

TEST_CASE("root-ish tasks go to the least busy worker", "[scheduler][placement]") {
  World w;
  const WorkerId alice = w.worker({.threads = 1}), bob = w.worker({.threads = 4});
  w.map("inc", 20);
  CHECK(w.processing_count(alice) == 2);
  CHECK(w.processing_count(bob) == 5);
}

TEST_CASE("a small group is not root-ish and is spread in turn", "[scheduler][placement]") {
  World w;
  const WorkerId alice = w.worker({.threads = 2}), bob = w.worker({.threads = 2});
  w.map("inc", 4);
  CHECK(w.inner().queue.empty());
  CHECK(w.processing_count(alice) == 2);
  CHECK(w.processing_count(bob) == 2);
}

TEST_CASE("a data producer queues however small its group", "[scheduler][placement]") {
  World w;
  w.worker();
  w.graph({Node{.key = "a-1", .data_producer = true}, Node{.key = "b-1", .data_producer = true},
           Node{.key = "c-1", .data_producer = true}});
  CHECK(w.state("c-1") == TaskState::queued);
}

TEST_CASE("without queueing siblings stay together on one worker", "[scheduler][placement]") {
  World w({.worker_saturation = 1e300});
  const WorkerId alice = w.worker(), bob = w.worker();
  w.map("inc", 10);
  CHECK(w.inner().queue.empty());
  CHECK(w.processing_count(alice) == 5);
  CHECK(w.processing_count(bob) == 5);
  CHECK(w.processing_on("inc-0") == w.processing_on("inc-4"));
  CHECK(w.processing_on("inc-5") == w.processing_on("inc-9"));
}

TEST_CASE("a task goes to the worker that holds its input", "[scheduler][placement]") {
  World w;
  const WorkerId alice = w.worker();
  w.submit("x");
  w.finish("x", 1'000'000);
  w.worker();
  w.graph({{"y", {"x"}}});
  CHECK(w.processing_on("y") == alice);
}

TEST_CASE("a task goes where most of its input bytes are", "[scheduler][placement]") {
  World w;
  const WorkerId alice = w.worker(), bob = w.worker();
  w.scatter("small", {alice}, 1'000);
  w.scatter("large", {bob}, 100'000'000);
  w.graph({{"y", {"small", "large"}}});
  CHECK(w.processing_on("y") == bob);
}

TEST_CASE("equally good holders are told apart by the bytes they hold", "[scheduler][placement]") {
  World w;
  const WorkerId alice = w.worker(), bob = w.worker();
  w.scatter("x", {alice, bob}, 10);
  w.scatter("ballast", {alice}, 1'000'000);
  w.graph({{"y", {"x"}}});
  CHECK(w.processing_on("y") == bob);
}

TEST_CASE("a paused worker gets nothing", "[scheduler][placement]") {
  World w;
  const WorkerId alice = w.worker();
  w.scatter("x", {alice});
  w.set_status(alice, WorkerStatus::paused);
  w.graph({{"y", {"x"}}});
  CHECK(w.state("y") == TaskState::no_worker);
  w.set_status(alice, WorkerStatus::running);
  CHECK(w.processing_on("y") == alice);
}

TEST_CASE("a restriction to a worker's name, address or host is met", "[scheduler][placement]") {
  World w;
  w.worker({.threads = 8});
  const WorkerId named = w.worker({.name = "bob"});
  const WorkerId hosted = w.worker({.host = "10.0.0.9"});
  Annotations by_name, by_address, by_host;
  by_name.workers = {protocol::string_key("bob")};
  by_address.workers = {protocol::string_key("tcp://10.0.0.1:4001")};
  by_host.workers = {protocol::string_key("10.0.0.9")};
  w.submit("n", {}, by_name);
  w.submit("a", {}, by_address);
  w.submit("h", {}, by_host);
  CHECK(w.processing_on("n") == named);
  CHECK(w.processing_on("a") == named);
  CHECK(w.processing_on("h") == hosted);
}

TEST_CASE("an unmet restriction waits; a loose one does not", "[scheduler][placement]") {
  World w;
  w.worker();
  Annotations strict, loose;
  strict.workers = loose.workers = {protocol::string_key("tcp://10.0.0.1:4001")};
  loose.allow_other_workers = true;
  w.submit("s", {}, strict);
  w.submit("l", {}, loose);
  CHECK(w.state("s") == TaskState::no_worker);
  CHECK(w.state("l") == TaskState::processing);
  const WorkerId bob = w.worker();
  CHECK(w.processing_on("s") == bob);
}

TEST_CASE("resources restrict by supply and are counted", "[scheduler][placement]") {
  World w;
  w.worker();
  const WorkerId gpu = w.worker({.resources = {{"GPU", 2}}});
  Annotations one;
  one.resources = {{"GPU", 1}};
  w.submit("x", {}, one);
  CHECK(w.processing_on("x") == gpu);
  CHECK(w.core.worker(gpu).used_resources == Resources{{"GPU", 1}});
  w.finish("x");
  CHECK(w.core.worker(gpu).used_resources == Resources{{"GPU", 0}});
  Annotations three;
  three.resources = {{"GPU", 3}};
  w.submit("y", {}, three);
  CHECK(w.state("y") == TaskState::no_worker);
  w.step(WorkerResourcesSet{gpu, {{"GPU", 4}}});
  CHECK(w.processing_on("y") == gpu);
}

TEST_CASE("set_restrictions moves a queued task to the worker it names", "[scheduler][placement]") {
  World w;
  w.worker();
  const WorkerId bob = w.worker({.name = "bob"});
  w.map("inc", 20);
  REQUIRE(w.state("inc-19") == TaskState::queued);
  const Key key = protocol::string_key("inc-19");
  w.step(RestrictionsSet{key, {protocol::string_key("bob")}});
  CHECK(w.processing_on("inc-19") == bob);
}

TEST_CASE("inputs larger than the worker are a MemoryError, not a compute", "[scheduler][placement]") {
  World w;
  const WorkerId alice = w.worker({.memory_limit = 1000});
  w.scatter("x", {alice}, 5000);
  w.forget_sent();
  w.graph({{"y", {"x"}}});
  CHECK(w.state("y") == TaskState::erred);
  const OwnError& error = w.task("y").error()->own;
  CHECK(error.kind == OwnError::Kind::memory_limit);
  CHECK(error.input_bytes == 5000);
  CHECK(error.is_final);
  CHECK(w.sent() == Actions{ReportErred{w.me(), w.id("y")}});
}

TEST_CASE("the memory check can be switched off", "[scheduler][placement]") {
  World w({.memory_terminate = false});
  const WorkerId alice = w.worker({.memory_limit = 1000});
  w.scatter("x", {alice}, 5000);
  w.graph({{"y", {"x"}}});
  CHECK(w.processing_on("y") == alice);
}

TEST_CASE("inputs read one at a time may be larger than a rask worker", "[scheduler][placement]") {
  for (const bool rask : {true, false}) {
    World w;
    const WorkerId alice = w.worker({.memory_limit = 1000, .rask = rask});
    w.scatter("x", {alice}, 5000);
    Node node{"y", {"x"}};
    node.annotations.lazy = true;
    w.graph({node});
    CHECK(w.state("y") == (rask ? TaskState::processing : TaskState::erred));
  }
}

TEST_CASE("a higher user priority leaves the queue first", "[scheduler][placement]") {
  World w;
  w.worker();
  std::vector<Node> nodes;
  for (int i = 0; i < 10; ++i) nodes.push_back({"t-" + std::to_string(i)});
  nodes.back().annotations.priority = 5;
  w.graph(nodes);
  CHECK(w.state("t-9") == TaskState::processing);
  CHECK(w.task("t-9").priority.user == -5);
}

TEST_CASE("older graphs come first, unless they come within the fifo timeout", "[scheduler][placement]") {
  World w;
  w.graph({{"a"}}, {}, {.fifo_timeout = 60});
  w.pass(1);
  w.graph({{"b"}}, {}, {.fifo_timeout = 60});
  w.pass(61);
  w.graph({{"c"}}, {}, {.fifo_timeout = 60});
  CHECK(w.task("a").priority.generation == 1);
  CHECK(w.task("b").priority.generation == 1);
  CHECK(w.task("c").priority.generation == 2);
}

TEST_CASE("a graph made inside a task runs before ordinary graphs", "[scheduler][placement]") {
  World w;
  w.worker();
  w.graph({{"outer"}});
  w.graph({{"inner"}}, {}, {.inside = "outer"});
  CHECK(w.task("inner").priority.generation == -0.01);
  w.graph({{"later"}}, {}, {.inside = "gone"});
  CHECK(w.task("later").priority.generation == 1);
}

TEST_CASE("a key keeps its first priority", "[scheduler][placement]") {
  World w;
  w.submit("x");
  const Priority first = w.task("x").priority;
  w.pass(100);
  w.submit("x");
  CHECK(w.task("x").priority == first);
}

TEST_CASE("a seceded task frees its slot and no longer counts as load", "[scheduler][placement]") {
  World w;
  const WorkerId alice = w.worker();
  w.map("inc", 10);
  REQUIRE(w.processing_count(alice) == 2);
  const Key key = protocol::string_key("inc-0");
  w.forget_sent();
  w.step(TaskSeceded{alice, key, w.run_of("inc-0"), 0.5});
  CHECK(w.took<SendCompute>() == 1);
  CHECK(w.core.worker(alice).long_running == 1);
  w.step(TaskSeceded{alice, key, w.run_of("inc-0"), 0.5});
  CHECK(w.core.worker(alice).long_running == 1);
  w.finish("inc-0");
  CHECK(w.core.worker(alice).long_running == 0);
}

TEST_CASE("durations are learned and make up the occupancy", "[scheduler][placement]") {
  World w;
  const WorkerId alice = w.worker();
  w.map("inc", 10);
  CHECK(w.inner().occupancy(w.core.worker(alice)) == Approx(1.0));  // two unknown ones
  w.finish("inc-0");
  CHECK(w.inner().occupancy(w.core.worker(alice)) == Approx(0.2));
  const Key key = protocol::string_key("inc-1");
  const Executing long_one{key, 3.0};
  w.step(WorkerHeartbeat{alice, 0, 0, 0, 0, {&long_one, 1}});
  CHECK(w.inner().occupancy(w.core.worker(alice)) == Approx(12.0));  // 2 x twice the longest
}

TEST_CASE("tasks that wait too long for a worker err if so configured", "[scheduler][placement]") {
  World w({.no_workers_timeout = 10});
  Annotations strict;
  strict.resources = {{"GPU", 1}};
  w.submit("none");
  const WorkerId alice = w.worker({.status = WorkerStatus::paused});
  w.submit("unfit", {}, strict);
  w.tick(5);
  CHECK(w.state("none") == TaskState::queued);
  w.tick(6);
  CHECK(w.task("none").error()->own.kind == OwnError::Kind::no_worker);
  w.set_status(alice, WorkerStatus::running);
  w.submit("unfit-2", {}, strict);
  w.tick(11);
  CHECK(w.task("unfit-2").error()->own.kind == OwnError::Kind::no_valid_worker);
}
