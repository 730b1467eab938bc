#include "protocol/wire/messages_worker.h"

#include <iterator>

#include "protocol/wire/fields.h"

namespace protocol {
namespace {

constexpr std::string_view kActions[] = {"compute",    "transfer",    "disk-read",
                                         "disk-write", "deserialize", "other"};

template <std::size_t N>
void open_op(MessageWriter& writer, const char (&op)[N], std::uint32_t fields) {
  writer.map(fields + 1);
  writer.field("op");
  writer.literal(op);
}

void close_op(MessageWriter& writer, std::string_view stimulus_id) {
  writer.field("stimulus_id");
  writer.str(stimulus_id);
}

template <std::size_t N>
void write_key_op(MessageWriter& writer, const char (&op)[N], KeyView key,
                  std::string_view stimulus_id) {
  open_op(writer, op, 2);
  writer.field("key");
  writer.key(key);
  close_op(writer, stimulus_id);
}

template <std::size_t N>
void write_keys_op(MessageWriter& writer, const char (&op)[N], const std::vector<KeyView>& keys,
                   std::string_view stimulus_id) {
  open_op(writer, op, 2);
  writer.field("keys");
  writer.array(static_cast<std::uint32_t>(keys.size()));
  for (const KeyView key : keys) writer.key(key);
  close_op(writer, stimulus_id);
}

template <class Struct>
Status read_key_op(const Message& message, Value op, std::string_view name, Struct& out) {
  Fields fields(message, op, name);
  out.key = fields.key("key");
  out.stimulus_id = fields.str_or("stimulus_id", "");
  return fields.status();
}

template <class Struct>
Status read_keys_op(const Message& message, Value op, std::string_view name, Struct& out) {
  Fields fields(message, op, name);
  fields.keys("keys", out.keys);
  out.stimulus_id = fields.str_or("stimulus_id", "");
  return fields.status();
}

void write_resources(MessageWriter& writer, const std::vector<Amount>& resources) {
  if (resources.empty()) return writer.nil();
  writer.map(static_cast<std::uint32_t>(resources.size()));
  for (const auto& [name, amount] : resources) {
    writer.str(name);
    writer.number(amount);
  }
}

void read_resources(Fields& fields, std::vector<Amount>& out) {
  out.clear();
  for (const Entry entry : fields.maybe("resource_restrictions").entries()) {
    const auto name = entry.key.as_str();
    const auto amount = entry.value.as_double();
    if (!name || !amount) return fields.wrong("resource_restrictions", "is not a map of numbers");
    out.emplace_back(*name, *amount);
  }
}

void read_priority(Fields& fields, std::vector<double>& out) {
  out.clear();
  for (const Value part : fields.require("priority").elements()) {
    const auto number = part.as_double();
    if (!number) return fields.wrong("priority", "is not a list of numbers");
    out.push_back(*number);
  }
}

void write_startstops(MessageWriter& writer, const std::vector<StartStop>& startstops) {
  writer.field("startstops");
  writer.array(static_cast<std::uint32_t>(startstops.size()));
  for (const StartStop& span : startstops) {
    writer.map(span.source.empty() ? 3 : 4);
    writer.field("action");
    writer.str(kActions[static_cast<std::size_t>(span.action)]);
    writer.field("start");
    writer.real(span.start);
    writer.field("stop");
    writer.real(span.stop);
    if (span.source.empty()) continue;
    writer.field("source");
    writer.str(span.source);
  }
}

StartStop::Action action_of(std::string_view name) {
  for (std::size_t k = 0; k < std::size(kActions); ++k) {
    if (kActions[k] == name) return static_cast<StartStop::Action>(k);
  }
  return StartStop::Action::other;
}

void read_startstops(Fields& fields, std::vector<StartStop>& out) {
  out.clear();
  for (const Value span : fields.maybe("startstops").elements()) {
    Fields parts(fields.message(), span, "startstops");
    StartStop& made = out.emplace_back();
    made.action = action_of(parts.str("action"));
    made.start = parts.real("start");
    made.stop = parts.real("stop");
    made.source = parts.str_or("source", "");
    if (!parts.ok()) return fields.wrong("startstops", parts.status().error().where);
  }
}

void write_thread(MessageWriter& writer, std::int64_t thread) {
  writer.field("thread");
  thread == 0 ? writer.nil() : writer.integer(thread);
}

}  // namespace

void write(MessageWriter& writer, const ComputeTask& message) {
  open_op(writer, "compute-task", 11);
  writer.field("key");
  writer.key(message.key);
  writer.field("run_id");
  writer.uinteger(message.run_id);
  writer.field("priority");
  writer.array(static_cast<std::uint32_t>(message.priority.size()));
  for (const double part : message.priority) writer.number(part);
  close_op(writer, message.stimulus_id);
  writer.field("who_has");
  write_who_has(writer, message.dependencies);
  writer.field("nbytes");
  write_nbytes(writer, message.dependencies);
  writer.field("run_spec");
  message.spec != nullptr ? writer.run_spec(*message.spec) : writer.payload(message.run_spec);
  writer.field("resource_restrictions");
  write_resources(writer, message.resources);
  writer.field("actor");
  writer.boolean(message.actor);
  writer.field("annotations");
  message.annotations ? writer.payload(message.annotations) : writer.map(0);
  writer.field("span_id");
  writer.str_or_nil(message.span_id);
}

Status read(const Message& message, Value op, ComputeTask& out) {
  Fields fields(message, op, "compute-task");
  out.key = fields.key("key");
  out.run_id = fields.uinteger("run_id");
  read_priority(fields, out.priority);
  out.stimulus_id = fields.str_or("stimulus_id", "");
  read_who_has(fields, out.dependencies, true);
  out.spec = nullptr;
  out.run_spec = fields.payload("run_spec");
  read_resources(fields, out.resources);
  out.actor = fields.boolean_or("actor", false);
  out.annotations = fields.payload_or_nil("annotations");
  out.span_id = fields.str_or("span_id", "");
  return fields.status();
}

void write(MessageWriter& writer, const FreeKeys& message) {
  write_keys_op(writer, "free-keys", message.keys, message.stimulus_id);
}

Status read(const Message& message, Value op, FreeKeys& out) {
  return read_keys_op(message, op, "free-keys", out);
}

void write(MessageWriter& writer, const RemoveReplicas& message) {
  write_keys_op(writer, "remove-replicas", message.keys, message.stimulus_id);
}

Status read(const Message& message, Value op, RemoveReplicas& out) {
  return read_keys_op(message, op, "remove-replicas", out);
}

void write(MessageWriter& writer, const AcquireReplicas& message) {
  open_op(writer, "acquire-replicas", 3);
  writer.field("who_has");
  write_who_has(writer, message.who_has);
  writer.field("nbytes");
  write_nbytes(writer, message.who_has);
  close_op(writer, message.stimulus_id);
}

Status read(const Message& message, Value op, AcquireReplicas& out) {
  Fields fields(message, op, "acquire-replicas");
  read_who_has(fields, out.who_has, true);
  out.stimulus_id = fields.str_or("stimulus_id", "");
  return fields.status();
}

void write(MessageWriter& writer, const RefreshWhoHas& message) {
  open_op(writer, "refresh-who-has", 2);
  writer.field("who_has");
  write_who_has(writer, message.who_has);
  close_op(writer, message.stimulus_id);
}

Status read(const Message& message, Value op, RefreshWhoHas& out) {
  Fields fields(message, op, "refresh-who-has");
  read_who_has(fields, out.who_has, false);
  out.stimulus_id = fields.str_or("stimulus_id", "");
  return fields.status();
}

void write(MessageWriter& writer, const StealRequest& message) {
  write_key_op(writer, "steal-request", message.key, message.stimulus_id);
}

Status read(const Message& message, Value op, StealRequest& out) {
  return read_key_op(message, op, "steal-request", out);
}

void write(MessageWriter& writer, const ShuffleFail& message) {
  writer.map(4);  // the worker's handler takes these and no stimulus_id
  writer.field("op");
  writer.str("shuffle-fail");
  writer.field("shuffle_id");
  writer.str(message.shuffle_id);
  writer.field("run_id");
  writer.uinteger(message.run_id);
  writer.field("message");
  writer.str(message.message);
}

void write(MessageWriter& writer, const WorkerStatusChange& message) {
  open_op(writer, "worker-status-change", 2);
  writer.field("status");
  writer.str(message.status);
  close_op(writer, message.stimulus_id);
}

Status read(const Message& message, Value op, WorkerStatusChange& out) {
  Fields fields(message, op, "worker-status-change");
  out.status = fields.str("status");
  out.stimulus_id = fields.str_or("stimulus_id", "");
  return fields.status();
}

void write(MessageWriter& writer, const RemoveWorker& message) {
  open_op(writer, "remove-worker", 2);
  writer.field("worker");
  writer.str(message.worker);
  close_op(writer, message.stimulus_id);
}

Status read(const Message& message, Value op, RemoveWorker& out) {
  Fields fields(message, op, "remove-worker");
  out.worker = fields.str("worker");
  out.stimulus_id = fields.str_or("stimulus_id", "");
  return fields.status();
}

void write(MessageWriter& writer, const CloseWorker& message) {
  open_op(writer, "close", 1);
  writer.field("reason");
  writer.str(message.reason);
}

Status read(const Message& message, Value op, CloseWorker& out) {
  Fields fields(message, op, "close");
  out.reason = fields.str_or("reason", "worker-close");
  return fields.status();
}

void write(MessageWriter& writer, const TaskFinished& message) {
  open_op(writer, "task-finished", 10);
  writer.field("key");
  writer.key(message.key);
  writer.field("run_id");
  writer.uinteger(message.run_id);
  writer.field("nbytes");
  writer.uinteger(message.nbytes);
  writer.field("type");
  writer.bin(message.type);
  writer.field("typename");
  writer.str(message.type_name);
  writer.field("metadata");
  message.metadata ? writer.payload(message.metadata) : writer.map(0);
  write_thread(writer, message.thread);
  write_startstops(writer, message.startstops);
  close_op(writer, message.stimulus_id);
  writer.field("status");
  writer.literal("OK");
}

Status read(const Message& message, Value op, TaskFinished& out) {
  Fields fields(message, op, "task-finished");
  out.key = fields.key("key");
  out.run_id = fields.uinteger("run_id");
  out.nbytes = fields.uinteger_or("nbytes", 0);
  out.type = fields.bin_or("type", {});
  out.type_name = fields.str_or("typename", "");
  const Value metadata = fields.maybe("metadata");
  out.metadata = nullptr;
  if (metadata.size() > 0) out.metadata = fields.payload_or_nil("metadata");
  out.thread = fields.integer_or("thread", 0);
  read_startstops(fields, out.startstops);
  out.stimulus_id = fields.str_or("stimulus_id", "");
  return fields.status();
}

void write(MessageWriter& writer, const TaskErred& message) {
  open_op(writer, "task-erred", 10);
  writer.field("key");
  writer.key(message.key);
  writer.field("run_id");
  writer.uinteger(message.run_id);
  writer.field("exception");
  writer.payload(message.exception);
  writer.field("traceback");
  writer.payload(message.traceback ? message.traceback : nil_payload());
  writer.field("exception_text");
  writer.str(message.exception_text);
  writer.field("traceback_text");
  writer.str(message.traceback_text);
  write_thread(writer, message.thread);
  write_startstops(writer, message.startstops);
  close_op(writer, message.stimulus_id);
  writer.field("status");
  writer.literal("error");
}

Status read(const Message& message, Value op, TaskErred& out) {
  Fields fields(message, op, "task-erred");
  out.key = fields.key("key");
  out.run_id = fields.uinteger("run_id");
  out.exception = fields.payload("exception");
  out.traceback = fields.payload_or_nil("traceback");
  out.exception_text = fields.str_or("exception_text", "");
  out.traceback_text = fields.str_or("traceback_text", "");
  out.thread = fields.integer_or("thread", 0);
  read_startstops(fields, out.startstops);
  out.stimulus_id = fields.str_or("stimulus_id", "");
  return fields.status();
}

void write(MessageWriter& writer, const ReleaseWorkerData& message) {
  write_key_op(writer, "release-worker-data", message.key, message.stimulus_id);
}

Status read(const Message& message, Value op, ReleaseWorkerData& out) {
  return read_key_op(message, op, "release-worker-data", out);
}

void write(MessageWriter& writer, const AddKeys& message) {
  write_keys_op(writer, "add-keys", message.keys, message.stimulus_id);
}

Status read(const Message& message, Value op, AddKeys& out) {
  return read_keys_op(message, op, "add-keys", out);
}

void write(MessageWriter& writer, const RequestRefreshWhoHas& message) {
  write_keys_op(writer, "request-refresh-who-has", message.keys, message.stimulus_id);
}

Status read(const Message& message, Value op, RequestRefreshWhoHas& out) {
  return read_keys_op(message, op, "request-refresh-who-has", out);
}

void write(MessageWriter& writer, const StealResponse& message) {
  open_op(writer, "steal-response", 3);
  writer.field("key");
  writer.key(message.key);
  writer.field("state");
  writer.str_or_nil(message.state);
  close_op(writer, message.stimulus_id);
}

Status read(const Message& message, Value op, StealResponse& out) {
  Fields fields(message, op, "steal-response");
  out.key = fields.key("key");
  out.state = fields.str_or("state", "");
  out.stimulus_id = fields.str_or("stimulus_id", "");
  return fields.status();
}

void write(MessageWriter& writer, const LongRunning& message) {
  open_op(writer, "long-running", 4);
  writer.field("key");
  writer.key(message.key);
  writer.field("run_id");
  writer.uinteger(message.run_id);
  writer.field("compute_duration");
  message.compute_seconds < 0 ? writer.nil() : writer.real(message.compute_seconds);
  close_op(writer, message.stimulus_id);
}

Status read(const Message& message, Value op, LongRunning& out) {
  Fields fields(message, op, "long-running");
  out.key = fields.key("key");
  out.run_id = fields.uinteger("run_id");
  out.compute_seconds = fields.real_or("compute_duration", -1);
  out.stimulus_id = fields.str_or("stimulus_id", "");
  return fields.status();
}

void write(MessageWriter& writer, const Reschedule& message) {
  write_key_op(writer, "reschedule", message.key, message.stimulus_id);
}

Status read(const Message& message, Value op, Reschedule& out) {
  return read_key_op(message, op, "reschedule", out);
}

void write(MessageWriter& writer, const LogEvent& message) {
  open_op(writer, "log-event", 2);
  writer.field("topic");
  if (message.topics.size() == 1) {
    writer.str(message.topics[0]);
  } else {
    writer.array(static_cast<std::uint32_t>(message.topics.size()));
    for (const std::string_view topic : message.topics) writer.str(topic);
  }
  writer.field("msg");
  writer.payload(message.msg);
}

Status read(const Message& message, Value op, LogEvent& out) {
  Fields fields(message, op, "log-event");
  if (!fields.strings_or_none("topic", out.topics)) fields.wrong("topic", "is missing");
  out.msg = fields.payload("msg");
  return fields.status();
}

void write(MessageWriter& writer, const KeepAlive&) { open_op(writer, "keep-alive", 0); }

void write(MessageWriter& writer, const CloseStream&) { open_op(writer, "close-stream", 0); }

}  // namespace protocol
