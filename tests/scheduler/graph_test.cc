//! Graphs on their way in: staged, committed, activated, dropped; two at once. Rows C2 and C6.
#include "tests/scheduler/world.h"

using namespace scheduler;

TEST_CASE("a staged graph is invisible until it is committed", "[scheduler][graph]") {
  World w;
  w.worker();
  const SubmissionId graph = w.open();
  w.stage(graph, {{"a"}, {"b", {"a"}}});
  w.want(graph, {"b"});
  CHECK(!w.knows("a"));
  CHECK(w.nothing_else_sent());
  w.desire({"a"});
  CHECK(w.took<Note>() == 1);
  w.commit(graph);
  CHECK(w.state("a") == TaskState::processing);
  CHECK(w.state("b") == TaskState::waiting);
  CHECK(w.inner().submissions.empty());
}

TEST_CASE("a dropped graph leaves nothing behind", "[scheduler][graph]") {
  World w;
  w.worker();
  const SubmissionId graph = w.open();
  w.stage(graph, {{"a"}, {"b", {"a"}}});
  w.want(graph, {"b"});
  w.step(GraphDropped{graph});
  w.turns();
  CHECK(w.inner().tasks.size() == 0);
  CHECK(w.inner().groups.empty());
  CHECK(w.inner().submissions.empty());
  CHECK(w.nothing_else_sent());
}

TEST_CASE("a client that leaves before its graph is in takes the graph with it",
          "[scheduler][graph][C2]") {
  World w;
  w.worker();
  const ClientId guest = w.client("guest");
  const SubmissionId graph = w.open({.client = guest});
  w.stage(graph, {{"a"}});
  w.want(graph, {"a"});
  w.step(ClientRemoved{guest});
  w.turns();
  w.commit(graph);
  CHECK(w.inner().tasks.size() == 0);
  CHECK(w.inner().submissions.empty());
  CHECK(w.nothing_else_sent());
}

TEST_CASE("a graph of a client that has left already is not even opened", "[scheduler][graph][C2]") {
  World w;
  const ClientId guest = w.client("guest");
  w.step(ClientRemoved{guest});
  const SubmissionId graph = w.open({.client = guest});
  w.stage(graph, {{"a"}});
  CHECK(w.inner().tasks.size() == 0);
}

TEST_CASE("an input that nobody knows cancels the whole submission", "[scheduler][graph][C6]") {
  World w;
  w.worker();
  w.graph({{"a"}, {"b", {"a", "missing"}}}, {"a", "b"});
  const std::vector<Key> keys{protocol::string_key("a"), protocol::string_key("b")};
  CHECK(w.sent() == Actions{ReportCancelled{w.me(), keys, "lost dependencies", "", true}});
  w.turns();
  CHECK(w.inner().tasks.size() == 0);
}

TEST_CASE("a wanted key that is neither known nor in the graph cancels it",
          "[scheduler][graph][C6]") {
  World w;
  w.worker();
  w.graph({{"a"}}, {"a", "missing"});
  CHECK(w.took<ReportCancelled>() == 1);
  w.turns();
  CHECK(w.inner().tasks.size() == 0);
}

TEST_CASE("a cycle waits and can be let go; nothing breaks", "[scheduler][graph][C6]") {
  World w;
  w.worker();
  w.graph({{"a", {"b"}}, {"b", {"a"}}}, {"a"});
  CHECK(w.state("a") == TaskState::waiting);
  CHECK(w.nothing_else_sent());
  w.release({"a"});
  const ClientId other = w.client("other");
  w.desire({"a", "b"}, other);
  w.step(ClientRemoved{other});
}

TEST_CASE("a task that needs itself is sent and fails on the worker", "[scheduler][graph][C6]") {
  World w;
  w.worker();
  w.graph({{"a", {"a"}}}, {"a"});
  CHECK(w.state("a") == TaskState::processing);
}

TEST_CASE("a known key keeps its old dependencies; the difference is noted",
          "[scheduler][graph][C6]") {
  World w;
  w.worker({.threads = 4});
  w.graph({{"a"}, {"x", {"a"}}});
  w.forget_sent();
  w.graph({{"b"}, {"x", {"b"}}}, {"x"});
  CHECK(w.take<Note>() ==
        std::vector{Note{Note::Kind::dependencies_changed, protocol::string_key("x")}});
  CHECK(w.task("x").dependencies.size() == 1);
  CHECK(w.task("x").dependencies[0].task == w.id("a"));
  CHECK(!w.knows("b"));
}

TEST_CASE("submitting a key that is in memory again reports it again", "[scheduler][graph]") {
  World w;
  w.worker();
  w.submit("x");
  w.finish("x");
  w.forget_sent();
  w.submit("x");
  CHECK(w.sent() == Actions{ReportInMemory{w.me(), w.id("x"), Slice()}});
}

TEST_CASE("submitting a released key again makes it run", "[scheduler][graph]") {
  World w;
  w.worker();
  w.graph({{"a"}, {"b", {"a"}}});
  w.finish("a");
  w.finish("b");
  REQUIRE(w.state("a") == TaskState::released);
  w.submit("a");
  CHECK(w.state("a") == TaskState::processing);
}

TEST_CASE("records that lead to no wanted key are never run", "[scheduler][graph]") {
  World w;
  w.worker({.threads = 8});
  w.graph({{"a"}, {"b", {"a"}}, {"useless-1"}, {"useless-2", {"useless-1", "a"}}}, {"b"});
  CHECK(w.knows("a"));
  CHECK(!w.knows("useless-1"));
  CHECK(!w.knows("useless-2"));
  CHECK(w.task("a").dependents.size() == 1);
}

TEST_CASE("known keys and outside inputs are pinned while a graph is staged", "[scheduler][graph]") {
  World w;
  const WorkerId alice = w.worker();
  w.submit("x");
  w.finish("x");
  const SubmissionId graph = w.open();
  w.stage(graph, {{"y", {"x"}}});
  w.want(graph, {"y"});
  w.forget_sent();
  w.release({"x"});
  CHECK(w.state("x") == TaskState::memory);
  CHECK(w.nothing_else_sent());
  w.commit(graph);
  CHECK(w.processing_on("y") == alice);
  w.finish("y");
  CHECK(!w.inner().find(protocol::string_key("x")).valid() ==
        false);  // x stays known: y may have to be computed again
  CHECK(w.state("x") == TaskState::released);
}

TEST_CASE("a dropped graph lets go of what it had pinned", "[scheduler][graph]") {
  World w;
  const WorkerId alice = w.worker();
  const TaskId x = w.submit("x");
  w.finish("x");
  const SubmissionId graph = w.open();
  w.stage(graph, {{"y", {"x"}}});
  w.release({"x"});
  w.forget_sent();
  w.step(GraphDropped{graph});
  w.turns();
  CHECK(w.sent() == Actions{SendFree{alice, x}});
  CHECK(w.inner().tasks.size() == 0);
}

TEST_CASE("a pinned input that is lost for good cancels the graph at its commit", "[scheduler][graph]") {
  World w;
  const WorkerId alice = w.worker();
  w.scatter("d", {alice});
  const SubmissionId graph = w.open();
  w.stage(graph, {{"y", {"d"}}});
  w.want(graph, {"y"});
  w.lose(alice);
  w.forget_sent();
  w.commit(graph);
  CHECK(w.took<ReportCancelled>() == 1);
  CHECK(w.inner().tasks.size() == 0);
}

TEST_CASE("two graphs stage the same key: who commits first defines it", "[scheduler][graph]") {
  World w;
  w.worker({.threads = 4});
  const ClientId other = w.client("other");
  const SubmissionId first = w.open(), second = w.open({.client = other});
  w.stage(first, {{"a"}, {"x", {"a"}}});
  w.stage(second, {{"b"}, {"x", {"b"}}});
  w.want(first, {"x"});
  w.want(second, {"x"});
  w.commit(second);
  CHECK(w.task("x").dependencies[0].task == w.id("b"));
  w.commit(first);
  CHECK(w.task("x").dependencies.size() == 1);
  CHECK(w.task("x").who_wants.size() == 2);
  CHECK(!w.knows("a"));
}

TEST_CASE("two graphs stage the same key: if the first is dropped the second has it all", "[scheduler][graph]") {
  World w;
  w.worker({.threads = 4});
  const ClientId other = w.client("other");
  const SubmissionId first = w.open(), second = w.open({.client = other});
  w.stage(first, {{"a"}, {"x", {"a"}}});
  w.stage(second, {{"a"}, {"x", {"a"}}});
  w.want(second, {"x"});
  w.step(GraphDropped{first});
  w.turns();
  w.commit(second);
  CHECK(w.state("a") == TaskState::processing);
  CHECK(w.state("x") == TaskState::waiting);
}

TEST_CASE("a shared input is released and its worker dies while two graphs are staged", "[scheduler][graph]") {
  World w;
  const WorkerId alice = w.worker();
  const ClientId other = w.client("other");
  w.submit("shared");
  w.finish("shared");
  const SubmissionId first = w.open(), second = w.open({.client = other});
  w.stage(first, {{"p", {"shared"}}});
  w.stage(second, {{"q", {"shared"}}});
  w.want(first, {"p"});
  w.want(second, {"q"});
  w.release({"shared"});
  w.lose(alice);
  const WorkerId bob = w.worker({.threads = 4});
  w.commit(first);
  w.commit(second);
  CHECK(w.processing_on("shared") == bob);
  w.finish("shared");
  CHECK(w.processing_on("p") == bob);
  CHECK(w.processing_on("q") == bob);
}

TEST_CASE("append: each slice runs when it arrives", "[scheduler][graph]") {
  World w;
  w.worker({.threads = 8});
  const SubmissionId graph = w.open({.append = true});
  w.want(graph, {"a", "b"});
  w.stage(graph, {{"a"}});
  CHECK(w.state("a") == TaskState::processing);
  CHECK(!w.knows("b"));
  w.stage(graph, {{"b"}});
  CHECK(w.state("b") == TaskState::processing);
  w.commit(graph);
  CHECK(w.inner().submissions.empty());
}

TEST_CASE("append: a result may be asked for by a later slice", "[scheduler][graph]") {
  World w;
  w.worker();
  const SubmissionId graph = w.open({.append = true});
  w.want(graph, {"a", "b"});
  w.stage(graph, {{"a"}});
  w.finish("a");
  w.release({"a"});
  w.stage(graph, {{"b", {"a"}}});
  CHECK(w.state("b") == TaskState::processing);
  w.commit(graph);
  w.finish("b");
  CHECK(w.state("a") == TaskState::released);
}

TEST_CASE("append: an unknown input cancels what was asked for", "[scheduler][graph]") {
  World w;
  w.worker();
  const SubmissionId graph = w.open({.append = true});
  w.want(graph, {"y"});
  w.stage(graph, {{"y", {"missing"}}});
  CHECK(w.took<ReportCancelled>() == 1);
  w.commit(graph);
  CHECK(w.inner().tasks.size() == 0);
  CHECK(w.inner().submissions.empty());
}

TEST_CASE("append: keys that were asked for and never defined are reported lost", "[scheduler][graph]") {
  World w;
  w.worker();
  const SubmissionId graph = w.open({.append = true});
  w.want(graph, {"a", "never"});
  w.stage(graph, {{"a"}});
  w.forget_sent();
  w.commit(graph);
  CHECK(w.take<ReportCancelled>().at(0).keys == std::vector{protocol::string_key("never")});
  CHECK(w.state("a") == TaskState::processing);
}

TEST_CASE("a large graph becomes active over several turns, most urgent first", "[scheduler][graph]") {
  World w;
  w.worker();
  std::vector<Node> nodes;
  std::vector<std::string> wants;
  for (int i = 0; i < 10000; ++i) nodes.push_back({"t-" + std::to_string(i)});
  for (const Node& node : nodes) wants.push_back(node.key);
  const SubmissionId graph = w.open();
  w.stage(graph, nodes);
  w.want(graph, wants);
  w.commit(graph, false);
  CHECK(w.inner().submissions.size() == 1);
  CHECK(w.state("t-9999") == TaskState::staged);
  CHECK(w.state("t-0") == TaskState::processing);
  w.release({"t-9999"});  // not active yet, gone all the same
  w.turns();
  CHECK(!w.knows("t-9999"));
  CHECK(w.state("t-9998") == TaskState::queued);
  CHECK(w.inner().submissions.empty());
}

TEST_CASE("inputs finish before their dependents are active: the results are kept", "[scheduler][graph]") {
  World w;
  w.worker();
  std::vector<Node> nodes{{"a"}};
  std::vector<std::string> wants;
  for (int i = 0; i < 9000; ++i) {
    nodes.push_back({"t-" + std::to_string(i), {"a"}});
    wants.push_back(nodes.back().key);
  }
  const SubmissionId graph = w.open();
  w.stage(graph, nodes);
  w.want(graph, wants);
  w.commit(graph, false);
  w.finish("a");
  CHECK(w.state("a") == TaskState::memory);
  w.turns();
  CHECK(w.state("t-8999") == TaskState::queued);
}

TEST_CASE("records may come in any order of priority; the most urgent still go first", "[scheduler][graph]") {
  World w;
  w.worker();
  const SubmissionId graph = w.open();
  std::vector<Key> names;
  for (int i = 0; i < 20; ++i) names.push_back(protocol::string_key("t-" + std::to_string(i)));
  std::vector<KeyView> keys(names.begin(), names.end());
  w.step(GraphKeys{graph, keys, false, {}});
  GraphRecords records{graph, {}};
  for (std::uint32_t i = 0; i < 20; ++i) {
    GraphTask task;
    task.key = i;
    task.spec = SpecRef::of({});
    task.priority = 100 - i;
    records.tasks.push_back(task);
  }
  w.step(records);
  w.step(GraphWants{graph, keys});
  w.commit(graph);
  CHECK(w.state("t-19") == TaskState::processing);
  CHECK(w.state("t-0") == TaskState::queued);
}

TEST_CASE("lying records are ignored: keys out of range, no run spec, twice the same", "[scheduler][graph]") {
  World w;
  w.worker();
  const SubmissionId graph = w.open();
  const Key name = protocol::string_key("x");
  const KeyView key = name;
  w.step(GraphKeys{graph, {&key, 1}, false, {}});
  const std::uint32_t far[] = {7, 0};
  GraphTask bad;
  bad.key = 99;
  bad.spec = SpecRef::of({});
  GraphTask empty;
  empty.key = 0;
  GraphTask good = bad;
  good.key = 0;
  good.dependencies = far;
  w.step(GraphRecords{graph, {bad, empty, good, good}});
  w.step(GraphWants{graph, {&key, 1}});
  w.commit(graph);
  CHECK(w.state("x") == TaskState::processing);
}

TEST_CASE("a key spelled in its own way is echoed that way", "[scheduler][graph]") {
  World w;
  w.worker();
  const SubmissionId graph = w.open();
  const std::string one = "\x01", spelled = std::string("\xcb\x3f\xf0\0\0\0\0\0\0", 9);  // 1.0
  const KeyView key{one};
  const KeySpelling spelling{0, spelled};
  w.step(GraphKeys{graph, {&key, 1}, false, {&spelling, 1}});
  GraphTask task;
  task.key = 0;
  task.spec = SpecRef::of({});
  w.step(GraphRecords{graph, {task}});
  w.step(GraphWants{graph, {&key, 1}});
  w.commit(graph);
  const auto found = w.core.find(key);
  REQUIRE(found);
  CHECK(w.core.task(*found).spelled_key() == spelled);
  CHECK(w.core.task(*found).key() == key);
}
