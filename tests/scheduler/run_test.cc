//! The plain life of tasks: submitted, run, reported, released, forgotten.
#include "tests/scheduler/world.h"

using namespace scheduler;

TEST_CASE("a task runs, its client is told, and it is forgotten when released",
          "[scheduler][run]") {
  World w;
  const WorkerId alice = w.worker();
  const TaskId x = w.submit("x");
  CHECK(w.sent() == Actions{SendCompute{alice, x, RunId(0)}});

  w.finish("x");
  CHECK(w.sent() == Actions{ReportInMemory{w.me(), x, Slice()}});
  CHECK(w.state("x") == TaskState::memory);

  w.release({"x"});
  CHECK(w.sent() == Actions{SendFree{alice, x}});
  CHECK(!w.knows("x"));
  CHECK(w.inner().tasks.size() == 0);
  CHECK(w.nothing_else_sent());
}

TEST_CASE("a chain runs in order and inputs are freed as soon as they are used",
          "[scheduler][run]") {
  World w;
  const WorkerId alice = w.worker();
  w.graph({{"a"}, {"b", {"a"}}, {"c", {"b"}}});
  const TaskId a = w.id("a"), b = w.id("b"), c = w.id("c");
  CHECK(w.sent() == Actions{SendCompute{alice, a, RunId(0)}});
  w.finish("a");
  CHECK(w.sent() == Actions{SendCompute{alice, b, RunId(1)}});
  w.finish("b");
  CHECK(w.sent() == Actions{SendFree{alice, a}, SendCompute{alice, c, RunId(2)}});
  w.finish("c");
  CHECK(w.sent() == Actions{ReportInMemory{w.me(), c, Slice()}, SendFree{alice, b}});
  CHECK(w.state("a") == TaskState::released);
  CHECK(w.nothing_else_sent());
}

TEST_CASE("releasing the end of a chain forgets all of it", "[scheduler][run]") {
  World w;
  w.worker();
  w.graph({{"a"}, {"b", {"a"}}, {"c", {"b"}}});
  w.finish("a");
  w.finish("b");
  w.finish("c");
  w.release({"c"});
  CHECK(w.inner().tasks.size() == 0);
  CHECK(w.inner().groups.empty());
}

TEST_CASE("a very deep chain needs no recursion", "[scheduler][run]") {
  World w;
  w.worker();
  std::vector<Node> nodes{{"n-0"}};
  for (int i = 1; i < 5000; ++i) {
    nodes.push_back({"n-" + std::to_string(i), {"n-" + std::to_string(i - 1)}});
  }
  w.graph(nodes);
  CHECK(w.state("n-0") == TaskState::processing);
  CHECK(w.state("n-4999") == TaskState::waiting);
  w.release({"n-4999"});
  CHECK(w.inner().tasks.size() == 0);
}

TEST_CASE("every assignment gets a fresh run id", "[scheduler][run]") {
  World w;
  const WorkerId alice = w.worker();
  w.submit("x");
  const RunId first = w.run_of("x");
  w.lose(alice);
  w.worker();
  CHECK(w.run_of("x") != first);
}

TEST_CASE("a second client that wants a result in memory is told at once", "[scheduler][run]") {
  World w;
  w.worker();
  w.submit("x");
  w.finish("x");
  const ClientId other = w.client("other");
  w.forget_sent();
  w.desire({"x"}, other);
  CHECK(w.sent() == Actions{ReportInMemory{other, w.id("x"), Slice()}});
  w.release({"x"});
  CHECK(w.state("x") == TaskState::memory);
  CHECK(w.nothing_else_sent());
}

TEST_CASE("the type of a result travels to the client as it came", "[scheduler][run]") {
  World w;
  const WorkerId alice = w.worker();
  w.submit("x");
  w.forget_sent();
  const Key key = protocol::string_key("x");
  TaskFinished done;
  done.worker = alice;
  done.key = key;
  done.run = w.run_of("x");
  done.type = Slice::of_static("a pickle");
  done.type_name = "numpy.ndarray";
  w.step(done);
  CHECK(w.sent() == Actions{ReportInMemory{w.me(), w.id("x"), Slice::of_static("a pickle")}});
  CHECK(w.inner().type_name(w.task("x").type) == "numpy.ndarray");
}

TEST_CASE("fire-and-forget keeps a task running and lets go when it is done", "[scheduler][run]") {
  World w;
  const ClientId nobody = w.client("fire-and-forget");
  w.worker();
  w.submit("x");
  w.desire({"x"}, nobody);
  w.release({"x"});
  REQUIRE(w.state("x") == TaskState::processing);
  w.finish("x");
  CHECK(!w.knows("x"));
}

TEST_CASE("fire-and-forget lets go of a task that errs", "[scheduler][run]") {
  World w;
  const ClientId nobody = w.client("fire-and-forget");
  w.worker();
  w.submit("x");
  w.desire({"x"}, nobody);
  w.release({"x"});
  w.err("x");
  CHECK(!w.knows("x"));
}

TEST_CASE("the story of a key names its transitions and their cause", "[scheduler][story]") {
  World w;
  w.worker();
  w.submit("x");
  w.finish("x");
  const Key key = protocol::string_key("x");
  const auto lines = w.inner().story.about({key.view()}, {});
  REQUIRE(lines.size() == 4);
  CHECK(lines[1].to == TaskState::waiting);
  CHECK(lines[2].to == TaskState::processing);
  CHECK(lines[3].to == TaskState::memory);
  CHECK(lines[3].stimulus == "test");
  w.release({"x"});
  CHECK(w.inner().story.about({key.view()}, {}).size() == 5);
}

TEST_CASE("the story keeps the newest transitions, each with its own cause", "[scheduler][story]") {
  constexpr std::uint32_t kKept = 700;
  constexpr int kSteps = 5000;
  Story story(kKept);
  const Key key = protocol::string_key("x");
  const KeyRef ref(key.view());
  std::vector<int> causes;
  for (int i = 0; i < kSteps; ++i) {
    const std::string stimulus = "step-" + std::to_string(i);
    story.begin(stimulus);
    for (int n = 0; n < 1 + i % 2; ++n) {
      story.add(ref, TaskState::waiting, TaskState::processing, i);
      causes.push_back(i);
    }
  }
  const auto lines = story.about({key.view()}, {});
  REQUIRE(lines.size() == kKept);
  for (std::size_t i = 0; i < kKept; ++i) {
    const int cause = causes[causes.size() - kKept + i];
    CHECK(lines[i].stimulus == "step-" + std::to_string(cause));
    CHECK(lines[i].wall == cause);
  }
  CHECK(story.about({}, {"step-4999"}).size() == 2);
  CHECK(story.about({}, {"step-4998"}).size() == 1);
  CHECK(story.about({}, {"step-1"}).empty());
}
