//! Publishing and remembering; see topics.h.
#include "scheduler/shell/topics.h"

#include <utility>

#include "scheduler/shell/log.h"

namespace scheduler {

void Topics::publish(std::string_view name, protocol::PayloadRef message) {
  auto found = topics_.find(name);
  if (found == topics_.end()) found = topics_.emplace(std::string(name), Topic{}).first;
  Topic& topic = found->second;
  topic.events.push_back({wall_time(), std::move(message)});
  if (topic.events.size() > kept_) topic.events.pop_front();
  if (topic.subscribers.empty()) return;
  const TopicEvent event = topic.events.back();
  for (const protocol::ClientId client : topic.subscribers) tell_(client, found->first, event);
}

void Topics::subscribe(std::string_view name, protocol::ClientId client) {
  topics_[std::string(name)].subscribers.insert(client);
}

void Topics::unsubscribe(std::string_view name, protocol::ClientId client) {
  const auto found = topics_.find(name);
  if (found != topics_.end()) found->second.subscribers.erase(client);
}

void Topics::forget(protocol::ClientId client) {
  for (auto& [name, topic] : topics_) topic.subscribers.erase(client);
}

void Topics::truncate(std::string_view name) {
  const auto found = topics_.find(name);
  if (found == topics_.end()) return;
  found->second.events.clear();
  if (found->second.subscribers.empty()) topics_.erase(found);
}

const Topics::Topic* Topics::find(std::string_view name) const {
  const auto found = topics_.find(name);
  return found == topics_.end() ? nullptr : &found->second;
}

protocol::Result<protocol::PayloadRef> with_worker(const protocol::Message& message,
                                                   protocol::Value event,
                                                   std::string_view address) {
  if (!event.is_map() || protocol::as_marker(event)) return message.payload(event);
  protocol::MessageWriter out;
  const bool named = event.find("worker").exists();
  out.map(static_cast<std::uint32_t>(event.size() + (named ? 0 : 1)));
  for (const auto [name, value] : event.entries()) {
    if (name.equals("worker")) continue;
    out.raw(name.raw());
    if (auto written = out.value(message, value); !written) return written.error();
  }
  out.field("worker");
  out.str(address);
  return out.take_payload();
}

}  // namespace scheduler
