//! The workers and clients that are connected, with what only the shell needs to know of them.
//!
//! The core knows peers by id; names, connections and the values shown by `identity` live here.
//! Ids are given out here, ascending, and never used again.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "protocol/base/ids.h"
#include "protocol/base/key.h"
#include "protocol/base/payload.h"
#include "protocol/base/time.h"
#include "protocol/net/connection.h"
#include "protocol/net/sender.h"
#include "scheduler/shell/blobs.h"
#include "scheduler/shell/versions.h"

namespace scheduler {

using protocol::ClientId;
using protocol::WorkerId;

struct WorkerPeer {
  WorkerId id;
  std::string address;
  std::string host;
  protocol::Key name;                //!< as the worker spelled it, in canonical form
  std::string nanny;                 //!< address; empty: none
  std::string server_id;
  std::string local_directory;
  std::uint32_t nthreads = 1;
  std::uint64_t memory_limit = 0;
  std::vector<std::pair<std::string, std::int64_t>> services;  //!< name -> port
  protocol::PayloadRef metrics;      //!< of the last heartbeat; a map
  protocol::PayloadRef extra;        //!< a map, merged into the identity
  std::optional<Packages> packages;
  double last_seen = 0;              //!< wall clock, shown to people
  protocol::Duration last_seen_mono; //!< decides
  bool rask = false;                 //!< takes rask-compute
  bool fading = false;               //!< its stream has ended; see Server::lose_worker
  BlobBook blobs;                    //!< what it was sent of what tasks share
  protocol::Connection::Ref connection;
  protocol::StreamSender stream;
};

struct ClientPeer {
  ClientId id;
  std::string name;
  double last_seen = 0;
  std::optional<Packages> packages;
  protocol::Connection::Ref connection;
  protocol::StreamSender stream;
};

class Peers {
 public:
  WorkerId next_worker_id() { return WorkerId(workers_given_++); }
  ClientId next_client_id() { return ClientId(clients_given_++); }

  WorkerPeer& add(std::unique_ptr<WorkerPeer> worker);
  ClientPeer& add(std::unique_ptr<ClientPeer> client);
  //! Gives the record back, so that it lives on for whoever still uses it.
  std::unique_ptr<WorkerPeer> remove(WorkerId id);
  std::unique_ptr<ClientPeer> remove(ClientId id);

  WorkerPeer* find(WorkerId id) const {
    return id.value < worker_by_id_.size() ? worker_by_id_[id.value] : nullptr;
  }
  ClientPeer* find(ClientId id) const {
    return id.value < client_by_id_.size() ? client_by_id_[id.value] : nullptr;
  }
  WorkerPeer* find_worker(std::string_view address);
  //! By the name it registered with. Answers to: Scheduler.aliases.
  WorkerPeer* find_alias(protocol::KeyView name);
  ClientPeer* find_client(std::string_view name);

  //! In order of arrival.
  const std::map<WorkerId, std::unique_ptr<WorkerPeer>>& workers() const { return workers_; }
  const std::map<ClientId, std::unique_ptr<ClientPeer>>& clients() const { return clients_; }
  //! Without those that stand for a queue, a variable and the like.
  std::size_t connected_clients() const;

 private:
  std::uint32_t workers_given_ = 0;
  std::uint32_t clients_given_ = 0;
  std::vector<WorkerPeer*> worker_by_id_;  //!< null: gone. Asked for every message.
  std::vector<ClientPeer*> client_by_id_;
  std::map<WorkerId, std::unique_ptr<WorkerPeer>> workers_;
  std::map<ClientId, std::unique_ptr<ClientPeer>> clients_;
  std::unordered_map<std::string, WorkerId> by_address_;
  std::unordered_map<std::string, WorkerId> by_alias_;
  std::unordered_map<std::string, ClientId> by_client_name_;
};

}  // namespace scheduler
