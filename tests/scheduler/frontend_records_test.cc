//! What a graph process says is hostile until it is checked: each rule of the format, broken once.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "protocol/base/rng.h"
#include "protocol/wire/writer.h"
#include "scheduler/frontend/records.h"

namespace {

using namespace scheduler;  // NOLINT
using protocol::Document;
using protocol::MessageWriter;
using protocol::Slice;

template <class T>
Slice column(std::vector<T> values) {
  return Slice::copy_of({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
}

std::string packed_keys(const std::vector<std::string>& keys) {
  MessageWriter writer;
  writer.array(static_cast<std::uint32_t>(keys.size()));
  for (const std::string& key : keys) writer.str(key);
  return std::string(writer.take_payload()->header.view());
}

//! A records message that is good until a test breaks it: two tasks, the second needs the first.
struct Message {
  std::uint64_t first = 0;
  std::uint64_t n = 2;
  std::optional<std::uint64_t> tail = 0;
  std::vector<Slice> columns = {
      column<std::uint32_t>({3, 2}),    Slice::copy_of("abcde"),
      column<std::uint32_t>({0, 1, 3}), column<std::uint32_t>({2, 0, 2}),
      column<std::uint32_t>({0, 0, 1}), column<std::uint32_t>({1}),
      column<std::uint8_t>({0, 1}),     column<std::uint32_t>({0xffffffff, 0}),
      column<std::int64_t>({7, -9}),    column<std::uint32_t>({0xffffffff, 0}),
  };

  protocol::Result<std::vector<GraphTask>> read(GraphDecoder& decoder) const {
    MessageWriter writer;
    writer.map(3);
    writer.field("first");
    writer.uinteger(first);
    writer.field("n");
    writer.uinteger(n);
    writer.field("tail");
    tail ? writer.uinteger(*tail) : writer.nil();
    const auto header = writer.take_payload();
    Document document;
    REQUIRE(document.parse(header->header.view()).ok());
    return decoder.records(document.root(), columns);
  }
};

protocol::Status add_annotations(GraphDecoder& decoder,
                                 const std::function<void(MessageWriter&)>& f) {
  MessageWriter writer;
  f(writer);
  const auto packed = writer.take_payload();
  Document document;
  REQUIRE(document.parse(packed->header.view()).ok());
  return decoder.annotations(document.root());
}

void annotations_of(MessageWriter& writer, bool joins) {
  MessageWriter raw;
  raw.map(2);
  raw.field("retries");
  raw.uinteger(3);
  raw.field("rask");
  raw.map(2);
  raw.field("lazy");
  raw.uinteger(1);
  raw.field("joins");
  raw.boolean(joins);
  const auto map = raw.take_payload();
  writer.array(1);
  writer.map(8);
  writer.field("memory");
  writer.uinteger(2'000'000'000);
  writer.field("io");
  writer.map(2);
  writer.field("device");
  writer.str("/mnt/hdd");
  writer.field("concurrency");
  writer.uinteger(1);
  writer.field("priority");
  writer.real(2.5);
  writer.field("retries");
  writer.uinteger(3);
  writer.field("workers");
  writer.array(2);
  writer.str("tcp://10.0.0.1:1");
  writer.integer(5);
  writer.field("allow_other_workers");
  writer.boolean(true);
  writer.field("resources");
  writer.map(2);
  writer.str("b");
  writer.real(2);
  writer.str("a");
  writer.integer(1);
  writer.field("raw");
  writer.bin(map->header.view());
}

void annotation_set(MessageWriter& writer) { annotations_of(writer, false); }

//! Two keys, one outside, two blobs, one annotation set.
void prepare(GraphDecoder& decoder) {
  REQUIRE(decoder.keys(packed_keys({"x", "y"}), false).ok());
  REQUIRE(decoder.keys(packed_keys({"z"}), true).ok());
  const std::vector<Slice> blobs = {Slice::copy_of("TAIL"), Slice::copy_of("BUFFER")};
  REQUIRE(decoder.blobs(blobs, {}).ok());
  REQUIRE(add_annotations(decoder, annotation_set).ok());
}

bool refused(const std::function<void(Message&)>& breaks) {
  GraphDecoder decoder({});
  prepare(decoder);
  Message message;
  breaks(message);
  return !message.read(decoder).ok();
}

}  // namespace

TEST_CASE("records become tasks with shared run specs", "[frontend]") {
  GraphDecoder decoder({});
  prepare(decoder);
  auto tasks = Message().read(decoder);
  REQUIRE(tasks.ok());
  REQUIRE(tasks->size() == 2);
  const GraphTask& x = (*tasks)[0];
  const GraphTask& y = (*tasks)[1];
  CHECK(x.key == 0);
  CHECK(std::vector<std::uint32_t>(x.dependencies.begin(), x.dependencies.end()) ==
        std::vector<std::uint32_t>{2});
  CHECK(std::vector<std::uint32_t>(y.dependencies.begin(), y.dependencies.end()) ==
        std::vector<std::uint32_t>{0, 2});
  CHECK(x.spec.get().own.view() == "abc");
  CHECK(x.spec.get().tail.empty());
  CHECK(y.spec.get().own.view() == "de");
  CHECK(y.spec.get().tail.view() == "TAIL");
  REQUIRE(y.spec.get().buffers.size() == 1);
  CHECK(y.spec.get().buffers[0].view() == "BUFFER");
  CHECK_FALSE(x.data_producer);
  CHECK(y.data_producer);
  CHECK(x.priority == 7);
  CHECK(y.priority == -9);
  CHECK(x.annotations == nullptr);
  REQUIRE(y.annotations != nullptr);
  CHECK(y.annotations->priority == 2.5);
  CHECK(y.annotations->retries == 3);
  CHECK(y.annotations->allow_other_workers);
  CHECK(y.annotations->lazy);
  CHECK(y.annotations->workers.size() == 2);
  CHECK(y.annotations->memory == 2'000'000'000);
  CHECK(y.annotations->io_device == "/mnt/hdd");
  CHECK(y.annotations->io_concurrency == 1);
  CHECK(y.annotations->resources == Resources{{"a", 1.0}, {"b", 2.0}});
  CHECK(decoder.complete().ok());
}

TEST_CASE("a task that joins what it reads needs it all in memory", "[frontend]") {
  GraphDecoder decoder({});
  REQUIRE(decoder.keys(packed_keys({"x", "y"}), false).ok());
  REQUIRE(decoder.keys(packed_keys({"z"}), true).ok());
  const std::vector<Slice> blobs = {Slice::copy_of("TAIL"), Slice::copy_of("BUFFER")};
  REQUIRE(decoder.blobs(blobs, {}).ok());
  REQUIRE(
      add_annotations(decoder, [](MessageWriter& writer) { annotations_of(writer, true); }).ok());
  auto tasks = Message().read(decoder);
  REQUIRE(tasks.ok());
  REQUIRE((*tasks)[1].annotations != nullptr);
  CHECK_FALSE((*tasks)[1].annotations->lazy);
}

TEST_CASE("empty columns are defaults", "[frontend]") {
  GraphDecoder decoder({});
  prepare(decoder);
  Message message;
  message.tail.reset();
  for (int i : {2, 3, 4, 5, 6, 7, 8, 9}) message.columns[i] = Slice();
  auto tasks = message.read(decoder);
  REQUIRE(tasks.ok());
  CHECK((*tasks)[1].dependencies.empty());
  CHECK((*tasks)[1].priority == 1);
  CHECK((*tasks)[1].spec.get().tail.empty());
}

TEST_CASE("a slice with wrong numbers is refused", "[frontend][hostile][X16]") {
  CHECK_FALSE(refused([](Message&) {}));
  CHECK(refused([](Message& m) { m.n = 0; }));
  CHECK(refused([](Message& m) { m.n = 1; }));
  CHECK(refused([](Message& m) { m.n = 3; }));
  CHECK(refused([](Message& m) { m.n = ~0ull; }));
  CHECK(refused([](Message& m) { m.first = 1; }));
  CHECK(refused([](Message& m) { m.first = ~0ull; }));
  CHECK(refused([](Message& m) { m.tail = 2; }));
  CHECK(refused([](Message& m) { m.tail = ~0ull; }));
  CHECK(refused([](Message& m) { m.columns.pop_back(); }));
  CHECK(refused([](Message& m) { m.columns.emplace_back(); }));
}

TEST_CASE("a slice with wrong columns is refused", "[frontend][hostile][X16]") {
  const auto with = [](std::size_t i, Slice value) {
    return refused([&](Message& m) { m.columns[i] = value; });
  };
  CHECK(with(0, column<std::uint32_t>({3, 3})));
  CHECK(with(0, column<std::uint32_t>({3, 0xffffffff})));
  CHECK(with(0, column<std::uint32_t>({5})));
  CHECK(with(0, Slice::copy_of("1234567")));
  CHECK(with(1, Slice::copy_of("abcd")));
  CHECK(with(2, Slice()));
  CHECK(with(2, column<std::uint32_t>({0, 2, 1})));
  CHECK(with(2, column<std::uint32_t>({1, 1, 3})));
  CHECK(with(2, column<std::uint32_t>({0, 1, 4})));
  CHECK(with(2, column<std::uint32_t>({0, 0xffffffff, 3})));
  CHECK(with(2, column<std::uint32_t>({0, 3})));
  CHECK(with(3, column<std::uint32_t>({2, 0, 3})));
  CHECK(with(3, column<std::uint32_t>({2, 0})));
  CHECK(with(3, Slice::copy_of("12345678901")));
  CHECK(with(4, column<std::uint32_t>({0, 2, 1})));
  CHECK(with(5, column<std::uint32_t>({2})));
  CHECK(with(6, column<std::uint8_t>({0})));
  CHECK(with(7, column<std::uint32_t>({0, 1})));
  CHECK(with(7, column<std::uint32_t>({0})));
  CHECK(with(8, column<std::int64_t>({7})));
  CHECK(with(8, Slice::copy_of("123456789012345")));
  CHECK(with(9, column<std::uint32_t>({0, 2})));
  CHECK(with(9, column<std::uint32_t>({0})));
}

TEST_CASE("a graph is complete when every key of its own has a record",
          "[frontend][hostile][X16]") {
  GraphDecoder decoder({});
  prepare(decoder);
  CHECK_FALSE(decoder.complete().ok());
  CHECK_FALSE(decoder.keys(packed_keys({"late"}), false).ok());
  REQUIRE(Message().read(decoder).ok());
  CHECK(decoder.complete().ok());
  CHECK_FALSE(Message().read(decoder).ok());
}

TEST_CASE("keys are canonical, and only keys are keys", "[frontend][hostile][X16]") {
  MessageWriter writer;
  writer.array(2);
  writer.real(1.0);
  writer.str("a");
  const auto packed = writer.take_payload();
  GraphDecoder decoder({});
  auto keys = decoder.keys(packed->header.view(), false);
  REQUIRE(keys.ok());
  CHECK((*keys)[0].bytes == "\x01");
  CHECK((*keys)[1] == protocol::string_key("a").view());
  for (const char* bad : {"\xc0", "\x91\xc0", "\x91\x80", "\xdd\xff\xff\xff\xff", "\x92\x01", ""}) {
    CHECK_FALSE(decoder.keys(bad, false).ok());
  }
}

TEST_CASE("a blob may be a part of what was sent, and only of that", "[frontend][hostile][X16]") {
  const auto with_ref = [](std::vector<std::int64_t> ref) {
    GraphDecoder decoder({Slice(), Slice::copy_of("0123456789")});
    MessageWriter writer;
    writer.array(1);
    writer.array(static_cast<std::uint32_t>(ref.size()));
    for (std::int64_t number : ref) writer.integer(number);
    const auto packed = writer.take_payload();
    Document document;
    REQUIRE(document.parse(packed->header.view()).ok());
    const std::vector<Slice> frames = {Slice()};
    return decoder.blobs(frames, document.root()).ok();
  };
  CHECK(with_ref({1, 1, 0, 10}));
  CHECK(with_ref({1, 1, 10, 0}));
  CHECK_FALSE(with_ref({0, 1, 0, 1}));
  CHECK_FALSE(with_ref({2, 1, 0, 1}));
  CHECK_FALSE(with_ref({1, 2, 0, 1}));
  CHECK_FALSE(with_ref({1, 1, 0, 11}));
  CHECK_FALSE(with_ref({1, 1, 11, 0}));
  CHECK_FALSE(with_ref({1, 1, 5, 0x7fffffffffffffff}));
  CHECK_FALSE(with_ref({1, 1, -1, 1}));
  CHECK_FALSE(with_ref({1, 1, 0}));
}

TEST_CASE("annotation sets that make no sense are refused", "[frontend][hostile][X16]") {
  GraphDecoder decoder({});
  CHECK_FALSE(add_annotations(decoder, [](MessageWriter& w) { w.nil(); }).ok());
  CHECK_FALSE(add_annotations(decoder, [](MessageWriter& w) {
                w.array(1);
                w.map(0);
              }).ok());
  CHECK_FALSE(add_annotations(decoder, [](MessageWriter& w) {
                w.array(1);
                w.integer(5);
              }).ok());
}

TEST_CASE("random bytes never crash the decoder", "[frontend][hostile][X16]") {
  protocol::Rng rng(11);
  for (int round = 0; round < 20'000; ++round) {
    GraphDecoder decoder({});
    prepare(decoder);
    Message message;
    const std::size_t which = rng.below(message.columns.size());
    std::string bytes(message.columns[which].view());
    for (std::uint64_t i = 0; i <= rng.below(3); ++i) {
      if (!bytes.empty()) bytes[rng.below(bytes.size())] = static_cast<char>(rng.next());
    }
    if (rng.chance(0.2)) bytes.resize(rng.below(40));
    message.columns[which] = Slice::copy_of(bytes);
    (void)message.read(decoder);
  }
}

TEST_CASE("decoding a record is cheap", "[frontend][.bench]") {
  constexpr std::uint32_t kRecords = 4096;
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < kRecords; ++i) names.push_back("inc-" + std::to_string(i));
  const std::string keys = packed_keys(names);
  Message message;
  message.n = kRecords;
  message.tail = 0;
  message.columns.assign(10, Slice());
  message.columns[0] = column(std::vector<std::uint32_t>(kRecords, 40));
  message.columns[1] = Slice::own(std::string(kRecords * 40, 'x'));
  const auto begin = std::chrono::steady_clock::now();
  constexpr int kRounds = 50;
  for (int round = 0; round < kRounds; ++round) {
    GraphDecoder decoder({});
    const std::vector<Slice> blobs = {Slice::copy_of("TAIL")};
    REQUIRE(decoder.blobs(blobs, {}).ok());
    REQUIRE(decoder.keys(keys, false).ok());
    REQUIRE(message.read(decoder).ok());
  }
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - begin;
  WARN("keys and records: " << spent.count() / kRounds / kRecords << " µs per record");
}
