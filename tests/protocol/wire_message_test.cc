//! Messages: carried values come out and go in unopened, keys are canonical, writers do not copy.
#include <catch2/catch.hpp>

#include "protocol/wire/message.h"
#include "protocol/wire/messages_client.h"
#include "protocol/wire/ops.h"
#include "protocol/wire/writer.h"
#include "tests/protocol/wire_loop.h"

using namespace protocol;

namespace {

Slice sub_header(std::uint64_t sub_frames) {
  MessageWriter writer;
  writer.map(2);
  writer.field("serializer");
  writer.literal("pickle");
  writer.field("num-sub-frames");
  writer.uinteger(sub_frames);
  return writer.take_payload()->header;
}

Payload bundle(std::initializer_list<std::string> frames) {
  Payload payload;
  payload.kind = Payload::Kind::serialized;
  payload.header = sub_header(frames.size());
  for (const std::string& frame : frames) payload.frames.push_back(Slice::copy_of(frame));
  return payload;
}

//! Frame 0 with one marker, and the frames given.
Frames with_marker(const char* name, std::int64_t number, std::vector<Slice> frames) {
  MessageWriter writer;
  writer.map(1);
  writer.str(name);
  writer.integer(number);
  Frames all{writer.take_payload()->header};
  all.insert(all.end(), frames.begin(), frames.end());
  return all;
}

bool same(const Payload& a, const Payload& b) {
  if (a.kind != b.kind || a.header.view() != b.header.view()) return false;
  if (a.frames.size() != b.frames.size()) return false;
  for (std::size_t k = 0; k < a.frames.size(); ++k) {
    if (a.frames[k].view() != b.frames[k].view()) return false;
  }
  return true;
}

std::optional<Fault> payload_fault(Frames frames) {
  Message message;
  REQUIRE(message.reset(std::move(frames)).ok());
  const auto payload = message.payload(message.root());
  if (payload.ok()) return std::nullopt;
  return payload.error().fault;
}

}  // namespace

TEST_CASE("a payload is relayed byte for byte, only its number changes", "[wire][message]") {
  const Payload first = bundle({"one", "", "three"});
  Payload second = bundle({std::string(10'000, 'x')});
  second.kind = Payload::Kind::pickled;
  MessageWriter writer;
  writer.array(3);
  writer.payload(first);
  writer.payload(second);
  writer.payload(*bin_payload("plain"));
  Message message;
  deliver(writer, message);
  CHECK(message.frames().size() == 7);
  auto element = message.root().elements().begin();
  const PayloadRef one = *message.payload(*element);
  CHECK(same(*one, first));
  const PayloadRef two = *message.payload(*++element);
  CHECK(same(*two, second));
  CHECK((*message.payload(*++element))->kind == Payload::Kind::inline_value);
  writer.payload(two);  // again, now as the first of another message
  deliver(writer, message);
  CHECK(same(**message.payload(message.root()), second));
}

TEST_CASE("a value with markers inside is carried whole", "[wire][message]") {
  MessageWriter writer;
  writer.array(2);
  writer.payload(bundle({"before"}));
  writer.map(2);
  writer.field("plain");
  writer.integer(7);
  writer.field("list");
  writer.array(3);
  writer.payload(bundle({"a", std::string(5'000, 'b')}));
  writer.boolean(true);
  writer.payload(bundle({"c"}));
  Message message;
  deliver(writer, message);
  auto element = message.root().elements().begin();
  const Value nested = *++element;
  CHECK(holds_marker(nested));
  const PayloadRef carried = *message.payload(nested);
  CHECK(carried->kind == Payload::Kind::compound);
  CHECK(carried->frames.size() == 5);

  writer.array(2);  // relay it in another message, behind other frames
  writer.payload(bundle({"x", "y", "z"}));
  writer.payload(carried);
  Message relayed;
  deliver(writer, relayed);
  auto again = relayed.root().elements().begin();
  const Value value = *++again;
  CHECK(value.find("plain").as_int() == 7);
  auto inner = value.find("list").elements().begin();
  CHECK(same(**relayed.payload(*inner), bundle({"a", std::string(5'000, 'b')})));
  ++inner;
  CHECK((*inner).as_bool() == true);
  CHECK(same(**relayed.payload(*++inner), bundle({"c"})));
}

TEST_CASE("markers that lie about their frames are refused", "[wire][message]") {
  const Slice two = sub_header(2);
  const Slice x = Slice::copy_of("x");
  CHECK(payload_fault(with_marker("__Serialized__", 1, {two, x, x})) == std::nullopt);
  CHECK(payload_fault(with_marker("__Serialized__", 1, {two, x})) == Fault::truncated);
  CHECK(payload_fault(with_marker("__Pickled__", 1, {sub_header(0)})) == std::nullopt);
  CHECK(payload_fault(with_marker("__Pickled__", 2, {sub_header(0)})) == Fault::truncated);
  CHECK(payload_fault(with_marker("__Pickled__", 1ll << 62, {x})) == Fault::truncated);
  CHECK(payload_fault(with_marker("__Pickled__", 1, {x})) == Fault::bad_type);
  CHECK(payload_fault(with_marker("__Pickled__", 1, {Slice()})) == Fault::truncated);
  CHECK(payload_fault(with_marker("__Pickled__", 1, {sub_header(~0ull)})) == Fault::truncated);
}

TEST_CASE("a map that only looks like a marker is a plain value", "[wire][message]") {
  for (const std::int64_t number : {0ll, -1ll}) {
    Message message;
    REQUIRE(message.reset(with_marker("__Serialized__", number, {})).ok());
    CHECK_FALSE(as_marker(message.root()));
    CHECK((*message.payload(message.root()))->kind == Payload::Kind::inline_value);
  }
  Message message;
  REQUIRE(message.reset(with_marker("__Serialised__", 1, {})).ok());
  CHECK_FALSE(holds_marker(message.root()));
}

TEST_CASE("many markers naming the same frames cannot multiply memory", "[wire][message][X3]") {
  MessageWriter writer;
  constexpr std::uint32_t kMarkers = 1000;
  writer.array(kMarkers);
  for (std::uint32_t k = 0; k < kMarkers; ++k) {
    writer.map(1);
    writer.field("__Serialized__");
    writer.integer(1);
  }
  Frames frames{writer.take_payload()->header, sub_header(99)};
  frames.resize(101);
  Message message;
  REQUIRE(message.reset(std::move(frames)).ok());
  std::size_t given = 0;
  for (const Value element : message.root().elements()) given += message.payload(element).ok();
  CHECK(given == 1);
  CHECK(message.payload(*message.root().elements().begin()).ok());  // its owner may ask again
}

TEST_CASE("keys are borrowed when canonical and rewritten when not", "[wire][message]") {
  MessageWriter writer;
  writer.array(4);
  writer.key(string_key("x"));
  writer.real(1.0);
  writer.boolean(true);
  writer.nil();
  Message message;
  deliver(writer, message);
  auto element = message.root().elements().begin();
  const Value plain = *element;
  CHECK(message.key(plain)->bytes.data() == plain.raw().data());
  CHECK(message.key(*++element)->bytes == "\x01");
  CHECK(message.key(*++element)->bytes == "\x01");
  CHECK(message.key(*++element).error().fault == Fault::bad_type);
  CHECK_FALSE(message.key(Value()).ok());
}

TEST_CASE("large pieces are shared, small ones gathered", "[wire][writer]") {
  const Slice below = Slice::copy_of(std::string(MessageWriter::kShareMin - 1, 'b'));
  const Slice large = Slice::copy_of(std::string(MessageWriter::kShareMin, 'l'));
  MessageWriter writer;
  writer.literal("frame 0");
  writer.attach(below);
  CHECK(writer.finish().pieces.size() == 1);
  writer.literal("frame 0");
  CHECK(writer.attach(below) == 1);
  CHECK(writer.attach(large) == 2);
  CHECK(writer.attach(below) == 3);
  const OutMessage message = writer.finish();
  REQUIRE(message.pieces.size() == 3);
  CHECK(message.pieces[1].data() == large.data());
  const Frames frames = split(flat(message));
  CHECK(frames[1].view() == below.view());
  CHECK(frames[2].view() == large.view());
  CHECK(frames[3].view() == below.view());
  CHECK(writer.empty());
}

TEST_CASE("a large frame 0 is handed over and the writer goes on", "[wire][writer]") {
  MessageWriter writer;
  for (const std::size_t size : {65'000u, 66'000u, 1'000'000u, 10u}) {
    const std::string body(size, 'q');
    writer.bin(body);
    writer.attach(Slice::copy_of("side"));
    Message message;
    deliver(writer, message);
    CHECK(message.root().as_bin() == body);
    CHECK(message.frames()[1].view() == "side");
  }
}

TEST_CASE("a run spec is one pickle in the sub-header, its buffers follow", "[wire][writer]") {
  const std::string large(MessageWriter::kShareMin, 't');
  for (const std::string& tail : {std::string("tail"), large, std::string()}) {
    for (const std::string& own : {std::string("own-"), large}) {
      RunSpec spec;
      spec.own = Slice::copy_of(own);
      spec.tail = Slice::copy_of(tail);
      spec.buffers = {Slice::copy_of("b0"), Slice::copy_of(large)};
      MessageWriter writer;
      writer.array(2);
      writer.run_spec(spec);
      writer.run_spec(spec);
      Message message;
      deliver(writer, message);
      CHECK(message.frames().size() == 7);
      auto element = message.root().elements().begin();
      ++element;
      const PayloadRef payload = *message.payload(*element);
      CHECK(payload->kind == Payload::Kind::pickled);
      CHECK(payload->frames[1].view() == large);
      Document header;
      REQUIRE(header.parse(payload->header.view()).ok());
      CHECK(header.root().size() == 3);
      CHECK(header.root().find("pickled-obj").as_bin() == own + tail);
      CHECK(header.root().find("num-sub-frames").as_int() == 2);
      CHECK(header.root().find("compression").size() == 2);
    }
  }
}

TEST_CASE("a batch is an array whose length is known at its end", "[wire][writer]") {
  StreamBatch batch;
  for (const std::uint32_t count : {1u, 15u, 16u, 70'000u}) {
    CHECK(batch.empty());
    for (std::uint32_t k = 0; k < count; ++k) {
      MessageWriter& writer = batch.next();
      writer.map(1);
      writer.field("k");
      writer.uinteger(k);
    }
    CHECK(batch.size() == count);
    Message message;
    REQUIRE(message.reset(split(flat(batch.close()))).ok());
    REQUIRE(message.root().elements().size() == count);
    std::uint32_t k = 0;
    for (const Value map : message.root().elements()) {
      if (map.find("k").as_uint() != k++) FAIL();
    }
  }
}

TEST_CASE("one error for many keys is in a message once", "[wire][writer]") {
  const Key key = string_key("x");
  const PayloadRef exception = pickled_bytes_payload("e");
  const PayloadRef traceback = pickled_bytes_payload("t");
  StreamBatch batch;
  for (int i = 0; i < 3; ++i) write(batch.next(), ClientTaskErred{key, exception, traceback});
  write(batch.next(), ClientTaskErred{key, pickled_bytes_payload("other"), nullptr});
  Message message;
  REQUIRE(message.reset(split(flat(batch.close()))).ok());
  REQUIRE(message.frames().size() == 4);
  const auto frame = [](Value op, const char* field) {
    return op.find(field).find("__Pickled__").as_int().value_or(0);
  };
  std::vector<std::pair<std::int64_t, std::int64_t>> named;
  for (const Value op : message.root().elements()) {
    named.emplace_back(frame(op, "exception"), frame(op, "traceback"));
  }
  CHECK(named == std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 2}, {1, 2}, {1, 2}, {3, 0}});
  // Nothing is remembered from one message to the next.
  write(batch.next(), ClientTaskErred{key, exception, nullptr});
  REQUIRE(message.reset(split(flat(batch.close()))).ok());
  CHECK(message.frames().size() == 2);
}

TEST_CASE("numbers are written as Python would hold them", "[wire][writer]") {
  MessageWriter writer;
  writer.array(4);
  for (const double value : {3.0, -0.5, 1e300, -7.0}) writer.number(value);
  Message message;
  deliver(writer, message);
  std::vector<Type> types;
  for (const Value value : message.root().elements()) types.push_back(value.type());
  CHECK(types == std::vector<Type>{Type::integer, Type::floating, Type::floating, Type::integer});
}

TEST_CASE("a float stays a float", "[wire][writer]") {
  MessageWriter writer;
  for (const double value : {1.0, -0.25, 1e300}) {
    writer.real(value);
    Message message;
    deliver(writer, message);
    CHECK(message.root().is(Type::floating));
    CHECK(message.root().as_double() == value);
  }
}

TEST_CASE("every op has a name of its own", "[wire][ops]") {
  for (int k = 1; k <= static_cast<int>(Op::nanny_plugin_remove); ++k) {
    const auto op = static_cast<Op>(k);
    CHECK_FALSE(op_name(op).empty());
    CHECK(op_of(op_name(op)) == op);
  }
  CHECK(op_of("") == Op::unknown);
  CHECK(op_of("compute_task") == Op::unknown);
  CHECK(op_of("update-data") == Op::update_data);
  CHECK(op_of("update_data") == Op::update_data_rpc);
}
