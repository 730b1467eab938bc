//! Reading the flat configuration map; see settings.h.
#include "scheduler/shell/settings.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

#include "protocol/wire/document.h"

namespace scheduler {
namespace {

using protocol::Error;
using protocol::Fault;
using protocol::Value;

constexpr std::string_view kDurations = "distributed.scheduler.default-task-durations.";

//! One entry of the map and the fields it may set; remembers the first value of a wrong type.
class Reader {
 public:
  Reader(std::string_view key, Value value) : key_(key), value_(value) {}

  void real(std::string_view key, double& out) {
    if (!match(key)) return;
    if (value_.is_nil()) {
      out = 0;
    } else if (const auto number = value_.as_double()) {
      out = *number;
    } else {
      failed_ = true;
    }
  }
  template <class Integer>
  void integer(std::string_view key, Integer& out) {
    double number = static_cast<double>(out);
    real(key, number);
    out = static_cast<Integer>(number);
  }
  void flag(std::string_view key, bool& out) {
    if (!match(key)) return;
    if (const auto value = value_.as_bool()) {
      out = *value;
    } else if (value_.is_nil()) {
      out = false;
    } else {
      failed_ = true;
    }
  }
  void fraction(std::string_view key, double& out) {
    if (match(key) && value_.as_bool() == false) {
      out = 0;
    } else {
      real(key, out);
    }
  }
  void text(std::string_view key, std::string& out) {
    if (match(key)) out = value_.as_str().value_or("");
  }
  void duration(std::string_view key, protocol::Duration& out) {
    double seconds = out.as_seconds();
    real(key, seconds);
    out = protocol::Duration::seconds(seconds);
  }
  void automatic(std::string_view key, Automatic& out) {
    if (!match(key)) return;
    // YAML reads a bare `off` as false.
    const bool none = value_.is_nil() || !value_.as_bool().value_or(true);
    const std::string_view name = none ? "off" : value_.as_str().value_or("");
    if (const auto known = parse_automatic(name)) {
      out = *known;
    } else {
      failed_ = true;
    }
  }
  void scheme(std::string_view key, Scheme& out) {
    if (!match(key)) return;
    if (const auto known = parse_scheme(value_.as_str().value_or(""))) {
      out = *known;
    } else {
      failed_ = true;
    }
  }
  bool match(std::string_view key) const { return key_ == key; }
  bool failed() const { return failed_; }

 private:
  std::string_view key_;
  Value value_;
  bool failed_ = false;
};

void read_core(Reader& entry, Config& core) {
  entry.integer("distributed.scheduler.allowed-failures", core.allowed_failures);
  entry.real("distributed.scheduler.bandwidth", core.bandwidth);
  entry.integer("distributed.scheduler.default-data-size", core.default_data_size);
  entry.real("distributed.scheduler.worker-saturation", core.worker_saturation);
  entry.real("distributed.scheduler.unknown-task-duration", core.unknown_task_duration);
  entry.integer("distributed.scheduler.rootish-taskgroup", core.rootish_taskgroup);
  entry.integer("distributed.scheduler.rootish-taskgroup-dependencies",
                core.rootish_taskgroup_dependencies);
  entry.flag("distributed.scheduler.work-stealing", core.work_stealing);
  entry.duration("distributed.scheduler.work-stealing-interval", core.work_stealing_interval);
  entry.flag("distributed.scheduler.active-memory-manager.start", core.active_memory_manager);
  entry.duration("distributed.scheduler.active-memory-manager.interval",
                 core.active_memory_manager_interval);
  entry.real("distributed.scheduler.no-workers-timeout", core.no_workers_timeout);
  entry.duration("rask.worker.prefetch", core.prefetch);
  entry.automatic("rask.spliter.auto", core.automatic);
  entry.scheme("rask.spliter.batches", core.batches);
  entry.flag("rask.memory.learned", core.memory_learned);
  entry.duration("rask.memory.patience", core.memory_patience);
  entry.duration("rask.memory.too-large-grace", core.memory_too_large_grace);
  entry.real("distributed.worker.memory.recent-to-old-time", core.memory_recent_to_old);
  entry.integer("distributed.admin.low-level-log-length", core.story_length);
}

void read_shell(Reader& entry, Settings& out) {
  entry.real("distributed.scheduler.worker-ttl", out.worker_ttl);
  entry.real("rask.scheduler.worker-ttl", out.rask_worker_ttl);
  entry.real("distributed.scheduler.idle-timeout", out.idle_timeout);
  entry.real("distributed.scheduler.events-cleanup-delay", out.events_cleanup_delay);
  entry.integer("distributed.admin.low-level-log-length", out.events_kept);
  entry.real("distributed.comm.timeouts.connect", out.connect_timeout);
  entry.integer("distributed.comm.timeouts.tcp", out.tcp_timeout);
  entry.integer("distributed.comm.socket-backlog", out.backlog);
  entry.flag("distributed.scheduler.reuse-broadcast-comm", out.reuse_broadcast);
  entry.real("distributed.adaptive.target-duration", out.adaptive_target_duration);
  entry.text("distributed.scheduler.contact-address", out.contact_address);
  entry.text("temporary-directory", out.temporary_directory);
  entry.text("distributed.admin.log-format", out.log_format);
  entry.integer("distributed.admin.log-length", out.log_length);
}

//! Fractions of a worker's memory, or false.
void read_memory(Reader& entry, double& target, double& budget) {
  entry.fraction("distributed.worker.memory.target", target);
  entry.fraction("rask.memory.budget", budget);
}

}  // namespace

protocol::Result<Settings> parse_settings(protocol::ByteView msgpack) {
  protocol::Document document;
  if (auto parsed = document.parse(msgpack); !parsed) return parsed.error();
  Settings out;
  out.core.default_task_durations.clear();
  double target = 0, budget = -1;
  for (const auto [name, value] : document.root().entries()) {
    // Environment variables spell keys with underscores; to dask.config both mean the same.
    std::string key(name.as_str().value_or(""));
    std::replace(key.begin(), key.end(), '_', '-');
    Reader entry(key, value);
    read_core(entry, out.core);
    read_shell(entry, out);
    if (!value.is_nil()) read_memory(entry, target, budget);
    if (key.starts_with(kDurations)) {
      out.core.default_task_durations.emplace_back(key.substr(kDurations.size()),
                                                   value.as_double().value_or(0));
    } else if (key == "distributed.worker.memory.terminate") {
      // A fraction, or false: then tasks too large for a worker are sent to it all the same.
      out.core.memory_terminate = value.as_double().value_or(0) > 0;
    } else if (key == "distributed.scheduler.blocked-handlers") {
      for (const Value op : value.elements())
        out.blocked_handlers.emplace(op.as_str().value_or(""));
    }
    if (entry.failed()) {
      return Error{Fault::bad_type, "configuration value of " + key};
    }
  }
  // Workers spill beyond their target, so that is how far admission fills them by default.
  if (target > 0) out.core.memory_budget = target;
  if (budget >= 0) out.core.memory_budget = budget;
  return out;
}

protocol::Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return Error{Fault::io, "reading " + path};
  return text.str();
}

}  // namespace scheduler
