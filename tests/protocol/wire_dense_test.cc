//! The messages rask peers use among themselves: exact bytes, round trips, and damaged ones.
#include <catch2/catch.hpp>

#include "protocol/wire/messages_dense.h"
#include "tests/protocol/wire_loop.h"

using namespace protocol;
using namespace std::string_literals;

namespace {

const Key kX = string_key("x");
const Key kY = string_key("y");

DenseTask bare_task() {
  DenseTask task;
  task.key = kX;
  task.run_id = 7;
  task.priority = {0, 1, 2};
  task.own = Slice::of_static("P");
  task.tail = 3;
  return task;
}

void deliver(const DenseCompute& head, const std::vector<DenseTask>& tasks, Message& message) {
  MessageWriter writer;
  write(writer, head);
  for (const DenseTask& task : tasks) write(writer, task);
  protocol::deliver(writer, message);
}

//! Reads the one task of the message.
Status read_one(const Message& message, DenseTask& out) {
  DenseCompute head;
  Value list;
  const Status status = read(message, message.root(), head, list);
  if (!status) return status;
  for (const Value record : list.elements()) return read(message, record, out);
  return Error{Fault::bad_type, "no task"};
}

//! The list [key, run, …] cut off after `count` elements.
Status read_cut(const Message& message, std::size_t count) {
  MessageWriter writer;
  writer.map(2);
  writer.field("blobs");
  writer.array(0);
  writer.field("tasks");
  writer.array(1);
  writer.array(static_cast<std::uint32_t>(count));
  for (const Value record : message.root().find("tasks").elements()) {
    for (const Value element : record.elements()) {
      if (count-- == 0) break;
      REQUIRE(writer.value(message, element).ok());
    }
  }
  Message cut;
  protocol::deliver(writer, cut);
  DenseTask out;
  return read_one(cut, out);
}

}  // namespace

TEST_CASE("rask-compute stands on the wire as it always did", "[wire][dense]") {
  DenseCompute head;
  head.blobs = {{3, Slice::of_static("f")}};
  head.tasks = 1;
  head.stimulus_id = "s";
  Message message;
  deliver(head, {bare_task()}, message);
  CHECK(message.frames()[0].view() ==
        "\x84\xa2op\xac"s + "rask-compute" + "\xab"s + "stimulus_id" + "\xa1s\xa5"s + "blobs" +
            "\x91\x92\x03\xc4\x01"s + "f" + "\xa5"s + "tasks" +
            "\x91\x97\xa1x\x07\x93\x00\x01\x02\xc4\x01"s + "P" + "\x03\x90\xc0"s);
}

TEST_CASE("rask-compute comes back whole", "[wire][dense]") {
  const std::string large(100'000, 'L');
  DenseCompute head;
  head.blobs = {{3, Slice::of_static("small")}, {4, Slice::of_static(large)}};
  head.tasks = 2;
  head.stimulus_id = "cause-1";
  DenseTask full = bare_task();
  full.own = Slice::of_static(large);
  full.buffers = {{0, Slice::of_static("own")}, {4, Slice()}, {0, Slice::of_static(large)}};
  full.dependencies.add_key(kY, 12);
  full.dependencies.add_address("tcp://a:1");
  full.dependencies.add_key(kX, 0);
  full.resources = {{"GPU", 1.5}};
  full.actor = true;
  full.annotations = str_payload("note");
  Message message;
  deliver(head, {bare_task(), full}, message);

  DenseCompute got;
  Value list;
  REQUIRE(read(message, message.root(), got, list).ok());
  CHECK(got.stimulus_id == "cause-1");
  REQUIRE(got.blobs.size() == 2);
  CHECK(got.blobs[0].number == 3);
  CHECK(got.blobs[0].bytes.view() == "small");
  CHECK(got.blobs[1].bytes.view() == large);
  std::vector<DenseTask> tasks(2);
  std::size_t n = 0;
  for (const Value record : list.elements()) REQUIRE(read(message, record, tasks.at(n++)).ok());
  CHECK(n == 2);
  CHECK(tasks[0].key == kX.view());
  CHECK(tasks[0].run_id == 7);
  CHECK(tasks[0].priority == std::array<double, 3>{0, 1, 2});
  CHECK(tasks[0].tail == 3);
  CHECK(tasks[0].dependencies.keys.empty());
  CHECK(!tasks[0].annotations);
  CHECK(tasks[1].own.view() == large);
  REQUIRE(tasks[1].buffers.size() == 3);
  CHECK(tasks[1].buffers[0].bytes.view() == "own");
  CHECK(tasks[1].buffers[1].number == 4);
  CHECK(tasks[1].buffers[2].bytes.view() == large);
  REQUIRE(tasks[1].dependencies.keys.size() == 2);
  CHECK(tasks[1].dependencies.keys[0].nbytes == 12);
  CHECK(tasks[1].dependencies.workers(tasks[1].dependencies.keys[0])[0] == "tcp://a:1");
  CHECK(tasks[1].dependencies.keys[1].count == 0);
  CHECK(tasks[1].resources == full.resources);
  CHECK(tasks[1].actor);
  CHECK(tasks[1].annotations->header.view() == full.annotations->header.view());
}

TEST_CASE("a record of rask-compute that ends too early is an error", "[wire][dense]") {
  DenseCompute head;
  head.tasks = 1;
  Message message;
  deliver(head, {bare_task()}, message);
  for (std::size_t count = 0; count < 5; ++count) CHECK_FALSE(read_cut(message, count).ok());
  CHECK(read_cut(message, 7).ok());
}

TEST_CASE("bytes in a frame that is not there are an error", "[wire][dense]") {
  MessageWriter writer;
  writer.map(2);
  writer.field("blobs");
  writer.array(1);
  writer.array(2);
  writer.uinteger(1);
  writer.uinteger(99);
  writer.field("tasks");
  writer.array(0);
  Message message;
  protocol::deliver(writer, message);
  DenseCompute head;
  Value list;
  CHECK_FALSE(read(message, message.root(), head, list).ok());
}

TEST_CASE("rask-finished tells a class once and then its number", "[wire][dense]") {
  DenseFinished sent;
  sent.key = kX;
  sent.run_id = 7;
  sent.nbytes = 28;
  sent.type = 1;
  sent.type_pickle = "cint";
  sent.type_name = "int";
  sent.thread = 5;
  sent.start = 1.5;
  sent.stop = 2.5;
  sent.stimulus_id = "s";
  for (const bool first : {true, false}) {
    if (!first) sent.type_pickle = sent.type_name = "";
    MessageWriter writer;
    write(writer, sent);
    Message message;
    protocol::deliver(writer, message);
    DenseFinished got;
    REQUIRE(read(message, message.root(), got).ok());
    CHECK(got.key == kX.view());
    CHECK(got.run_id == 7);
    CHECK(got.nbytes == 28);
    CHECK(got.type == 1);
    CHECK(got.type_name == sent.type_name);
    CHECK(got.type_pickle == sent.type_pickle);
    CHECK(got.thread == 5);
    CHECK(got.start == 1.5);
    CHECK(got.stop == 2.5);
    CHECK(got.stimulus_id == "s");
  }
}

TEST_CASE("rask-finished with anything but numbers is an error", "[wire][dense]") {
  MessageWriter writer;
  writer.map(1);
  writer.field("task");
  writer.array(3);
  writer.key(kX);
  writer.str("seven");
  writer.uinteger(1);
  Message message;
  protocol::deliver(writer, message);
  DenseFinished got;
  CHECK_FALSE(read(message, message.root(), got).ok());
}

TEST_CASE("rask-forget round trips", "[wire][dense]") {
  MessageWriter writer;
  write(writer, ForgetBlobs{{1, 70000}});
  Message message;
  protocol::deliver(writer, message);
  ForgetBlobs got;
  REQUIRE(read(message, message.root(), got).ok());
  CHECK(got.numbers == std::vector<BlobNumber>{1, 70000});
}
