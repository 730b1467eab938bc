//! Event topics and metadata by RPC.
//!
//! Answers to: Scheduler.log_event, get_events, get_metadata and set_metadata.
#include "scheduler/shell/rpc.h"
#include "scheduler/shell/server.h"

namespace scheduler {

using protocol::MessageWriter;

namespace {

constexpr std::size_t kMetadataPathMax = 1000;

//! Where `rask.configure` keeps its settings (python/rask/configure.py).
constexpr std::string_view kSettings = "rask-settings";

std::optional<Duration> seconds_of(Value value) {
  const auto seconds = value.as_double();
  return seconds && *seconds >= 0 ? std::optional(Duration::seconds(*seconds)) : std::nullopt;
}

//! Admission's numbers as they are set now.
void memory_changed(Server& server) {
  const Config& configured = server.settings.core;
  MemoryBudgetSet now{configured.memory_budget, configured.memory_patience,
                      configured.memory_too_large_grace};
  const std::string map = server.metadata.plain_map(protocol::string_key(kSettings));
  protocol::Document document;
  if (!map.empty() && document.parse(map)) {
    const Value set = document.root();
    if (const auto part = set.find("memory.budget").as_double(); part && *part > 0) {
      now.fraction = *part;
    }
    if (const auto found = seconds_of(set.find("memory.patience"))) now.patience = found;
    if (const auto found = seconds_of(set.find("memory.too-large-grace"))) {
      now.too_large_grace = found;
    }
  }
  server.step(now, Server::stimulus("memory-budget"));
}

//! Tells the core its switches as they are now; those not set, or taken back, are as configured.
void settings_changed(Server& server) {
  ConfigChanged now{server.settings.core.automatic, server.settings.core.prefetch,
                    server.settings.core.batches};
  const std::string map = server.metadata.plain_map(protocol::string_key(kSettings));
  protocol::Document document;
  if (!map.empty() && document.parse(map)) {
    const Value set = document.root();
    if (const auto name = set.find("spliter.auto").as_str()) {
      if (const auto known = parse_automatic(*name)) now.automatic = known;
    }
    if (const auto name = set.find("spliter.batches").as_str()) {
      if (const auto known = parse_scheme(*name)) now.batches = known;
    }
    if (const auto found = seconds_of(set.find("worker.prefetch"))) now.prefetch = found;
  }
  server.step(now, Server::stimulus("rask-settings"));
}

void write_events(MessageWriter& out, const Topics::Topic* topic) {
  const std::size_t count = topic ? topic->events.size() : 0;
  out.array(static_cast<std::uint32_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    const TopicEvent& event = topic->events[i];
    out.array(2);
    out.real(event.time);
    out.payload(event.message);
  }
}

}  // namespace

Reply rpc_log_event(Server& server, const Request& request) {
  const auto event = request.message->payload(request.body().find("msg"));
  if (!event) return Reply::raise(event.error());
  const Value topic = request.get("topic");
  if (const auto name = topic.as_str()) {
    server.topics.publish(*name, *event);
  } else if (!topic.is_array() && topic.elements().size() == 0 && !topic.is_map()) {
    return Reply::raise({"TypeError", "a topic is a str or a list of str"});
  } else {
    for (const Value each : topic.elements()) {
      if (const auto text = each.as_str()) server.topics.publish(*text, *event);
    }
  }
  return Reply::nil();
}

Reply rpc_events(Server& server, const Request& request) {
  return Reply::written([&](MessageWriter& out) {
    if (const auto name = request.get("topic").as_str()) {
      write_events(out, server.topics.find(*name));
      return;
    }
    if (const Value topic = request.get("topic"); topic.exists() && !topic.is_nil()) {
      return write_events(out, nullptr);
    }
    std::uint32_t count = 0;
    for (const auto& [name, topic] : server.topics.all()) count += topic.events.empty() ? 0 : 1;
    out.map(count);
    for (const auto& [name, topic] : server.topics.all()) {
      if (topic.events.empty()) continue;
      out.str(name);
      write_events(out, &topic);
    }
  });
}

Reply rpc_get_metadata(Server& server, const Request& request) {
  protocol::GetMetadataCall call;
  if (auto read = request.read(call); !read) return Reply::raise(read.error());
  MessageWriter out;
  const auto missing = server.metadata.write(call.keys, out);
  if (!missing) return out.finish();
  if (!call.fallback) return Reply::missing_key(*missing);
  return Reply::written([&](MessageWriter& fallback) { fallback.payload(call.fallback); });
}

Reply rpc_set_metadata(Server& server, const Request& request) {
  protocol::SetMetadataCall call;
  if (auto read = request.read(call); !read) return Reply::raise(read.error());
  if (call.keys.empty() || call.keys.size() > kMetadataPathMax) {
    return Reply::raise({"IndexError", "a metadata path has between 1 and 1000 keys"});
  }
  server.metadata.set(call.keys, call.value);
  if (call.keys.front() != protocol::string_key(kSettings).view()) return Reply::nil();
  settings_changed(server);
  // `rask_memory(budget=…)` holds until one of these is set.
  const auto named = [&](std::string_view name) {
    return call.keys.size() > 1 && call.keys[1] == protocol::string_key(name).view();
  };
  if (named("memory.budget") || named("memory.patience") || named("memory.too-large-grace")) {
    memory_changed(server);
  }
  return Reply::nil();
}

}  // namespace scheduler
