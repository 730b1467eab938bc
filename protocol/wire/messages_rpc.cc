#include "protocol/wire/messages_rpc.h"

#include "protocol/wire/fields.h"
#include "protocol/wire/messages_client.h"

namespace protocol {
namespace {

std::uint32_t count_of(std::size_t size) { return static_cast<std::uint32_t>(size); }

template <std::size_t N>
void open_call(MessageWriter& writer, const char (&op)[N], std::uint32_t fields) {
  writer.map(fields + 2);
  writer.field("op");
  writer.literal(op);
  writer.field("reply");
  writer.boolean(true);
}

void write_data(MessageWriter& writer, const Data& data) {
  writer.field("data");
  writer.map(count_of(data.size()));
  for (const auto& [key, payload] : data) {
    writer.key(key);
    writer.payload(payload);
  }
}

void read_data(Fields& fields, Data& out) {
  out.clear();
  const Value data = fields.require("data");
  if (data.exists() && !data.is_map()) return fields.wrong("data", "is not a map");
  out.reserve(data.size());
  for (const Entry entry : data.entries()) {
    const KeyView key = fields.key_at("data", entry.key);
    Result<PayloadRef> payload = fields.message().payload(entry.value);
    if (!payload) return fields.wrong("data", payload.error().text(), payload.error().fault);
    out.emplace_back(key, std::move(*payload));
  }
}

void write_status(MessageWriter& writer, std::string_view status) {
  writer.field("status");
  writer.str(status);
}

double seconds_or(Fields& fields, std::string_view name, double fallback) {
  const Value value = fields.maybe(name);
  if (!value.exists()) return fallback;
  const auto seconds = as_seconds(value);
  if (!seconds) fields.wrong(name, "is not a span of time");
  return seconds.value_or(fallback);
}

//! Broadcast is a flag or a number of copies.
void read_broadcast(Fields& fields, ScatterCall& out) {
  const Value value = fields.maybe("broadcast");
  out.copies = value.as_int().value_or(0);
  out.broadcast = value.as_bool().value_or(out.copies > 0);
}

std::optional<BroadcastCall::OnError> on_error_of(std::string_view name) {
  if (name == "raise") return BroadcastCall::OnError::raise;
  if (name == "return") return BroadcastCall::OnError::return_error;
  if (name == "return_pickle") return BroadcastCall::OnError::return_pickle;
  if (name == "ignore") return BroadcastCall::OnError::ignore;
  return std::nullopt;
}

bool set_by_forwarder(Value name) {
  return name.equals("reply") || name.equals("close") || name.equals("serializers");
}

void read_counts(Fields& fields, std::string_view name, Value map,
                 std::vector<std::pair<KeyView, std::uint64_t>>& out) {
  out.clear();
  for (const Entry entry : map.entries()) {
    const auto count = entry.value.as_uint();
    if (!count) return fields.wrong(name, "is not a map of ints");
    out.emplace_back(fields.key_at(name, entry.key), *count);
  }
}

}  // namespace

Result<Call> read_call(const Message& message) {
  Fields fields(message, message.root(), "call");
  Call call;
  call.body = message.root();
  call.name = fields.str("op");
  call.reply = fields.boolean_or("reply", true);
  call.close = fields.boolean_or("close", false);
  call.serializers = fields.maybe("serializers");
  if (!fields.ok()) return fields.status().error();
  call.op = op_of(call.name);
  return call;
}

Status read(const Message& message, Value body, IdentityCall& out) {
  Fields fields(message, body, "identity");
  out.n_workers = fields.integer_or("n_workers", -1);
  return fields.status();
}

Status read(const Message& message, Value body, GatherCall& out) {
  Fields fields(message, body, "gather");
  fields.keys("keys", out.keys);
  return fields.status();
}

Status read(const Message& message, Value body, ScatterCall& out) {
  Fields fields(message, body, "scatter");
  read_data(fields, out.data);
  out.has_workers = fields.strings_or_none("workers", out.workers);
  out.client = fields.str_or("client", "");
  read_broadcast(fields, out);
  out.timeout_seconds = seconds_or(fields, "timeout", 2);
  return fields.status();
}

Status read(const Message& message, Value body, KeysCall& out) {
  Fields fields(message, body, "call about keys");
  out.has_keys = fields.keys_or_none("keys", out.keys);
  out.client = fields.str_or("client", "");
  return fields.status();
}

Status read(const Message& message, Value body, WorkersCall& out) {
  Fields fields(message, body, "call about workers");
  out.has_workers = fields.strings_or_none("workers", out.workers);
  return fields.status();
}

Status read(const Message& message, Value body, NbytesCall& out) {
  Fields fields(message, body, "nbytes");
  out.has_keys = fields.keys_or_none("keys", out.keys);
  out.summary = fields.boolean_or("summary", true);
  return fields.status();
}

Status read(const Message& message, Value body, VersionsCall& out) {
  Fields fields(message, body, "versions");
  fields.strings_or_none("packages", out.packages);
  return fields.status();
}

Status read(const Message& message, Value body, BroadcastCall& out) {
  Fields fields(message, body, "broadcast");
  out.msg = fields.require("msg");
  if (out.msg.exists() && !out.msg.find("op").is_str()) fields.wrong("msg", "has no op");
  out.has_workers = fields.strings_or_none("workers", out.workers);
  out.has_hosts = fields.strings_or_none("hosts", out.hosts);
  out.nanny = fields.boolean_or("nanny", false);
  const auto on_error = on_error_of(fields.str_or("on_error", "raise"));
  if (!on_error) fields.wrong("on_error", "must be raise, return, return_pickle or ignore");
  out.on_error = on_error.value_or(BroadcastCall::OnError::raise);
  return fields.status();
}

Status read(const Message& message, Value body, ProxyCall& out) {
  Fields fields(message, body, "proxy");
  out.msg = fields.require("msg");
  if (out.msg.exists() && !out.msg.find("op").is_str()) fields.wrong("msg", "has no op");
  out.worker = fields.str("worker");
  return fields.status();
}

Status read(const Message& message, Value body, GetMetadataCall& out) {
  Fields fields(message, body, "get_metadata");
  fields.keys("keys", out.keys);
  const Value fallback = fields.find("default");
  out.fallback = nullptr;
  if (fallback.exists() && fallback.enum_name() != "no_default") {
    out.fallback = fields.payload("default");
  }
  return fields.status();
}

Status read(const Message& message, Value body, SetMetadataCall& out) {
  Fields fields(message, body, "set_metadata");
  fields.keys("keys", out.keys);
  if (out.keys.empty()) fields.wrong("keys", "is empty");
  out.value = fields.payload_or_nil("value");
  return fields.status();
}

Status read(const Message& message, Value body, RetireWorkersCall& out) {
  Fields fields(message, body, "retire_workers");
  out.has_workers = fields.strings_or_none("workers", out.workers);
  out.has_names = fields.keys_or_none("names", out.names);
  out.close_workers = fields.boolean_or("close_workers", false);
  out.remove = fields.boolean_or("remove", true);
  out.stimulus_id = fields.str_or("stimulus_id", "");
  out.memory_ratio = fields.real_or("memory_ratio", 0);
  out.n = fields.integer_or("n", -1);
  out.minimum = fields.integer_or("minimum", -1);
  out.target = fields.integer_or("target", -1);
  out.key = fields.bin_or("key", {});
  out.attribute = fields.str_or("attribute", "address");
  return fields.status();
}

void write(MessageWriter& writer, const TerminateCall& message) {
  open_call(writer, "terminate", message.timeout_seconds < 0 ? 1 : 2);
  writer.field("reason");
  writer.str(message.reason);
  if (message.timeout_seconds < 0) return;
  writer.field("timeout");
  writer.real(message.timeout_seconds);
}

Status read(const Message& message, Value body, TerminateCall& out) {
  Fields fields(message, body, "terminate");
  out.timeout_seconds = seconds_or(fields, "timeout", -1);
  out.reason = fields.str_or("reason", "unknown");
  return fields.status();
}

void write(MessageWriter& writer, const GatherReply& message) {
  writer.map(2);
  write_status(writer, message.ok ? "OK" : "error");
  if (message.ok) return write_data(writer, message.data);
  writer.field("keys");
  write_keys(writer, message.failed);
}

void write_keys(MessageWriter& writer, std::span<const KeyView> keys) {
  writer.array(count_of(keys.size()));
  for (const KeyView key : keys) writer.key(key);
}

void write_counts(MessageWriter& writer,
                  std::span<const std::pair<std::string_view, std::uint64_t>> counts) {
  writer.map(count_of(counts.size()));
  for (const auto& [name, count] : counts) {
    writer.str(name);
    writer.uinteger(count);
  }
}

void write_key_counts(MessageWriter& writer,
                      std::span<const std::pair<KeyView, std::uint64_t>> counts) {
  writer.map(count_of(counts.size()));
  for (const auto& [key, count] : counts) {
    writer.key(key);
    writer.uinteger(count);
  }
}

void write_keys_by_address(
    MessageWriter& writer,
    std::span<const std::pair<std::string_view, std::vector<KeyView>>> keys) {
  writer.map(count_of(keys.size()));
  for (const auto& [address, held] : keys) {
    writer.str(address);
    write_keys(writer, held);
  }
}

Status read_who_has_reply(const Message& message, WhoHas& out) {
  out.clear();
  Fields fields(message, message.root(), "who_has reply");
  for (const Entry entry : message.root().entries()) {
    out.add_key(fields.key_at("key", entry.key));
    for (const Value address : entry.value.elements()) {
      if (!address.is_str()) fields.wrong("address", "is not a str");
      out.add_address(address.as_str().value_or(""));
    }
  }
  return fields.status();
}

Status write_forward(MessageWriter& writer, const Message& message, Value msg, Value serializers) {
  std::uint32_t fields = serializers.exists() ? 3 : 2;
  for (const Entry entry : msg.entries()) fields += set_by_forwarder(entry.key) ? 0 : 1;
  writer.map(fields);
  for (const Entry entry : msg.entries()) {
    if (set_by_forwarder(entry.key)) continue;
    writer.raw(entry.key.raw());
    Status copied = writer.value(message, entry.value);
    if (!copied) return copied;
  }
  writer.field("reply");
  writer.boolean(true);
  writer.field("close");
  writer.boolean(false);
  if (serializers.exists()) {
    writer.field("serializers");
    writer.raw(serializers.raw());
  }
  return Done{};
}

void write(MessageWriter& writer, const GetDataCall& message) {
  open_call(writer, "get_data", message.serializers.exists() ? 3 : 2);
  writer.field("keys");
  write_keys(writer, message.keys);
  writer.field("who");
  writer.str_or_nil(message.who);
  if (!message.serializers.exists()) return;
  writer.field("serializers");
  writer.raw(message.serializers.raw());
}

Status read(const Message& message, Value body, GetDataCall& out) {
  Fields fields(message, body, "get_data");
  fields.keys("keys", out.keys);
  out.who = fields.str_or("who", "");
  out.serializers = fields.maybe("serializers");
  return fields.status();
}

void write(MessageWriter& writer, const GetDataReply& message) {
  writer.map(message.busy ? 1 : 2);
  write_status(writer, message.busy ? "busy" : "OK");
  if (!message.busy) write_data(writer, message.data);
}

Status read(const Message& message, GetDataReply& out) {
  Fields fields(message, message.root(), "get_data reply");
  const std::string_view status = fields.str("status");
  out.busy = status == "busy";
  out.data.clear();
  if (out.busy) return fields.status();
  if (fields.ok() && status != "OK") fields.wrong("status", "is neither OK nor busy");
  read_data(fields, out.data);
  return fields.status();
}

void write(MessageWriter& writer, const UpdateDataCall& message) {
  open_call(writer, "update_data", message.stimulus_id.empty() ? 1 : 2);
  write_data(writer, message.data);
  if (message.stimulus_id.empty()) return;
  writer.field("stimulus_id");
  writer.str(message.stimulus_id);
}

Status read(const Message& message, Value body, UpdateDataCall& out) {
  Fields fields(message, body, "update_data");
  read_data(fields, out.data);
  out.stimulus_id = fields.str_or("stimulus_id", "");
  return fields.status();
}

void write(MessageWriter& writer, const UpdateDataReply& message) {
  writer.map(2);
  writer.field("nbytes");
  write_key_counts(writer, message.nbytes);
  write_status(writer, "OK");
}

Status read(const Message& message, UpdateDataReply& out) {
  Fields fields(message, message.root(), "update_data reply");
  read_counts(fields, "nbytes", fields.require("nbytes"), out.nbytes);
  if (fields.str("status") != "OK") fields.wrong("status", "is not OK");
  return fields.status();
}

void write(MessageWriter& writer, const WorkerGatherCall& message) {
  open_call(writer, "gather", 1);
  writer.field("who_has");
  write_who_has(writer, message.who_has);
}

Status read(const Message& message, Value body, WorkerGatherCall& out) {
  Fields fields(message, body, "gather");
  read_who_has(fields, out.who_has, false);
  return fields.status();
}

void write(MessageWriter& writer, const WorkerGatherReply& message) {
  if (message.failed.empty()) return write_status_ok(writer);
  writer.map(2);
  write_status(writer, "partial-fail");
  writer.field("keys");
  write_keys(writer, message.failed);
}

Status read(const Message& message, WorkerGatherReply& out) {
  Fields fields(message, message.root(), "gather reply");
  out.failed.clear();
  const std::string_view status = fields.str("status");
  if (status == "partial-fail") {
    fields.keys("keys", out.failed);
  } else if (fields.ok() && status != "OK") {
    fields.wrong("status", "is neither OK nor partial-fail");
  }
  return fields.status();
}

void write(MessageWriter& writer, const FreeKeysCall& message) {
  open_call(writer, "free_keys", 2);
  writer.field("keys");
  write_keys(writer, message.keys);
  writer.field("stimulus_id");
  writer.str(message.stimulus_id);
}

Status read(const Message& message, Value body, FreeKeysCall& out) {
  Fields fields(message, body, "free_keys");
  fields.keys("keys", out.keys);
  out.stimulus_id = fields.str_or("stimulus_id", "");
  return fields.status();
}

void write_ok(MessageWriter& writer) { writer.literal("OK"); }

void write_status_ok(MessageWriter& writer) {
  writer.map(1);
  write_status(writer, "OK");
}

}  // namespace protocol
