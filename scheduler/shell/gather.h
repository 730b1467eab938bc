//! Fetching values from workers on behalf of a client, and handing them on untouched.
//!
//! A Gathering asks the holders of each key for it; workers that fail are not asked again, busy
//! ones a little later, other holders instead. Values stay in the messages they came in and leave
//! as slices of them: nothing is copied or opened.
//!
//! Answers to: distributed/utils_comm.py, gather_from_workers, and Scheduler.gather.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "protocol/net/async.h"
#include "protocol/wire/message.h"
#include "protocol/wire/messages_rpc.h"

namespace scheduler {

class Server;

class Gathering {
 public:
  Gathering(Server& server, std::shared_ptr<const protocol::Message> request,
            std::vector<protocol::KeyView> keys, protocol::Value serializers)
      : server_(server), request_(std::move(request)), keys_(std::move(keys)),
        serializers_(serializers) {}

  protocol::Async<void> run();
  //! Keys that could not be had; empty: all is well.
  const std::vector<protocol::KeyView>& failed() const { return failed_; }
  //! {"status", "data"} or {"status", "keys"}.
  protocol::OutMessage reply() const;

 private:
  using Batch = std::vector<std::size_t>;  //!< indices into keys_
  enum class Outcome : std::uint8_t { done, busy, gone, refused };

  //! Where a value lies: in a worker's answer.
  struct Found {
    std::shared_ptr<const protocol::Message> message;
    protocol::Value value;
  };

  bool plan(std::unordered_map<std::string, Batch>& out, const Batch& wanted, Batch& unreachable);
  protocol::Async<Outcome> fetch(std::string address, Batch batch);
  void take(const std::shared_ptr<const protocol::Message>& answer, const std::string& address,
            const Batch& batch);

  Server& server_;
  std::shared_ptr<const protocol::Message> request_;  //!< keys_ borrow from it
  std::vector<protocol::KeyView> keys_;
  protocol::Value serializers_;
  std::vector<Found> found_;
  std::vector<protocol::KeyView> failed_;
  std::unordered_set<std::string> gone_;
  std::unordered_set<std::string> busy_;
  //! Workers that answered without the key: index -> addresses.
  std::unordered_map<std::size_t, std::unordered_set<std::string>> without_;
};

}  // namespace scheduler
