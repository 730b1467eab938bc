//! Messages that concern many tasks: what a step does at once is bounded, turns do the rest.
//!
//! Bounds are counted in actions and tasks, never in time. World validates after every step, and
//! the simulator draws small bounds for many of its seeds.
#include <algorithm>
#include <cmath>

#include "tests/scheduler/admission_bed.h"

using namespace scheduler;

namespace {

constexpr std::uint32_t kAtOnce = 10;
constexpr int kMany = 200;

Config bounded_steps() {
  Config config;
  config.transitions_at_once = kAtOnce;
  return config;
}

std::string name(const std::string& prefix, int i) { return prefix + "-" + std::to_string(i); }

//! A root and kMany tasks that need it; all of these are wanted.
std::vector<Node> fan() {
  std::vector<Node> nodes{{"root"}};
  for (int i = 0; i < kMany; ++i) nodes.push_back({name("leaf", i), {"root"}});
  return nodes;
}

//! kMany tasks and one that needs them all, which alone is wanted.
std::vector<Node> merge() {
  std::vector<Node> nodes;
  Node last{"merge"};
  for (int i = 0; i < kMany; ++i) {
    nodes.push_back({name("part", i)});
    last.needs.push_back(name("part", i));
  }
  nodes.push_back(last);
  return nodes;
}

int count(const World& w, TaskState state) {
  int found = 0;
  w.inner().tasks.for_each([&](TaskId, const Task& task) { found += task.state == state; });
  return found;
}

//! A turn at a time; the most actions of this kind that one step gave.
template <class A>
int most_in_a_step(World& w) {
  int most = w.took<A>();
  while (w.turn()) most = std::max(most, w.took<A>());
  return most;
}

}  // namespace

TEST_CASE("C4: an error reaches those it concerns a few at a time", "[scheduler][later]") {
  World w(bounded_steps());
  w.worker();
  w.graph(fan());
  w.forget_sent();
  w.err("root");
  CHECK(count(w, TaskState::erred) <= static_cast<int>(2 * kAtOnce));
  CHECK(most_in_a_step<ReportErred>(w) <= static_cast<int>(2 * kAtOnce));
  CHECK(count(w, TaskState::erred) == kMany + 1);
}

TEST_CASE("C4: every client hears of every error", "[scheduler][later]") {
  World w(bounded_steps());
  w.worker();
  w.graph(fan());
  w.forget_sent();
  w.err("root");
  w.turns();
  CHECK(w.took<ReportErred>() == kMany);
  CHECK(w.inner().put_off.empty());
}

TEST_CASE("C4: tasks that wait for one input begin a few at a time", "[scheduler][later]") {
  World w(bounded_steps());
  w.worker();
  w.graph(fan());
  w.finish("root");
  CHECK(count(w, TaskState::waiting) >= kMany - static_cast<int>(2 * kAtOnce));
  w.turns();
  CHECK(count(w, TaskState::waiting) == 0);
  CHECK(w.state("leaf-0") == TaskState::processing);  // the most urgent is the first all the same
}

TEST_CASE("C4: letting go of the end of a large graph takes several turns", "[scheduler][later]") {
  World w(bounded_steps());
  w.worker();
  w.graph(merge());
  w.forget_sent();
  w.release({"merge"});
  CHECK(static_cast<int>(w.inner().tasks.size()) >= kMany - static_cast<int>(2 * kAtOnce));
  w.turns();
  CHECK(w.inner().tasks.size() == 0);
  CHECK(w.took<SendFree>() >= 1);
}

TEST_CASE("C4: inputs of a wide merge are freed a few at a time", "[scheduler][later]") {
  World w(bounded_steps());
  w.worker();
  w.graph(merge());
  for (int i = 0; i < kMany; ++i) {
    const std::string part = name("part", i);
    if (w.state(part) != TaskState::processing) w.turns();
    w.finish(part);
  }
  w.turns();
  w.forget_sent();
  w.finish("merge");
  CHECK(most_in_a_step<SendFree>(w) <= static_cast<int>(2 * kAtOnce));
  CHECK(count(w, TaskState::memory) == 1);
}

TEST_CASE("C4: results of a lost worker are made again a few at a time", "[scheduler][later]") {
  World w(bounded_steps());
  const WorkerId alice = w.worker({.threads = 300});
  w.map("x", kMany);
  for (int i = 0; i < kMany; ++i) w.finish(name("x", i));
  const WorkerId bob = w.worker({.threads = 300});
  w.forget_sent();
  w.lose(alice);
  CHECK(count(w, TaskState::memory) == 0);
  CHECK(w.took<ReportLost>() == kMany);
  CHECK(w.took<SendCompute>() <= static_cast<int>(kAtOnce));
  CHECK(most_in_a_step<SendCompute>(w) <= static_cast<int>(kAtOnce));
  CHECK(w.processing_count(bob) == kMany);
}

TEST_CASE("C4: a worker with many tasks and results is emptied a few at a time",
          "[scheduler][later]") {
  Config config = bounded_steps();
  config.worker_saturation = INFINITY;
  World w(config);
  const WorkerId alice = w.worker({.threads = 300});
  w.map("x", kMany);
  w.map("y", kMany);
  for (int i = 0; i < kMany; ++i) w.finish(name("x", i));
  const WorkerId bob = w.worker({.threads = 300});
  const auto left = [&] {
    const Worker& worker = w.inner().worker(alice);
    return worker.processing.size() + worker.has_what.size();
  };
  REQUIRE(left() == 2 * kMany);
  w.forget_sent();
  for (std::size_t before = left(); before > kAtOnce; before = left()) {
    w.step(WorkerFading{alice, false});
    CHECK(left() == before - kAtOnce);
    CHECK_FALSE(w.turn());  // until all is known, nothing begins
  }
  CHECK(w.took<SendCompute>() == 0);
  w.lose(alice);
  CHECK(most_in_a_step<SendCompute>(w) <= static_cast<int>(2 * kAtOnce));
  CHECK(w.processing_count(bob) == 2 * kMany);
  CHECK(w.task("y-0").suspicious() == 1);
  CHECK(w.task("x-0").suspicious() == 0);
}

TEST_CASE("what a fading worker had goes where it is wanted no more", "[scheduler][later]") {
  World w(bounded_steps());
  const WorkerId alice = w.worker({.threads = 300});
  w.map("x", kMany);
  for (int i = 0; i < kMany / 2; ++i) w.finish(name("x", i));
  w.step(WorkerFading{alice, false});
  std::vector<std::string> all;
  for (int i = 0; i < kMany; ++i) all.push_back(name("x", i));
  w.release(all);
  while (w.processing_count(alice) > 0) w.step(WorkerFading{alice, false});
  w.lose(alice);
  w.turns();
  CHECK(w.inner().tasks.size() == 0);
  CHECK(w.inner().fading == 0);
}

TEST_CASE("a task put off is let go when nobody wants it any more", "[scheduler][later]") {
  World w(bounded_steps());
  w.worker();
  w.graph(fan());
  w.err("root");
  std::vector<std::string> leaves;
  for (int i = 0; i < kMany; ++i) leaves.push_back(name("leaf", i));
  w.release(leaves);
  w.turns();
  CHECK(w.inner().tasks.size() == 0);
}

TEST_CASE("a retry overtakes errors that are still on their way", "[scheduler][later]") {
  World w(bounded_steps());
  w.worker();
  w.graph(fan());
  w.err("root");
  w.retry({name("leaf", 0)});
  w.turns();
  REQUIRE(w.state("root") == TaskState::processing);
  w.finish("root");
  w.turns();
  CHECK(count(w, TaskState::erred) + count(w, TaskState::waiting) == 0);
}

TEST_CASE("an input is lost while its dependents are being told of it", "[scheduler][later]") {
  World w(bounded_steps());
  const WorkerId alice = w.worker();
  w.graph(fan());
  w.finish("root");
  w.worker();
  w.lose(alice);
  w.turns();
  REQUIRE(w.state("root") == TaskState::processing);
  w.finish("root");
  w.turns();
  CHECK(count(w, TaskState::waiting) == 0);
}

TEST_CASE("inputs kept for a task that is to run again go with it", "[scheduler][later]") {
  World w(bounded_steps());
  const WorkerId alice = w.worker({.threads = 300});
  std::vector<Node> nodes{{"root"}, {"kept", {"root"}}};
  for (int i = 0; i < kMany; ++i) nodes.push_back({name("leaf", i), {"root"}});
  w.graph(nodes);
  w.finish("root");
  w.turns();
  w.finish("kept");
  w.worker({.threads = 1});
  w.add_keys(WorkerId(1), {"root", "kept"});
  w.lose(alice);  // the leaves are to run again; root and kept have other holders
  std::vector<std::string> leaves;
  for (int i = 0; i < kMany; ++i) leaves.push_back(name("leaf", i));
  w.release(leaves);
  w.turns();
  CHECK(w.state("kept") == TaskState::memory);
  CHECK(w.state("root") == TaskState::released);  // kept depends on it, nobody needs it
}

TEST_CASE("a graph whose input is lost is cancelled a slice at a time", "[scheduler][later]") {
  World w;
  const int many = 5000;
  const SubmissionId graph = w.open();
  std::vector<Node> nodes;
  std::vector<std::string> wants;
  for (int i = 0; i < many; ++i) {
    nodes.push_back({name("x", i), {"nobody-has-it"}});
    wants.push_back(name("x", i));
  }
  w.stage(graph, nodes);
  w.want(graph, wants);
  w.forget_sent();
  w.commit(graph, false);
  std::size_t told = 0;
  const auto add = [&] {
    for (const ReportCancelled& report : w.take<ReportCancelled>()) {
      CHECK(report.keys.size() <= 4096);
      told += report.keys.size();
    }
  };
  add();
  w.turns();
  add();
  CHECK(told == many);
  CHECK(w.inner().tasks.size() == 0);
}

TEST_CASE("C4: a new worker is offered what waits for it a few tasks at a time",
          "[scheduler][later]") {
  World w(bounded_steps());
  w.worker({.host = "10.0.0.2"});
  Annotations late;
  late.workers = {protocol::string_key("late")};
  std::vector<Node> nodes;
  for (int i = 0; i < kMany; ++i) nodes.push_back({name("part", i), {}, late});
  w.graph(nodes);
  REQUIRE(count(w, TaskState::no_worker) == kMany);
  w.forget_sent();
  const WorkerId worker = w.worker({.threads = 4, .name = "late"});
  CHECK(w.processing_on("part-0") == worker);
  CHECK(most_in_a_step<SendCompute>(w) == static_cast<int>(kAtOnce));
  CHECK(count(w, TaskState::processing) == kMany);
}

TEST_CASE("C4: loads too large for every worker err a few in each tick", "[scheduler][later]") {
  World w(bounded_steps());
  w.worker(roomy());
  std::vector<Node> nodes;
  for (int i = 0; i < kMany; ++i) nodes.push_back(load(name("part", i), i % 2 == 0 ? 2000 : 3000));
  w.graph(nodes);
  w.tick(11);
  CHECK(count(w, TaskState::erred) == static_cast<int>(kAtOnce));
  for (int i = 0; i < kMany / static_cast<int>(kAtOnce); ++i) {
    w.tick(0.1);
    w.turns();
  }
  CHECK(count(w, TaskState::erred) == kMany);
}

TEST_CASE("a load too large is found among many tasks that wait for a worker",
          "[scheduler][later]") {
  World w(bounded_steps());
  w.worker(roomy());
  Annotations nowhere;
  nowhere.workers = {protocol::string_key("nowhere")};
  std::vector<Node> nodes;
  for (int i = 0; i < kMany; ++i) nodes.push_back({name("part", i), {}, nowhere});
  nodes.push_back(load("huge", 2000));
  w.graph(nodes);
  w.tick(11);
  for (int i = 0; i < kMany / static_cast<int>(kAtOnce) + 1; ++i) w.tick(0.1);
  CHECK(w.state("huge") == TaskState::erred);
  CHECK(count(w, TaskState::no_worker) == kMany);
}
