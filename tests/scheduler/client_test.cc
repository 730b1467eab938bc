//! Clients: wants, releases, cancels, scatters, departures. Rows C1 and C7.
#include "tests/scheduler/world.h"

using namespace scheduler;

TEST_CASE("a result wanted twice stays until both let go", "[scheduler][client]") {
  World w;
  w.worker();
  const ClientId other = w.client("other");
  w.submit("x");
  w.desire({"x"}, other);
  w.finish("x");
  CHECK(w.took<ReportInMemory>() == 2);
  w.release({"x"});
  CHECK(w.state("x") == TaskState::memory);
  w.release({"x"}, other);
  CHECK(!w.knows("x"));
}

TEST_CASE("a desire for an unknown key is only noted", "[scheduler][client]") {
  World w;
  w.desire({"x"});
  CHECK(w.sent() == Actions{Note{Note::Kind::unknown_key_desired, protocol::string_key("x")}});
}

TEST_CASE("a running task that nobody wants any more is freed and forgotten", "[scheduler][client]") {
  World w;
  const WorkerId alice = w.worker();
  const TaskId x = w.submit("x");
  w.forget_sent();
  w.release({"x"});
  CHECK(w.sent() == Actions{SendFree{alice, x}});
  CHECK(!w.knows("x"));
}

TEST_CASE("releasing an input that others need changes nothing", "[scheduler][client]") {
  World w;
  w.worker();
  w.graph({{"a"}, {"b", {"a"}}}, {"a", "b"});
  w.forget_sent();
  w.release({"a"});
  CHECK(w.state("a") == TaskState::processing);
  CHECK(w.nothing_else_sent());
}

TEST_CASE("C1: a client that leaves lets go of everything, pending work included", "[scheduler][client]") {
  World w;
  const WorkerId alice = w.worker();
  const ClientId guest = w.client("guest");
  w.graph({{"a"}, {"b", {"a"}}}, {}, {.client = guest});
  w.finish("a");
  w.forget_sent();
  w.step(ClientRemoved{guest});
  CHECK(w.inner().tasks.size() == 0);
  CHECK(w.took<SendFree>() == 2);
  CHECK(w.core.worker(alice).processing.empty());
  CHECK(w.nothing_else_sent());
}

TEST_CASE("C1: the departure of one client leaves the shared work of another", "[scheduler][client]") {
  World w;
  w.worker();
  const ClientId guest = w.client("guest");
  w.submit("x");
  w.desire({"x"}, guest);
  w.step(ClientRemoved{guest});
  CHECK(w.state("x") == TaskState::processing);
  w.finish("x");
  CHECK(w.take<ReportInMemory>().size() == 1);
}

TEST_CASE("C1: a client with very many wants leaves in slices", "[scheduler][client]") {
  World w;
  w.worker();
  const ClientId guest = w.client("guest");
  std::vector<Node> nodes;
  for (int i = 0; i < 6000; ++i) nodes.push_back({"t-" + std::to_string(i)});
  w.graph(nodes, {}, {.client = guest});
  w.step(ClientRemoved{guest});
  CHECK(w.inner().tasks.size() > 0);
  w.turns();
  CHECK(w.inner().tasks.size() == 0);
  CHECK(w.inner().client(guest) == nullptr);
}

TEST_CASE("cancel releases the key and its dependents and tells every client", "[scheduler][client]") {
  World w;
  w.worker();
  const ClientId other = w.client("other");
  w.graph({{"a"}, {"b", {"a"}}}, {"a", "b"});
  w.forget_sent();
  w.cancel({"a"});
  const std::vector<Key> keys{protocol::string_key("b"), protocol::string_key("a")};
  CHECK(w.take<ReportCancelled>() ==
        std::vector{ReportCancelled{w.me(), keys, "why", "message", false},
                    ReportCancelled{other, keys, "why", "message", false}});
  CHECK(w.took<SendFree>() == 1);
  CHECK(w.inner().tasks.size() == 0);
  CHECK(w.nothing_else_sent());
}

TEST_CASE("cancel leaves alone what another client wants, unless forced", "[scheduler][client]") {
  World w;
  w.worker();
  const ClientId other = w.client("other");
  w.submit("x");
  w.desire({"x"}, other);
  w.forget_sent();
  w.cancel({"x"});
  CHECK(w.state("x") == TaskState::processing);
  CHECK(w.nothing_else_sent());
  w.cancel({"x"}, true);
  CHECK(!w.knows("x"));
  CHECK(w.took<ReportCancelled>() == 2);
}

TEST_CASE("cancelling a deep chain by its root needs no recursion", "[scheduler][client]") {
  World w;
  w.worker();
  std::vector<Node> nodes{{"n-0"}};
  std::vector<std::string> wants{"n-0"};
  for (int i = 1; i < 3000; ++i) {
    nodes.push_back({"n-" + std::to_string(i), {"n-" + std::to_string(i - 1)}});
    wants.push_back(nodes.back().key);
  }
  w.graph(nodes, wants);
  w.cancel({"n-0"});
  CHECK(w.inner().tasks.size() == 0);
}

TEST_CASE("C7: cancel and submit again while the first attempt still runs", "[scheduler][client]") {
  World w;
  const WorkerId alice = w.worker();
  w.submit("x");
  const RunId first = w.run_of("x");
  w.cancel({"x"});
  w.submit("x");
  const RunId second = w.run_of("x");
  CHECK(second != first);
  w.forget_sent();
  // A stock worker goes on with the old attempt and answers with its run.
  w.finish("x", alice, first);
  CHECK(w.took<SendFree>() == 1);
  const RunId third = w.run_of("x");
  w.finish("x", alice, third);
  CHECK(w.state("x") == TaskState::memory);
}

TEST_CASE("C7: release, result in flight, submit again: the old result is not believed", "[scheduler][client]") {
  World w;
  const WorkerId alice = w.worker();
  w.submit("x");
  const RunId first = w.run_of("x");
  w.release({"x"});
  w.finish("x", alice, first);
  CHECK(w.took<SendFreeUnknown>() == 1);
  w.submit("x");
  CHECK(w.state("x") == TaskState::processing);
}

TEST_CASE("report-key answers with the state, or that the key is gone", "[scheduler][client]") {
  World w;
  w.worker();
  const TaskId x = w.submit("x");
  w.finish("x");
  w.forget_sent();
  const Key known = protocol::string_key("x"), gone = protocol::string_key("gone");
  w.step(KeyReported{w.me(), known});
  w.step(KeyReported{w.me(), gone});
  CHECK(w.sent() == Actions{ReportInMemory{w.me(), x, Slice()},
                            ReportCancelled{w.me(), {gone}, "", "", false}});
}

TEST_CASE("scattered data is in memory at once and its client is told", "[scheduler][client]") {
  World w;
  const WorkerId alice = w.worker();
  w.scatter("d", {alice}, 1000);
  CHECK(w.sent() == Actions{ReportInMemory{w.me(), w.id("d"), Slice()}});
  CHECK(w.core.worker(alice).nbytes == 1000);
  w.release({"d"});
  CHECK(w.took<SendFree>() == 1);
  CHECK(w.inner().tasks.size() == 0);
}

TEST_CASE("scattered data whose holder is gone is reported cancelled", "[scheduler][client]") {
  World w;
  const WorkerId alice = w.worker();
  w.lose(alice);
  w.scatter("d", {alice});
  CHECK(w.took<ReportCancelled>() == 1);
  CHECK(!w.knows("d"));
}

TEST_CASE("data scattered under the key of a waiting task wakes its dependents", "[scheduler][client]") {
  World w;
  const WorkerId alice = w.worker({.threads = 2});
  const WorkerId bob = w.worker();
  w.graph({{"a"}, {"b", {"a"}}});
  REQUIRE(w.processing_on("a") == alice);
  w.forget_sent();
  w.scatter("a", {bob});
  CHECK(w.state("a") == TaskState::memory);
  CHECK(w.processing_on("b") == bob);
  CHECK(w.take<SendFree>() == std::vector{SendFree{alice, w.id("a")}});
}

TEST_CASE("restart forgets every task in one step and tells the clients once", "[scheduler][client]") {
  World w;
  w.worker();
  w.graph({{"a"}, {"b", {"a"}}});
  w.finish("a");
  w.forget_sent();
  w.step(Restarted{});
  CHECK(w.sent() == Actions{ReportRestart{}});
  w.turns();
  CHECK(w.inner().tasks.size() == 0);
  CHECK(w.inner().groups.empty());
  w.submit("a");
  CHECK(w.state("a") == TaskState::processing);
}
