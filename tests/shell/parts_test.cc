//! The parts of the shell that need no network: options, settings, versions, metadata, topics, log,
//! semaphores.
#include <catch2/catch.hpp>

#include <functional>

#include "protocol/wire/message.h"
#include "protocol/wire/writer.h"
#include "scheduler/shell/blobs.h"
#include "scheduler/shell/log.h"
#include "scheduler/shell/metadata.h"
#include "scheduler/shell/options.h"
#include "scheduler/shell/semaphores.h"
#include "scheduler/shell/settings.h"
#include "scheduler/shell/topics.h"
#include "scheduler/shell/versions.h"

using namespace scheduler;
using protocol::KeyView;
using protocol::MessageWriter;
using protocol::PayloadRef;

namespace {

template <class Write>
PayloadRef payload_of(const Write& write) {
  MessageWriter out;
  write(out);
  return out.take_payload();
}

template <class Write>
std::string bytes_of(const Write& write) {
  return std::string(payload_of(write)->header.view());
}

std::string read(Metadata& metadata, std::vector<protocol::Key> path) {
  const std::vector<KeyView> views(path.begin(), path.end());
  MessageWriter out;
  if (metadata.write(views, out)) return "missing";
  return std::string(out.take_payload()->header.view());
}

void set(Metadata& metadata, std::vector<protocol::Key> path, PayloadRef value) {
  const std::vector<KeyView> views(path.begin(), path.end());
  metadata.set(views, std::move(value));
}

}  // namespace

TEST_CASE("options are read with a space or an equals sign", "[shell][options]") {
  const auto options = parse_options({"--host", "", "--port=0", "--idle-timeout", "5 minutes"});
  REQUIRE(options);
  CHECK(options->host.empty());
  CHECK(options->port == 0);
  CHECK(options->idle_timeout == 300);
}

TEST_CASE("options whose feature comes later are accepted and named", "[shell][options]") {
  const auto options = parse_options({"--jupyter", "--preload", "x", "--no-dashboard"});
  REQUIRE(options);
  CHECK(options->later == std::vector<std::string>{"--jupyter", "--preload"});
}

TEST_CASE("what cannot be done is refused with a sentence", "[shell][options]") {
  CHECK_FALSE(parse_options({"--tls-cert", "x"}));
  CHECK_FALSE(parse_options({"--port", "many"}));
  CHECK_FALSE(parse_options({"--port"}));
  CHECK_FALSE(parse_options({"--nonsense"}));
}

TEST_CASE("durations are read as dask.utils.parse_timedelta reads them", "[shell][options]") {
  CHECK(*parse_seconds("90") == 90);
  CHECK(*parse_seconds("1h") == 3600);
  CHECK(*parse_seconds("100 ms") == Approx(0.1));
  CHECK(*parse_seconds("2 hours") == 7200);
  CHECK(*parse_seconds("day") == 86400);
  CHECK_FALSE(parse_seconds("5 bananas"));
}

TEST_CASE("settings come from the flat map, in either spelling of a key", "[shell][settings]") {
  const std::string map = bytes_of([](MessageWriter& out) {
    out.map(6);
    out.str("distributed.scheduler.allowed_failures");
    out.integer(7);
    out.str("distributed.scheduler.worker-saturation");
    out.real(std::numeric_limits<double>::infinity());
    out.str("distributed.scheduler.idle-timeout");
    out.nil();
    out.str("distributed.scheduler.default-task-durations.rechunk-split");
    out.real(1e-6);
    out.str("distributed.scheduler.blocked-handlers");
    out.array(1);
    out.str("feed");
    out.str("something.else");
    out.str("is left alone");
  });
  const auto settings = parse_settings(map);
  REQUIRE(settings);
  CHECK(settings->core.allowed_failures == 7);
  CHECK(std::isinf(settings->core.worker_saturation));
  CHECK(settings->idle_timeout == 0);
  CHECK(settings->blocked_handlers.contains("feed"));
  REQUIRE(settings->core.default_task_durations.size() == 1);
  CHECK(settings->core.default_task_durations[0].first == "rechunk-split");
}

TEST_CASE("the memory budget is the workers' target unless it is set", "[shell][settings]") {
  const auto budget_of = [](const std::function<void(MessageWriter&)>& budget) {
    const auto settings = parse_settings(bytes_of([&](MessageWriter& out) {
      out.map(2);
      out.str("rask.memory.budget");
      budget(out);
      out.str("distributed.worker.memory.target");
      out.real(0.5);
    }));
    return settings ? settings->core.memory_budget : -1;
  };
  CHECK(budget_of([](MessageWriter& out) { out.nil(); }) == 0.5);
  CHECK(budget_of([](MessageWriter& out) { out.real(0.8); }) == 0.8);
  CHECK(budget_of([](MessageWriter& out) { out.boolean(false); }) == 0);
  CHECK(budget_of([](MessageWriter& out) { out.str("lots"); }) == -1);
}

TEST_CASE("a setting of the wrong type is an error that names it", "[shell][settings]") {
  const std::string map = bytes_of([](MessageWriter& out) {
    out.map(1);
    out.str("distributed.scheduler.bandwidth");
    out.str("fast");
  });
  const auto settings = parse_settings(map);
  REQUIRE_FALSE(settings);
  CHECK(settings.error().where.find("distributed.scheduler.bandwidth") != std::string::npos);
}

TEST_CASE("equal versions give no warning, different ones the table of stock", "[shell][versions]") {
  const Packages mine{{"dask", "2026.8.0"}, {"numpy", "2.0"}, {"lz4", std::nullopt}};
  Packages theirs = mine;
  CHECK(mismatch_warning(mine, {&mine}, theirs, "Client").empty());
  // Not a package the scheduler itself depends on: only workers and clients must agree.
  Packages scheduler = mine;
  scheduler["numpy"] = "1.0";
  CHECK(mismatch_warning(scheduler, {&mine}, theirs, "Client").empty());
  theirs["dask"] = "2025.4.0";
  CHECK(mismatch_warning(mine, {&mine}, theirs, "Client") ==
        "Mismatched versions found\n\n"
        "+---------+----------+-----------+----------+\n"
        "| Package | Client   | Scheduler | Workers  |\n"
        "+---------+----------+-----------+----------+\n"
        "| dask    | 2025.4.0 | 2026.8.0  | 2026.8.0 |\n"
        "+---------+----------+-----------+----------+");
}

TEST_CASE("nothing is compared with a scheduler whose versions are not known yet",
          "[shell][versions]") {
  const Packages theirs{{"dask", "2026.8.0"}};
  CHECK(mismatch_warning(std::nullopt, {}, theirs, "Client").empty());
}

TEST_CASE("metadata paths make maps and lead into maps that were set whole", "[shell][metadata]") {
  using protocol::string_key;
  Metadata metadata;
  const auto one = payload_of([](MessageWriter& out) { out.integer(1); });
  set(metadata, {string_key("a"), string_key("b")}, one);
  CHECK(read(metadata, {string_key("a"), string_key("b")}) == "\x01");
  CHECK(read(metadata, {string_key("a")}) == "\x81\xa1" "b\x01");
  CHECK(read(metadata, {string_key("x")}) == "missing");
  CHECK(read(metadata, {string_key("a"), string_key("b"), string_key("c")}) == "missing");

  set(metadata, {string_key("m")}, payload_of([](MessageWriter& out) {
        out.map(1);
        out.str("k");
        out.str("v");
      }));
  CHECK(read(metadata, {string_key("m"), string_key("k")}) == "\xa1v");
  set(metadata, {string_key("m"), string_key("n")}, one);
  CHECK(read(metadata, {string_key("m")}) == "\x82\xa1k\xa1v\xa1n\x01");
  // Something in the way that is no map is replaced, as stock does.
  set(metadata, {string_key("m"), string_key("k"), string_key("deep")}, one);
  CHECK(read(metadata, {string_key("m"), string_key("k")}) == "\x81\xa4" "deep\x01");
}

TEST_CASE("a topic remembers its last events and tells its subscribers", "[shell][topics]") {
  std::vector<std::pair<std::uint32_t, std::string>> told;
  Topics topics(3, [&](protocol::ClientId client, std::string_view topic, const TopicEvent&) {
    told.emplace_back(client.value, std::string(topic));
  });
  topics.subscribe("print", protocol::ClientId(7));
  for (int i = 0; i < 5; ++i) {
    topics.publish({"print", "all"}, [&](MessageWriter& out) { out.integer(i); });
  }
  CHECK(told.size() == 5);
  CHECK(told[0] == std::pair<std::uint32_t, std::string>(7, "print"));
  REQUIRE(topics.find("print")->events.size() == 3);
  CHECK(topics.find("print")->events.back().message->header.view() == "\x04");
  topics.forget(protocol::ClientId(7));
  topics.publish({"print"}, [](MessageWriter& out) { out.nil(); });
  CHECK(told.size() == 5);
}

TEST_CASE("an event of a worker names the worker, once", "[shell][topics]") {
  protocol::Message message;
  REQUIRE(message.reset({protocol::Slice::own(bytes_of([](MessageWriter& out) {
    out.map(2);
    out.str("worker");
    out.str("somebody else");
    out.str("x");
    out.integer(1);
  }))}));
  const auto named = with_worker(message, message.root(), "tcp://1.2.3.4:5");
  REQUIRE(named);
  CHECK((*named)->header.view() == "\x82\xa1x\x01\xa6worker\xaftcp://1.2.3.4:5");
}

TEST_CASE("foreign text in the log is escaped and cut", "[shell][log]") {
  CHECK(sample("plain") == "plain");
  CHECK(sample(std::string_view("\n\x1b[31m", 6)) == "\\x0a\\x1b[31m");
  CHECK(sample(std::string(100, 'x'), 10) == "xxxxxxxxxx… (100 bytes)");
}

// ---- blobs --------------------------------------------------------------------------------------

TEST_CASE("shared bytes are sent once per worker and forgotten with their last share", "[shell]") {
  BlobBook book;
  std::vector<protocol::NumberedBlob> fresh;
  auto function = protocol::Slice::copy_of("a function");
  const auto other = protocol::Slice::copy_of("another");
  CHECK(book.number(function, fresh) == 1);
  CHECK(book.number(function, fresh) == 1);
  CHECK(book.number(other, fresh) == 2);
  REQUIRE(fresh.size() == 2);
  CHECK(fresh[0].bytes.view() == "a function");
  CHECK(book.sweep().empty());
  fresh.clear();
  function = protocol::Slice();
  CHECK(book.sweep() == std::vector<protocol::BlobNumber>{1});
  CHECK(book.sweep().empty());
  CHECK(book.size() == 1);
}

TEST_CASE("a buffer becomes a blob when two tasks in a row have it", "[shell]") {
  BlobBook book;
  std::vector<protocol::NumberedBlob> fresh;
  const auto shared = protocol::Slice::copy_of("closure");
  const auto own = protocol::Slice::copy_of("array");
  CHECK(book.number_if_shared(shared, fresh) == 0);
  CHECK(book.number_if_shared(own, fresh) == 0);
  CHECK(book.number_if_shared(shared, fresh) == 0);
  CHECK(book.number_if_shared(shared, fresh) == 1);
  CHECK(book.number_if_shared(own, fresh) == 0);
  CHECK(book.number_if_shared(shared, fresh) == 1);
  CHECK(fresh.size() == 1);
}

TEST_CASE("leases of a semaphore go to those who wait in the order in which they came", "[shell]") {
  Semaphores semaphores;
  const auto here = [] { return false; };
  CHECK(semaphores.create("s", 1, std::nullopt) == 1);
  CHECK(semaphores.create("s", 2, std::nullopt) == 1);
  CHECK(semaphores.acquire("s", "a", 0, here).done());
  CHECK(semaphores.acquire("s", "a", 0, here).done());  // asked again, not a second one
  CHECK(semaphores.held("s") == 1);
  const auto b = semaphores.acquire("s", "b", 1, here), c = semaphores.acquire("s", "c", 1, here);
  const auto d = semaphores.acquire("s", "d", 1, here);
  CHECK(!b.done());
  semaphores.give_up("s", "b");
  CHECK(semaphores.release("s", "a", 2));
  CHECK(!b.done());
  CHECK((c.done() && c.await_resume()));
  CHECK(!d.done());
  CHECK(!semaphores.release("s", "a", 2));
  semaphores.close("s");
  CHECK((d.done() && !d.await_resume()));
  CHECK(!semaphores.known("s"));
}

TEST_CASE("a lease that nobody speaks for, and one for somebody who left, hold nobody up",
          "[shell]") {
  Semaphores semaphores;
  const auto here = [] { return false; };
  const auto gone = [] { return true; };
  semaphores.create("s", 1, 30.0);
  CHECK(semaphores.acquire("s", "a", 0, here).done());
  const auto left = semaphores.acquire("s", "b", 1, gone),
             c = semaphores.acquire("s", "c", 1, here);
  CHECK(semaphores.refresh("s", "a", 10));
  semaphores.expire(40);
  CHECK(!c.done());
  semaphores.expire(40.5);
  CHECK((left.done() && !left.await_resume()));
  CHECK((c.done() && c.await_resume()));
  CHECK(semaphores.held("s") == 1);
  CHECK(!semaphores.refresh("s", "late", 41));  // it counts all the same, as with stock
  CHECK(semaphores.held("s") == 2);
}
