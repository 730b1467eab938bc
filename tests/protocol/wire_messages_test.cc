//! Typed messages: what one side writes the other reads, exactly the right fields are written, and
// every required field that is missing is named.
#include <catch2/catch.hpp>

#include <set>

#include "protocol/wire/errors.h"
#include "protocol/wire/messages_client.h"
#include "protocol/wire/messages_register.h"
#include "protocol/wire/messages_rpc.h"
#include "protocol/wire/messages_worker.h"
#include "tests/protocol/wire_loop.h"

using namespace protocol;

namespace {

using Names = std::set<std::string>;

const Key kX = string_key("x");
const Key kY = *canonical_key("\x92\xa1y\x01");  // ("y", 1)

Names names(Value map) {
  Names out;
  for (const Entry entry : map.entries()) out.emplace(entry.key.as_str().value_or("?"));
  CHECK(out.size() == map.size());
  return out;
}

template <class Struct>
void deliver(const Struct& sent, Message& message) {
  MessageWriter writer;
  write(writer, sent);
  protocol::deliver(writer, message);
}

//! Copies the op-map without one field and with two unknown ones.
void without(const Message& message, std::string_view left_out, Message& out) {
  MessageWriter writer;
  const Value root = message.root();
  writer.map(static_cast<std::uint32_t>(root.size() + 1));
  writer.field("__future");
  writer.integer(1);
  for (const Entry entry : root.entries()) {
    const bool skip = entry.key.equals(left_out);
    writer.raw(skip ? ByteView("\xa9__ignored", 10) : entry.key.raw());
    REQUIRE(writer.value(message, entry.value).ok());
  }
  protocol::deliver(writer, out);
}

//! Reads the message with each field left out in turn; gives the fields whose absence is an error.
template <class Read>
Names required(const Message& message, Read read) {
  Names out;
  for (const std::string& name : names(message.root())) {
    Message damaged;
    without(message, name, damaged);
    const Status status = read(damaged);
    if (status.ok()) continue;
    CHECK(status.error().where.find("'" + name + "'") != std::string::npos);
    out.insert(name);
  }
  return out;
}

template <class Struct>
Names required(const Message& message) {
  return required(message, [](const Message& damaged) {
    Struct scratch;
    return read(damaged, damaged.root(), scratch);
  });
}

template <class Struct>
void check_keys_op(std::string_view op) {
  Struct sent;
  sent.keys = {kX, kY};
  sent.stimulus_id = "s-1";
  Message message;
  deliver(sent, message);
  CHECK(names(message.root()) == Names{"op", "keys", "stimulus_id"});
  CHECK(message.root().find("op").as_str() == op);
  Struct got;
  REQUIRE(read(message, message.root(), got).ok());
  CHECK(got.keys == sent.keys);
  CHECK(got.stimulus_id == "s-1");
  CHECK(required<Struct>(message) == Names{"keys"});
}

template <class Struct>
void check_key_op(std::string_view op) {
  Struct sent;
  sent.key = kY;
  sent.stimulus_id = "s-2";
  Message message;
  deliver(sent, message);
  CHECK(message.root().find("op").as_str() == op);
  Struct got;
  REQUIRE(read(message, message.root(), got).ok());
  CHECK(got.key == kY.view());
  CHECK(got.stimulus_id == "s-2");
  CHECK(required<Struct>(message) == Names{"key"});
}

WhoHas who_has() {
  WhoHas out;
  out.add_key(kX, 10);
  out.add_address("tcp://a:1");
  out.add_address("tcp://b:1");
  out.add_key(kY, 20);
  out.add_address("tcp://a:1");
  return out;
}

void check_who_has(const WhoHas& got, bool sizes) {
  REQUIRE(got.keys.size() == 2);
  CHECK(got.keys[0].key == kX.view());
  CHECK(got.keys[1].key == kY.view());
  CHECK(got.keys[1].nbytes == (sizes ? 20 : 0));
  REQUIRE(got.workers(got.keys[0]).size() == 2);
  CHECK(got.workers(got.keys[0])[1] == "tcp://b:1");
  CHECK(got.workers(got.keys[1])[0] == "tcp://a:1");
}

}  // namespace

TEST_CASE("compute-task has exactly its twelve fields and comes back whole", "[wire][messages]") {
  RunSpec spec;
  spec.own = Slice::copy_of("own");
  spec.tail = Slice::copy_of("tail");
  ComputeTask sent;
  sent.key = kX;
  sent.run_id = 77;
  sent.priority = {0, 1, 2.5};
  sent.dependencies = who_has();
  sent.spec = &spec;
  sent.resources = {{"GPU", 1}};
  sent.stimulus_id = "compute-task-1";
  Message message;
  deliver(sent, message);
  CHECK(names(message.root()) == Names{"op", "key", "run_id", "priority", "stimulus_id", "who_has",
                                       "nbytes", "run_spec", "resource_restrictions", "actor",
                                       "annotations", "span_id"});
  ComputeTask got;
  REQUIRE(read(message, message.root(), got).ok());
  CHECK(got.key == kX.view());
  CHECK(got.run_id == 77);
  CHECK(got.priority == sent.priority);
  check_who_has(got.dependencies, true);
  CHECK(got.run_spec->kind == Payload::Kind::pickled);
  CHECK(got.resources == sent.resources);
  CHECK(got.span_id.empty());
  CHECK(required<ComputeTask>(message) ==
        Names{"key", "run_id", "priority", "who_has", "nbytes", "run_spec"});
}

TEST_CASE("task-finished has exactly its eleven fields and comes back whole", "[wire][messages]") {
  TaskFinished sent;
  sent.key = kY;
  sent.run_id = 3;
  sent.nbytes = 28;
  sent.type = "pickle";
  sent.type_name = "int";
  sent.thread = 1234;
  sent.startstops = {{StartStop::Action::transfer, 1.5, 2.5, "tcp://a:1"},
                     {StartStop::Action::compute, 3, 4, ""}};
  sent.stimulus_id = "task-finished-1";
  Message message;
  deliver(sent, message);
  CHECK(names(message.root()) == Names{"op", "key", "run_id", "nbytes", "type", "typename",
                                       "metadata", "thread", "startstops", "stimulus_id",
                                       "status"});
  TaskFinished got;
  REQUIRE(read(message, message.root(), got).ok());
  CHECK(got.key == kY.view());
  CHECK(got.nbytes == 28);
  CHECK(got.type == "pickle");
  CHECK(got.type_name == "int");
  CHECK(got.thread == 1234);
  REQUIRE(got.startstops.size() == 2);
  CHECK(got.startstops[0].action == StartStop::Action::transfer);
  CHECK(got.startstops[0].source == "tcp://a:1");
  CHECK(got.startstops[1].stop == 4);
  CHECK(required<TaskFinished>(message) == Names{"key", "run_id"});
}

TEST_CASE("task-erred carries its exception unopened", "[wire][messages]") {
  TaskErred sent;
  sent.key = kX;
  sent.run_id = 3;
  sent.exception = bin_payload("exc");
  sent.exception_text = "ValueError('x')";
  sent.startstops = {{}};
  sent.stimulus_id = "s";
  Message message;
  deliver(sent, message);
  CHECK(names(message.root()) == Names{"op", "key", "run_id", "exception", "traceback",
                                       "exception_text", "traceback_text", "thread", "startstops",
                                       "stimulus_id", "status"});
  TaskErred got;
  REQUIRE(read(message, message.root(), got).ok());
  CHECK(got.exception->header.view() == sent.exception->header.view());
  CHECK(got.traceback->header.view() == nil_payload()->header.view());
  CHECK(got.exception_text == "ValueError('x')");
  CHECK(required<TaskErred>(message) == Names{"key", "run_id", "exception"});
}

TEST_CASE("the ops about keys round trip", "[wire][messages]") {
  check_keys_op<FreeKeys>("free-keys");
  check_keys_op<RemoveReplicas>("remove-replicas");
  check_keys_op<AddKeys>("add-keys");
  check_keys_op<RequestRefreshWhoHas>("request-refresh-who-has");
  check_key_op<StealRequest>("steal-request");
  check_key_op<ReleaseWorkerData>("release-worker-data");
  check_key_op<Reschedule>("reschedule");
  check_key_op<StealResponse>("steal-response");
}

TEST_CASE("the ops about replicas round trip", "[wire][messages]") {
  Message message;
  deliver(AcquireReplicas{who_has(), "s"}, message);
  CHECK(names(message.root()) == Names{"op", "who_has", "nbytes", "stimulus_id"});
  AcquireReplicas acquire;
  REQUIRE(read(message, message.root(), acquire).ok());
  check_who_has(acquire.who_has, true);
  CHECK(required<AcquireReplicas>(message) == Names{"who_has", "nbytes"});
  deliver(RefreshWhoHas{who_has(), "s"}, message);
  CHECK(names(message.root()) == Names{"op", "who_has", "stimulus_id"});
  RefreshWhoHas refresh;
  REQUIRE(read(message, message.root(), refresh).ok());
  check_who_has(refresh.who_has, false);
}

TEST_CASE("sizes in another order than the holders are matched by key", "[wire][messages]") {
  MessageWriter writer;
  writer.map(2);
  writer.field("who_has");
  write_who_has(writer, who_has());
  writer.field("nbytes");
  writer.map(2);
  writer.key(kY);
  writer.integer(20);
  writer.key(kX);
  writer.integer(10);
  Message message;
  deliver(writer, message);
  AcquireReplicas got;
  REQUIRE(read(message, message.root(), got).ok());
  check_who_has(got.who_has, true);
  CHECK(got.who_has.keys[0].nbytes == 10);
}

TEST_CASE("the small ops of the worker stream round trip", "[wire][messages]") {
  Message message;
  deliver(LongRunning{kX, 5, -1, "s"}, message);
  CHECK(names(message.root()) == Names{"op", "key", "run_id", "compute_duration", "stimulus_id"});
  CHECK(message.root().find("compute_duration").is_nil());
  LongRunning running;
  REQUIRE(read(message, message.root(), running).ok());
  CHECK(running.compute_seconds == -1);
  CHECK(required<LongRunning>(message) == Names{"key", "run_id"});

  deliver(StealResponse{kX, "", "s"}, message);
  CHECK(names(message.root()) == Names{"op", "key", "state", "stimulus_id"});
  CHECK(message.root().find("state").is_nil());

  deliver(WorkerStatusChange{"running", "s"}, message);
  CHECK(names(message.root()) == Names{"op", "status", "stimulus_id"});
  WorkerStatusChange status;
  REQUIRE(read(message, message.root(), status).ok());
  CHECK(status.status == "running");

  deliver(RemoveWorker{"tcp://a:1", "s"}, message);
  RemoveWorker remove;
  REQUIRE(read(message, message.root(), remove).ok());
  CHECK(remove.worker == "tcp://a:1");
  CHECK(required<RemoveWorker>(message) == Names{"worker"});

  deliver(CloseWorker{"why"}, message);
  CHECK(names(message.root()) == Names{"op", "reason"});
  CloseWorker close;
  REQUIRE(read(message, message.root(), close).ok());
  CHECK(close.reason == "why");

  deliver(LogEvent{{"a", "b"}, str_payload("m")}, message);
  LogEvent event;
  REQUIRE(read(message, message.root(), event).ok());
  CHECK(event.topics == std::vector<std::string_view>{"a", "b"});
  CHECK(required<LogEvent>(message) == Names{"topic", "msg"});
}

TEST_CASE("a wrong type is an error that names op and field", "[wire][messages]") {
  MessageWriter writer;
  writer.map(2);
  writer.field("key");
  writer.key(kX);
  writer.field("run_id");
  writer.literal("seven");
  Message message;
  deliver(writer, message);
  TaskFinished got;
  CHECK(read(message, message.root(), got).error().where ==
        "task-finished: field 'run_id' is not an int >= 0");
  writer.nil();
  deliver(writer, message);
  CHECK(read(message, message.root(), got).error().where == "task-finished: not a map");
}

TEST_CASE("update-graph is read with its set of keys and its spans of time", "[wire][messages]") {
  MessageWriter writer;
  writer.map(9);
  writer.field("expr_ser");
  writer.bin("graph");
  writer.field("keys");
  writer.map(2);
  writer.field("__Set__");
  writer.boolean(true);
  writer.field("as-list");
  writer.array(2);
  writer.key(kX);
  writer.key(kY);
  writer.field("internal_priority");
  writer.map(1);
  writer.key(kY);
  writer.integer(4);
  writer.field("submitting_task");
  writer.nil();
  writer.field("fifo_timeout");
  writer.literal("100 ms");
  writer.field("actors");
  writer.boolean(true);
  writer.field("code");
  writer.nil();
  writer.field("annotations");
  writer.bin("annotations");
  writer.field("span_metadata");
  writer.nil();
  Message message;
  deliver(writer, message);
  UpdateGraph got;
  REQUIRE(read(message, message.root(), got).ok());
  CHECK(got.keys == std::vector<KeyView>{kX, kY});
  CHECK(got.has_priorities);
  CHECK(got.priorities == std::vector<std::pair<KeyView, std::int64_t>>{{kY, 4}});
  CHECK_FALSE(got.has_submitting_task);
  CHECK(got.fifo_timeout_seconds == Approx(0.1));
  CHECK(got.actors == UpdateGraph::Actors::all);
  CHECK(required<UpdateGraph>(message) == Names{"expr_ser", "keys"});
}

TEST_CASE("spans of time are read as Dask reads them", "[wire][messages]") {
  const std::pair<const char*, double> rows[] = {{"60s", 60}, {"100 ms", 0.1}, {"2", 2},
                                                 {"1.5 minutes", 90}, {"h", 3600}};
  for (const auto& [text, seconds] : rows) {
    MessageWriter writer;
    writer.str(text);
    Message message;
    deliver(writer, message);
    CHECK(as_seconds(message.root()).value() == Approx(seconds));
  }
  MessageWriter writer;
  writer.literal("3 parsecs");
  Message message;
  deliver(writer, message);
  CHECK_FALSE(as_seconds(message.root()));
}

TEST_CASE("messages to clients leave out what is empty and never say status", "[wire][messages]") {
  Message message;
  deliver(KeyInMemory{kX, "", {}}, message);
  CHECK(names(message.root()) == Names{"op", "key"});
  deliver(KeyInMemory{kX, "type", {"tcp://a:1"}}, message);
  CHECK(names(message.root()) == Names{"op", "key", "type", "workers"});
  deliver(ClientTaskErred{kX, bin_payload("e"), nullptr}, message);
  CHECK(names(message.root()) == Names{"op", "key", "exception", "traceback"});
  deliver(CancelledKeys{{kX}, true, "why", "text"}, message);
  CHECK(names(message.root()) == Names{"op", "keys", "reason", "msg"});
  CHECK(message.root().find("keys").elements().size() == 1);
  deliver(CancelledKeys{{kX}, false, "", ""}, message);
  CHECK(names(message.root()) == Names{"op", "keys"});
  deliver(StreamStart{"", ""}, message);
  CHECK(names(message.root()) == Names{"op"});
  deliver(StreamStart{"w", "e"}, message);
  CHECK(names(message.root()) == Names{"op", "warning", "error"});
  deliver(TopicEvent{"topic", 1.5, str_payload("m")}, message);
  CHECK(message.root().find("event").elements().size() == 2);
}

TEST_CASE("registration and heartbeats round trip", "[wire][messages]") {
  RegisterWorker sent;
  sent.address = "tcp://a:1";
  sent.nthreads = 4;
  sent.name = kX;
  sent.resources = {{"GPU", 2}};
  sent.memory_limit = 1 << 30;
  sent.local_directory = "/tmp";
  sent.services = {{"dashboard", 8787}};
  sent.pid = 99;
  sent.stimulus_id = "s";
  sent.server_id = "Worker-1";
  sent.measured.memory = 12345;
  sent.measured.bandwidth_workers = {{"tcp://b:1", {1e8, 2}}};
  Message message;
  deliver(sent, message);
  RegisterWorker got;
  REQUIRE(read(message, message.root(), got).ok());
  CHECK(got.address == sent.address);
  CHECK(got.status == "init");
  CHECK(got.name == kX.view());
  CHECK(got.memory_limit == sent.memory_limit);
  CHECK(got.services == sent.services);
  CHECK(got.measured.memory == 12345);
  CHECK(got.measured.bandwidth_workers == sent.measured.bandwidth_workers);
  CHECK(got.nanny.empty());
  CHECK(required<RegisterWorker>(message) == Names{"address", "nthreads", "name", "metrics"});

  HeartbeatWorker beat;
  beat.address = "tcp://a:1";
  beat.executing = {{kY, 0.5}};
  beat.measured.spilled_disk = 7;
  deliver(beat, message);
  HeartbeatWorker beat_got;
  REQUIRE(read(message, message.root(), beat_got).ok());
  CHECK(beat_got.executing == beat.executing);
  CHECK(beat_got.measured.spilled_disk == 7);

  deliver(RegisterWorkerReply{true, "", 1, 0.5, {{"shuffle", "pickle"}}, ""}, message);
  RegisterWorkerReply reply;
  REQUIRE(read(message, reply).ok());
  CHECK(reply.ok);
  CHECK(reply.worker_plugins.size() == 1);
  deliver(RegisterWorkerReply{false, "name taken", 1, 0, {}, ""}, message);
  REQUIRE(read(message, reply).ok());
  CHECK_FALSE(reply.ok);
  CHECK(reply.message == "name taken");
  deliver(HeartbeatReply{true, 0, 0}, message);
  HeartbeatReply heartbeat;
  REQUIRE(read(message, heartbeat).ok());
  CHECK(heartbeat.missing);

  deliver(Handshake{"", {3, 11, 2}, 5, 1}, message);
  Handshake handshake;
  REQUIRE(read(message, handshake).ok());
  CHECK(handshake.rask == 1);
  CHECK(handshake.python[1] == 11);
  CHECK(required(message, [](const Message& damaged) {
          Handshake scratch;
          return read(damaged, scratch);
        }) == Names{"compression", "pickle-protocol"});
}

TEST_CASE("an identity merges the worker's extra information", "[wire][messages]") {
  MessageWriter writer;
  writer.map(1);
  writer.field("gpu");
  writer.literal("yes");
  WorkerIdentity worker;
  worker.address = "tcp://a:1";
  worker.name = kX;
  worker.status = "running";
  worker.extra = writer.take_payload();
  const WorkerIdentity workers[] = {worker};
  Identity identity;
  identity.n_workers = 3;
  identity.workers = workers;
  Message message;
  deliver(identity, message);
  CHECK(names(message.root()) == Names{"type", "id", "address", "services", "started", "n_workers",
                                       "total_threads", "total_memory", "workers"});
  const Value shown = message.root().find("workers").find("tcp://a:1");
  CHECK(shown.find("gpu").as_str() == "yes");
  CHECK(shown.find("metrics").is_map());
  CHECK(shown.size() == 14);
  worker.more_metrics = worker.extra;
  deliver(worker, message);
  CHECK(names(message.root().find("metrics")) == Names{"gpu"});
  worker.live = false;
  deliver(worker, message);
  CHECK(message.root().size() == 12);
}

TEST_CASE("calls are read with their switches", "[wire][messages]") {
  MessageWriter writer;
  writer.map(4);
  writer.field("op");
  writer.literal("who_has");
  writer.field("keys");
  writer.array(1);
  writer.key(kX);
  writer.field("reply");
  writer.boolean(false);
  writer.field("close");
  writer.boolean(true);
  Message message;
  deliver(writer, message);
  const auto call = read_call(message);
  REQUIRE(call.ok());
  CHECK(call->op == Op::who_has);
  CHECK_FALSE(call->reply);
  CHECK(call->close);
  KeysCall keys;
  REQUIRE(read(message, call->body, keys).ok());
  CHECK(keys.keys == std::vector<KeyView>{kX});
  writer.map(1);
  writer.field("op");
  writer.literal("made-up");
  deliver(writer, message);
  CHECK(read_call(message)->op == Op::unknown);
  CHECK(read_call(message)->reply);
  writer.map(0);
  deliver(writer, message);
  CHECK_FALSE(read_call(message).ok());
  writer.literal("OK");
  deliver(writer, message);
  CHECK_FALSE(read_call(message).ok());
}

TEST_CASE("data calls and their replies round trip", "[wire][messages]") {
  Message message;
  deliver(GetDataCall{{kX}, "tcp://a:1", {}}, message);
  CHECK(names(message.root()) == Names{"op", "reply", "keys", "who"});
  GetDataCall get;
  REQUIRE(read(message, message.root(), get).ok());
  CHECK(get.who == "tcp://a:1");
  CHECK(required<GetDataCall>(message) == Names{"keys"});

  deliver(GetDataReply{true, {}}, message);
  GetDataReply data;
  REQUIRE(read(message, data).ok());
  CHECK(data.busy);
  deliver(GetDataReply{false, {{kX, bin_payload("v")}}}, message);
  REQUIRE(read(message, data).ok());
  CHECK(data.data.size() == 1);

  deliver(UpdateDataCall{{{kY, bin_payload("v")}}, ""}, message);
  CHECK(names(message.root()) == Names{"op", "reply", "data"});
  UpdateDataCall update;
  REQUIRE(read(message, message.root(), update).ok());
  CHECK(update.data[0].first == kY.view());
  deliver(UpdateDataReply{{{kY, 8}}}, message);
  UpdateDataReply sizes;
  REQUIRE(read(message, sizes).ok());
  CHECK(sizes.nbytes[0].second == 8);

  deliver(WorkerGatherCall{who_has()}, message);
  WorkerGatherCall gather;
  REQUIRE(read(message, message.root(), gather).ok());
  check_who_has(gather.who_has, false);
  deliver(WorkerGatherReply{{kX}}, message);
  WorkerGatherReply failed;
  REQUIRE(read(message, failed).ok());
  CHECK(failed.failed == std::vector<KeyView>{kX});
  deliver(WorkerGatherReply{}, message);
  REQUIRE(read(message, failed).ok());
  CHECK(failed.failed.empty());

  MessageWriter writer;
  write_who_has(writer, who_has());
  deliver(writer, message);
  WhoHas reply;
  REQUIRE(read_who_has_reply(message, reply).ok());
  check_who_has(reply, false);
}

TEST_CASE("a forwarded call keeps its fields and loses its switches", "[wire][messages]") {
  MessageWriter writer;
  writer.map(3);
  writer.field("op");
  writer.literal("run");
  writer.field("close");
  writer.boolean(true);
  writer.field("function");
  writer.bin("f");
  Message message;
  deliver(writer, message);
  REQUIRE(write_forward(writer, message, message.root(), {}).ok());
  Message forwarded;
  deliver(writer, forwarded);
  CHECK(names(forwarded.root()) == Names{"op", "function", "reply", "close"});
  CHECK(forwarded.root().find("close").as_bool() == false);
}

TEST_CASE("an error reply says what stock's does", "[wire][messages]") {
  MessageWriter writer;
  write_error(writer, {"KeyError", "it's gone"});
  Message message;
  deliver(writer, message);
  CHECK(names(message.root()) == Names{"status", "exception", "traceback", "exception_text",
                                       "traceback_text"});
  const auto error = as_error(message);
  REQUIRE(error);
  CHECK(error->status == ErrorStatus::uncaught);
  CHECK(error->exception_text == "KeyError(\"it's gone\")");
  writer.literal("OK");
  deliver(writer, message);
  CHECK_FALSE(as_error(message));
  CHECK(python_error({Fault::bad_type, "x"}).type == "TypeError");
}
