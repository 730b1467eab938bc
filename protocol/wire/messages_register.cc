#include "protocol/wire/messages_register.h"

#include "protocol/wire/fields.h"

namespace protocol {
namespace {

void write_amounts(MessageWriter& writer, const std::vector<Amount>& amounts) {
  writer.map(static_cast<std::uint32_t>(amounts.size()));
  for (const auto& [name, amount] : amounts) {
    writer.str(name);
    writer.number(amount);
  }
}

void write_ports(MessageWriter& writer, const std::vector<Port>& ports) {
  writer.map(static_cast<std::uint32_t>(ports.size()));
  for (const auto& [name, port] : ports) {
    writer.str(name);
    writer.integer(port);
  }
}

void write_map_or_empty(MessageWriter& writer, const PayloadRef& payload) {
  payload ? writer.payload(payload) : writer.map(0);
}

void write_metrics(MessageWriter& writer, const PayloadRef& raw, const WorkerMetrics& measured) {
  writer.field("metrics");
  raw ? writer.payload(raw) : write(writer, measured);
}

using Rates = std::vector<std::pair<std::string_view, std::pair<double, std::uint64_t>>>;

void write_rates(MessageWriter& writer, const Rates& rates) {
  writer.map(static_cast<std::uint32_t>(rates.size()));
  for (const auto& [name, rate] : rates) {
    writer.str(name);
    writer.array(2);
    writer.real(rate.first);
    writer.uinteger(rate.second);
  }
}

void read_rates(Value map, Rates& out) {
  out.clear();
  for (const Entry entry : map.entries()) {
    const Elements pair = entry.value.elements();
    if (!entry.key.is_str() || pair.size() != 2) continue;
    auto part = pair.begin();
    const double sum = (*part).as_double().value_or(0);
    const std::uint64_t count = (*++part).as_uint().value_or(0);
    out.emplace_back(*entry.key.as_str(), std::pair(sum, count));
  }
}

void write_bps(MessageWriter& writer, double read_bps, double write_bps) {
  writer.map(2);
  writer.field("read_bps");
  writer.real(read_bps);
  writer.field("write_bps");
  writer.real(write_bps);
}

void write_transfer(MessageWriter& writer, const WorkerMetrics& metrics) {
  writer.map(6);
  writer.field("incoming_bytes");
  writer.uinteger(metrics.incoming_bytes);
  writer.field("incoming_count");
  writer.uinteger(metrics.incoming_count);
  writer.field("incoming_count_total");
  writer.uinteger(metrics.incoming_count_total);
  writer.field("outgoing_bytes");
  writer.uinteger(metrics.outgoing_bytes);
  writer.field("outgoing_count");
  writer.uinteger(metrics.outgoing_count);
  writer.field("outgoing_count_total");
  writer.uinteger(metrics.outgoing_count_total);
}

void read_resources(Fields& fields, std::vector<Amount>& out) {
  out.clear();
  for (const Entry entry : fields.maybe("resources").entries()) {
    const auto name = entry.key.as_str();
    const auto amount = entry.value.as_double();
    if (!name || !amount) return fields.wrong("resources", "is not a map of numbers");
    out.emplace_back(*name, *amount);
  }
}

void read_services(Fields& fields, std::vector<Port>& out) {
  out.clear();
  for (const Entry entry : fields.maybe("services").entries()) {
    const auto name = entry.key.as_str();
    const auto port = entry.value.as_int();
    if (name && port) out.emplace_back(*name, *port);
  }
}

PayloadRef read_metrics(Fields& fields, WorkerMetrics& measured) {
  const Value metrics = fields.require("metrics");
  if (metrics.exists() && !metrics.is_map()) fields.wrong("metrics", "is not a map");
  read(metrics, measured);
  return fields.payload_or_nil("metrics");
}

//! Entries of a carried map, or none.
class Merged {
 public:
  explicit Merged(const PayloadRef& payload) {
    if (!payload || (payload->kind != Payload::Kind::inline_value &&
                     payload->kind != Payload::Kind::compound)) {
      return;
    }
    Frames frames{payload->header};
    frames.insert(frames.end(), payload->frames.begin(), payload->frames.end());
    if (!message_.reset(std::move(frames))) return;
    if (message_.root().is_map()) map_ = message_.root();
  }
  std::uint32_t size() const { return static_cast<std::uint32_t>(map_.size()); }
  //! A marker that lies was refused when the payload was taken.
  void write(MessageWriter& writer) const {
    for (const Entry entry : map_.entries()) {
      writer.raw(entry.key.raw());
      if (!writer.value(message_, entry.value)) writer.nil();
    }
  }

 private:
  Message message_;
  Value map_;
};

void write_merged(MessageWriter& writer, const PayloadRef& map, const PayloadRef& more) {
  if (!more) return write_map_or_empty(writer, map);
  const Merged first(map), second(more);
  writer.map(first.size() + second.size());
  first.write(writer);
  second.write(writer);
}

}  // namespace

void write(MessageWriter& writer, const Handshake& message) {
  writer.map(message.rask == 0 ? 3 : 4);
  writer.field("compression");
  writer.str_or_nil(message.compression);
  writer.field("python");
  writer.array(3);
  for (const std::int64_t part : message.python) writer.integer(part);
  writer.field("pickle-protocol");
  writer.integer(message.pickle_protocol);
  if (message.rask == 0) return;
  writer.field("rask");
  writer.integer(message.rask);
}

Status read(const Message& message, Handshake& out) {
  Fields fields(message, message.root(), "handshake");
  const Value compression = fields.require("compression");
  out.compression = compression.as_str().value_or("");
  out.python = {};
  std::size_t part = 0;
  for (const Value number : fields.maybe("python").elements()) {
    if (part < 3) out.python[part++] = number.as_int().value_or(0);
  }
  out.pickle_protocol = fields.integer("pickle-protocol");
  out.rask = fields.integer_or("rask", 0);
  return fields.status();
}

Status read(const Message& message, Value op, RegisterClient& out) {
  Fields fields(message, op, "register-client");
  out.client = fields.str("client");
  out.versions = fields.maybe("versions");
  return fields.status();
}

void write(MessageWriter& writer, const WorkerMetrics& metrics) {
  const Merged extra(metrics.extra);
  writer.map(13 + extra.size());
  writer.field("task_counts");
  writer.map(static_cast<std::uint32_t>(metrics.task_counts.size()));
  for (const auto& [state, count] : metrics.task_counts) {
    writer.str(state);
    writer.uinteger(count);
  }
  writer.field("bandwidth");
  writer.map(3);
  writer.field("total");
  writer.real(metrics.bandwidth_total);
  writer.field("workers");
  write_rates(writer, metrics.bandwidth_workers);
  writer.field("types");
  write_rates(writer, metrics.bandwidth_types);
  writer.field("digests_total_since_heartbeat");
  write_map_or_empty(writer, metrics.digests);
  writer.field("managed_bytes");
  writer.uinteger(metrics.managed_bytes);
  writer.field("spilled_bytes");
  writer.map(2);
  writer.field("memory");
  writer.uinteger(metrics.spilled_memory);
  writer.field("disk");
  writer.uinteger(metrics.spilled_disk);
  writer.field("transfer");
  write_transfer(writer, metrics);
  writer.field("event_loop_interval");
  writer.real(metrics.event_loop_interval);
  writer.field("cpu");
  writer.real(metrics.cpu);
  writer.field("memory");
  writer.uinteger(metrics.memory);
  writer.field("time");
  writer.real(metrics.time);
  writer.field("host_net_io");
  write_bps(writer, metrics.net_read_bps, metrics.net_write_bps);
  writer.field("host_disk_io");
  write_bps(writer, metrics.disk_read_bps, metrics.disk_write_bps);
  writer.field("num_fds");
  writer.uinteger(metrics.num_fds);
  extra.write(writer);
}

void read(Value metrics, WorkerMetrics& out) {
  out = WorkerMetrics{};
  out.cpu = metrics.find("cpu").as_double().value_or(0);
  out.memory = metrics.find("memory").as_uint().value_or(0);
  out.time = metrics.find("time").as_double().value_or(0);
  out.managed_bytes = metrics.find("managed_bytes").as_uint().value_or(0);
  const Value spilled = metrics.find("spilled_bytes");
  out.spilled_memory = spilled.find("memory").as_uint().value_or(0);
  out.spilled_disk = spilled.find("disk").as_uint().value_or(0);
  const Value bandwidth = metrics.find("bandwidth");
  out.bandwidth_total = bandwidth.find("total").as_double().value_or(0);
  read_rates(bandwidth.find("workers"), out.bandwidth_workers);
  read_rates(bandwidth.find("types"), out.bandwidth_types);
  out.event_loop_interval = metrics.find("event_loop_interval").as_double().value_or(0);
  for (const Entry entry : metrics.find("task_counts").entries()) {
    if (!entry.key.is_str()) continue;
    out.task_counts.emplace_back(*entry.key.as_str(), entry.value.as_uint().value_or(0));
  }
  const Value transfer = metrics.find("transfer");
  out.incoming_bytes = transfer.find("incoming_bytes").as_uint().value_or(0);
  out.incoming_count = transfer.find("incoming_count").as_uint().value_or(0);
  out.incoming_count_total = transfer.find("incoming_count_total").as_uint().value_or(0);
  out.outgoing_bytes = transfer.find("outgoing_bytes").as_uint().value_or(0);
  out.outgoing_count = transfer.find("outgoing_count").as_uint().value_or(0);
  out.outgoing_count_total = transfer.find("outgoing_count_total").as_uint().value_or(0);
  const Value net = metrics.find("host_net_io");
  out.net_read_bps = net.find("read_bps").as_double().value_or(0);
  out.net_write_bps = net.find("write_bps").as_double().value_or(0);
  const Value disk = metrics.find("host_disk_io");
  out.disk_read_bps = disk.find("read_bps").as_double().value_or(0);
  out.disk_write_bps = disk.find("write_bps").as_double().value_or(0);
  out.num_fds = metrics.find("num_fds").as_uint().value_or(0);
}

void write(MessageWriter& writer, const RegisterWorker& message) {
  writer.map(18);
  writer.field("op");
  writer.literal("register-worker");
  writer.field("reply");
  writer.boolean(false);
  writer.field("address");
  writer.str(message.address);
  writer.field("status");
  writer.str(message.status);
  writer.field("nthreads");
  writer.uinteger(message.nthreads);
  writer.field("name");
  writer.key(message.name);
  writer.field("now");
  writer.real(message.now);
  writer.field("resources");
  write_amounts(writer, message.resources);
  writer.field("memory_limit");
  message.memory_limit == 0 ? writer.nil() : writer.uinteger(message.memory_limit);
  writer.field("local_directory");
  writer.str(message.local_directory);
  writer.field("services");
  write_ports(writer, message.services);
  writer.field("nanny");
  writer.str_or_nil(message.nanny);
  writer.field("pid");
  writer.integer(message.pid);
  writer.field("versions");
  write_map_or_empty(writer, message.versions);
  write_metrics(writer, message.metrics, message.measured);
  writer.field("extra");
  write_map_or_empty(writer, message.extra);
  writer.field("stimulus_id");
  writer.str(message.stimulus_id);
  writer.field("server_id");
  writer.str(message.server_id);
}

Status read(const Message& message, Value op, RegisterWorker& out) {
  Fields fields(message, op, "register-worker");
  out.address = fields.str("address");
  out.status = fields.str_or("status", "init");
  out.nthreads = fields.uinteger("nthreads");
  out.name = fields.key("name");
  out.now = fields.real_or("now", 0);
  read_resources(fields, out.resources);
  out.memory_limit = fields.uinteger_or("memory_limit", 0);
  out.local_directory = fields.str_or("local_directory", "");
  read_services(fields, out.services);
  out.nanny = fields.str_or("nanny", "");
  out.pid = fields.integer_or("pid", 0);
  out.versions = fields.payload_or_nil("versions");
  out.metrics = read_metrics(fields, out.measured);
  out.extra = fields.payload_or_nil("extra");
  out.stimulus_id = fields.str_or("stimulus_id", "");
  out.server_id = fields.str_or("server_id", "");
  return fields.status();
}

void write(MessageWriter& writer, const RegisterWorkerReply& message) {
  writer.map(!message.ok ? 3 : message.warning.empty() ? 4 : 5);
  writer.field("status");
  if (!message.ok) {
    writer.literal("error");
    writer.field("message");
    writer.str(message.message);
    writer.field("time");
    return writer.real(message.time);
  }
  writer.literal("OK");
  writer.field("time");
  writer.real(message.time);
  writer.field("heartbeat-interval");
  writer.real(message.heartbeat_interval_seconds);
  writer.field("worker-plugins");
  writer.map(static_cast<std::uint32_t>(message.worker_plugins.size()));
  for (const auto& [name, plugin] : message.worker_plugins) {
    writer.str(name);
    writer.bin(plugin);
  }
  if (message.warning.empty()) return;
  writer.field("warning");
  writer.str(message.warning);
}

Status read(const Message& message, RegisterWorkerReply& out) {
  Fields fields(message, message.root(), "register-worker reply");
  out.ok = fields.str("status") == "OK";
  out.message = fields.str_or("message", "");
  out.time = fields.real_or("time", 0);
  out.heartbeat_interval_seconds = fields.real_or("heartbeat-interval", 0.5);
  out.worker_plugins.clear();
  for (const Entry entry : fields.maybe("worker-plugins").entries()) {
    const auto name = entry.key.as_str();
    const auto plugin = entry.value.as_bin();
    if (name && plugin) out.worker_plugins.emplace_back(*name, *plugin);
  }
  out.warning = fields.str_or("warning", "");
  return fields.status();
}

void write(MessageWriter& writer, const HeartbeatWorker& message) {
  writer.map(6);
  writer.field("op");
  writer.literal("heartbeat_worker");
  writer.field("address");
  writer.str(message.address);
  writer.field("now");
  writer.real(message.now);
  write_metrics(writer, message.metrics, message.measured);
  writer.field("executing");
  writer.map(static_cast<std::uint32_t>(message.executing.size()));
  for (const auto& [key, seconds] : message.executing) {
    writer.key(key);
    writer.real(seconds);
  }
  writer.field("extensions");
  write_map_or_empty(writer, message.extensions);
}

Status read(const Message& message, Value op, HeartbeatWorker& out) {
  Fields fields(message, op, "heartbeat_worker");
  out.address = fields.str("address");
  out.now = fields.real_or("now", 0);
  out.metrics = read_metrics(fields, out.measured);
  out.executing.clear();
  for (const Entry entry : fields.maybe("executing").entries()) {
    const auto seconds = entry.value.as_double();
    if (!seconds) fields.wrong("executing", "is not a map of numbers");
    out.executing.emplace_back(fields.key_at("executing", entry.key), seconds.value_or(0));
  }
  out.extensions = fields.payload_or_nil("extensions");
  return fields.status();
}

void write(MessageWriter& writer, const HeartbeatReply& message) {
  writer.map(message.missing ? 1 : 3);
  writer.field("status");
  if (message.missing) return writer.literal("missing");
  writer.literal("OK");
  writer.field("time");
  writer.real(message.time);
  writer.field("heartbeat-interval");
  writer.real(message.heartbeat_interval_seconds);
}

Status read(const Message& message, HeartbeatReply& out) {
  Fields fields(message, message.root(), "heartbeat_worker reply");
  out.missing = fields.str("status") != "OK";
  out.time = fields.real_or("time", 0);
  out.heartbeat_interval_seconds = fields.real_or("heartbeat-interval", 0.5);
  return fields.status();
}

void write(MessageWriter& writer, const WorkerIdentity& worker) {
  const Merged extra(worker.extra);
  writer.map((worker.live ? 13u : 11u) + extra.size());
  writer.field("type");
  writer.literal("Worker");
  writer.field("id");
  writer.key(worker.name);
  writer.field("host");
  writer.str(worker.host);
  writer.field("resources");
  write_amounts(writer, worker.resources);
  writer.field("local_directory");
  writer.str(worker.local_directory);
  writer.field("name");
  writer.key(worker.name);
  writer.field("nthreads");
  writer.uinteger(worker.nthreads);
  writer.field("memory_limit");
  writer.uinteger(worker.memory_limit);
  writer.field("services");
  write_ports(writer, worker.services);
  if (worker.live) {
    writer.field("last_seen");
    writer.real(worker.last_seen);
    writer.field("metrics");
    write_merged(writer, worker.metrics, worker.more_metrics);
  }
  writer.field("status");
  writer.str(worker.status);
  writer.field("nanny");
  writer.str_or_nil(worker.nanny);
  extra.write(writer);
}

void write(MessageWriter& writer, const Identity& identity) {
  writer.map(9);
  writer.field("type");
  writer.str(identity.type);
  writer.field("id");
  writer.str(identity.id);
  writer.field("address");
  writer.str(identity.address);
  writer.field("services");
  write_ports(writer, identity.services);
  writer.field("started");
  writer.real(identity.started);
  writer.field("n_workers");
  writer.uinteger(identity.n_workers);
  writer.field("total_threads");
  writer.uinteger(identity.total_threads);
  writer.field("total_memory");
  writer.uinteger(identity.total_memory);
  writer.field("workers");
  writer.map(static_cast<std::uint32_t>(identity.workers.size()));
  for (const WorkerIdentity& worker : identity.workers) {
    writer.str(worker.address);
    write(writer, worker);
  }
}

}  // namespace protocol
