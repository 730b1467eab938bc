//! Event topics: a short memory per topic, and clients that want to be told.
//!
//! Workers' `print` and `warn`, log forwarding and `client.log_event` all travel this way. A topic
//! remembers its last events; publishing tells every subscriber at once.
//!
//! Answers to: distributed/broker.py.
#pragma once

#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/ids.h"
#include "protocol/base/payload.h"
#include "protocol/wire/writer.h"

namespace scheduler {

struct TopicEvent {
  double time;
  protocol::PayloadRef message;
};

class Topics {
 public:
  //! Tells one client about one event of a topic it subscribed to.
  using Tell = std::function<void(protocol::ClientId, std::string_view topic, const TopicEvent&)>;

  Topics(std::size_t kept, Tell tell) : kept_(kept), tell_(std::move(tell)) {}

  void publish(std::string_view topic, protocol::PayloadRef message);
  //! Publishes a map that `write` writes.
  template <class Write>
  void publish(std::initializer_list<std::string_view> topics, const Write& write) {
    protocol::MessageWriter writer;
    write(writer);
    const protocol::PayloadRef message = writer.take_payload();
    for (const std::string_view topic : topics) publish(topic, message);
  }

  void subscribe(std::string_view topic, protocol::ClientId client);
  void unsubscribe(std::string_view topic, protocol::ClientId client);
  void forget(protocol::ClientId client);
  //! Drops what a topic remembers.
  void truncate(std::string_view topic);

  //! Topics with their events; a topic without events may be left out.
  struct Topic {
    std::deque<TopicEvent> events;
    std::set<protocol::ClientId> subscribers;
  };
  const std::map<std::string, Topic, std::less<>>& all() const { return topics_; }
  const Topic* find(std::string_view topic) const;

 private:
  std::size_t kept_;
  Tell tell_;
  std::map<std::string, Topic, std::less<>> topics_;
};

//! A worker's event with the worker's address in it, if the event is a map.
protocol::Result<protocol::PayloadRef> with_worker(const protocol::Message& message,
                                                   protocol::Value event, std::string_view address);

}  // namespace scheduler
