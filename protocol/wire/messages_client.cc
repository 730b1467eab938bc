#include "protocol/wire/messages_client.h"

#include <absl/strings/ascii.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <system_error>
#include <utility>

#include "protocol/wire/fields.h"

namespace protocol {
namespace {

struct Unit {
  std::string_view name;
  double seconds;
};

//! The part of dask.utils.parse_timedelta that clients use.
constexpr Unit kUnits[] = {
    {"", 1},           {"s", 1},      {"second", 1},         {"seconds", 1},
    {"ms", 1e-3},      {"us", 1e-6},  {"millisecond", 1e-3}, {"milliseconds", 1e-3},
    {"ns", 1e-9},      {"m", 60},     {"minute", 60},        {"minutes", 60},
    {"h", 3600},       {"d", 86400},  {"hour", 3600},        {"hours", 3600},
    {"w", 7 * 86400},  {"day", 86400}, {"days", 86400},      {"week", 7 * 86400},
    {"weeks", 7 * 86400}};

std::string_view without_blanks(std::string_view text, std::string& storage) {
  if (text.find(' ') == std::string_view::npos) return text;
  for (const char c : text) {
    if (c != ' ') storage.push_back(c);
  }
  return storage;
}

bool same_letters(std::string_view lower, std::string_view text) {
  return std::ranges::equal(lower, text, {}, {}, [](char c) { return absl::ascii_tolower(c); });
}

std::optional<double> parse_seconds(std::string_view text) {
  std::string storage;
  text = without_blanks(text, storage);
  if (text.empty()) return std::nullopt;
  double number = 1;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec == std::errc::result_out_of_range) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
  for (const Unit& unit : kUnits) {
    if (same_letters(unit.name, text)) return number * unit.seconds;
  }
  return std::nullopt;
}

void read_fifo_timeout(Fields& fields, UpdateGraph& out) {
  out.fifo_timeout_seconds = 0;
  out.fifo_timeout = nullptr;
  const Value value = fields.find("fifo_timeout");
  if (!value.exists()) return;
  const auto seconds = as_seconds(value);
  if (seconds && std::isfinite(*seconds) && *seconds >= 0) {
    out.fifo_timeout_seconds = *seconds;
  } else {
    out.fifo_timeout = fields.payload_or_nil("fifo_timeout");
  }
}

bool is_true(Value value) {
  if (!value.exists() || value.is_nil()) return false;
  if (const auto flag = value.as_bool()) return *flag;
  if (const auto number = value.as_double()) return *number != 0;
  return value.size() > 0;
}

//! What str() gives of a value that a text will show; maps, which nobody sends, have none.
std::string shown(const Message& message, Value value) {
  if (!is_true(value)) return "";
  if (const auto text = value.as_str()) return std::string(*text);
  if (const auto flag = value.as_bool()) return "True";
  const auto key = message.key(value);
  return key ? key_text(*key) : "";
}

template <std::size_t N>
void open_op(MessageWriter& writer, const char (&op)[N], std::size_t fields) {
  writer.map(static_cast<std::uint32_t>(fields + 1));
  writer.field("op");
  writer.literal(op);
}

template <std::size_t N>
void write_key_op(MessageWriter& writer, const char (&op)[N], KeyView key) {
  open_op(writer, op, 1);
  writer.field("key");
  writer.key(key);
}

//! The same for the same keys in any order; for others, with near certainty, not.
struct KeyDigest {
  std::size_t sum = 0;
  std::size_t squares = 0;
  void add(KeyView key) {
    const std::size_t hash = std::hash<ByteView>{}(key.bytes);
    sum += hash;
    squares += hash * hash;
  }
  bool operator==(const KeyDigest&) const = default;
};

//! `map` sends its keys as a set, in no order, and again with the priorities 0, 1, 2 …: those are
//! then all there is to know. Keys that are spelled in other ways than ours are left alone.
bool take_in_order(const Fields& fields, Value priorities, UpdateGraph& out) {
  if (priorities.size() != out.keys.size()) return false;
  std::vector<KeyView> ordered;
  ordered.reserve(out.keys.size());
  KeyDigest told, given;
  for (const Entry entry : priorities.entries()) {
    const auto key = fields.message().key(entry.key);
    const auto priority = entry.value.as_int();
    if (!key || key->bytes.data() != entry.key.raw().data()) return false;
    if (!priority || !std::cmp_equal(*priority, ordered.size())) return false;
    given.add(*key);
    ordered.push_back(*key);
  }
  for (const KeyView key : out.keys) told.add(key);
  if (told != given) return false;
  out.keys = std::move(ordered);
  return true;
}

void read_priorities(Fields& fields, UpdateGraph& out) {
  out.priorities.clear();
  const Value priorities = fields.maybe("internal_priority");
  out.has_priorities = priorities.exists();
  if (out.has_priorities && !priorities.is_map()) {
    return fields.wrong("internal_priority", "is not a map");
  }
  out.priorities_in_order = out.has_priorities && take_in_order(fields, priorities, out);
  if (out.priorities_in_order) return;
  for (const Entry entry : priorities.entries()) {
    const auto priority = entry.value.as_int();
    if (!priority) return fields.wrong("internal_priority", "is not a map of ints");
    out.priorities.emplace_back(fields.key_at("internal_priority", entry.key), *priority);
  }
}

void read_actors(Fields& fields, UpdateGraph& out) {
  out.actor_keys.clear();
  const Value actors = fields.maybe("actors");
  const auto flag = actors.as_bool();
  out.actors = flag.value_or(false) ? UpdateGraph::Actors::all : UpdateGraph::Actors::none;
  if (!actors.exists() || flag) return;
  out.actors = UpdateGraph::Actors::listed;
  fields.keys("actors", out.actor_keys);
}

template <class Struct>
Status read_keys_op(const Message& message, Value op, std::string_view name, Struct& out) {
  Fields fields(message, op, name);
  fields.keys("keys", out.keys);
  out.client = fields.str_or("client", "");
  return fields.status();
}

}  // namespace

void write(MessageWriter& writer, const StreamStart& message) {
  open_op(writer, "stream-start", (message.warning.empty() ? 0u : 1u) +
                                      (message.error.empty() ? 0u : 1u));
  if (!message.warning.empty()) {
    writer.field("warning");
    writer.str(message.warning);
  }
  if (!message.error.empty()) {
    writer.field("error");
    writer.str(message.error);
  }
}

void write(MessageWriter& writer, const KeyInMemory& message) {
  const bool typed = !message.type.empty();
  const bool placed = !message.workers.empty();
  open_op(writer, "key-in-memory", 1u + (typed ? 1u : 0u) + (placed ? 1u : 0u));
  writer.field("key");
  writer.key(message.key);
  if (typed) {
    writer.field("type");
    writer.bin(message.type);
  }
  if (!placed) return;
  writer.field("workers");
  writer.array(static_cast<std::uint32_t>(message.workers.size()));
  for (const std::string_view worker : message.workers) writer.str(worker);
}

void write(MessageWriter& writer, const ClientTaskErred& message) {
  open_op(writer, "task-erred", 3);
  writer.field("key");
  writer.key(message.key);
  writer.field("exception");
  writer.payload_once(message.exception);
  writer.field("traceback");
  writer.payload_once(message.traceback ? message.traceback : nil_payload());
}

void write(MessageWriter& writer, const LostData& message) {
  write_key_op(writer, "lost-data", message.key);
}

void write(MessageWriter& writer, const TaskRetried& message) {
  write_key_op(writer, "task-retried", message.key);
}

void write(MessageWriter& writer, const CancelledKeys& message) {
  const bool reason = !message.reason.empty();
  const bool text = !message.msg.empty();
  open_op(writer, "cancelled-keys", 1u + (reason ? 1u : 0u) + (text ? 1u : 0u));
  writer.field("keys");
  if (message.as_set) {
    writer.map(2);
    writer.field("__Set__");
    writer.boolean(true);
    writer.field("as-list");
  }
  writer.array(static_cast<std::uint32_t>(message.keys.size()));
  for (const KeyView key : message.keys) writer.key(key);
  if (reason) {
    writer.field("reason");
    writer.str(message.reason);
  }
  if (text) {
    writer.field("msg");
    writer.str(message.msg);
  }
}

void write(MessageWriter& writer, const ClientRestart&) { open_op(writer, "restart", 0); }

void write(MessageWriter& writer, const TopicEvent& message) {
  open_op(writer, "event", 2);
  writer.field("topic");
  writer.str(message.topic);
  writer.field("event");
  writer.array(2);
  writer.real(message.timestamp);
  writer.payload(message.msg);
}

void write(MessageWriter& writer, const AdjustHeartbeatInterval& message) {
  open_op(writer, "adjust-heartbeat-interval", 1);
  writer.field("interval");
  writer.real(message.interval_seconds);
}

void write(MessageWriter& writer, const StreamClosed&) { open_op(writer, "stream-closed", 0); }

Status read(const Message& message, Value op, UpdateGraph& out) {
  Fields fields(message, op, "update-graph");
  out.expr = fields.payload("expr_ser");
  fields.keys("keys", out.keys);
  read_priorities(fields, out);
  const Value submitting = fields.maybe("submitting_task");
  out.has_submitting_task = submitting.exists();
  out.submitting_task =
      submitting.exists() ? fields.key_at("submitting_task", submitting) : KeyView{};
  read_fifo_timeout(fields, out);
  read_actors(fields, out);
  out.code = fields.payload_or_nil("code");
  out.annotations = fields.payload_or_nil("annotations");
  out.span_metadata = fields.payload_or_nil("span_metadata");
  out.stimulus_id = fields.str_or("stimulus_id", "");
  return fields.status();
}

Status read(const Message& message, Value op, ClientDesiresKeys& out) {
  return read_keys_op(message, op, "client-desires-keys", out);
}

Status read(const Message& message, Value op, ClientReleasesKeys& out) {
  return read_keys_op(message, op, "client-releases-keys", out);
}

Status read(const Message& message, Value op, CancelKeys& out) {
  Fields fields(message, op, "cancel-keys");
  fields.keys("keys", out.keys);
  out.force = is_true(fields.find("force"));
  out.reason = shown(message, fields.find("reason"));
  out.msg = shown(message, fields.find("msg"));
  out.client = fields.str_or("client", "");
  return fields.status();
}

Status read(const Message& message, Value op, ReportKey& out) {
  Fields fields(message, op, "report-key");
  out.key = fields.key("key");
  out.client = fields.str_or("client", "");
  return fields.status();
}

Status read(const Message& message, Value op, TopicSubscription& out) {
  Fields fields(message, op, "subscribe-topic");
  out.topic = fields.str("topic");
  out.client = fields.str_or("client", "");
  return fields.status();
}

Status read(const Message& message, Value op, UpdateData& out) {
  Fields fields(message, op, "update-data");
  read_who_has(fields, out.who_has, true);
  out.client = fields.str_or("client", "");
  return fields.status();
}

std::optional<double> as_seconds(Value value) {
  if (const auto text = value.as_str()) return parse_seconds(*text);
  return value.as_double();
}

}  // namespace protocol
