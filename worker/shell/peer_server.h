//! Serves whoever connects to the worker: peers that fetch, clients, the scheduler's RPCs.
//!
//! get_data, ping, identity, keys, versions and free_keys are answered here, without Python, so they
//! are answered while a task holds the GIL. Every other op goes to the service loop with its frames
//! and its answer comes back by token. Requests on one connection are served one after another.
//!
//! Answers to: distributed/core.py, Server._handle_comm; distributed/worker.py, Worker.get_data.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <memory>
#include <string>
#include <vector>

#include "protocol/net/async.h"
#include "protocol/net/connection.h"
#include "protocol/wire/message.h"
#include "protocol/wire/ops.h"
#include "worker/shell/driver.h"
#include "worker/shell/options.h"
#include "worker/shell/packer.h"
#include "worker/shell/service_queue.h"

namespace worker {

class PeerServer {
 public:
  PeerServer(protocol::Loop& loop, Driver& driver, Store& store, Packer& packer,
             ServiceQueue& service, const Options& options)
      : loop_(loop), driver_(driver), store_(store), packer_(packer), service_(service),
        options_(options) {}

  void accept(protocol::Connection::Ref connection) { spawn(serve(std::move(connection))); }
  void reply(std::uint64_t token, protocol::Frames frames, bool close);
  void claim_op(std::string op) { claimed_.insert(std::move(op)); }
  void set_paused(bool paused) { paused_ = paused; }
  void close();

  std::uint64_t outgoing_count() const { return outgoing_; }
  std::uint64_t outgoing_count_total() const { return outgoing_total_; }
  std::uint64_t outgoing_bytes() const { return outgoing_bytes_; }
  std::uint64_t outgoing_bytes_total() const { return outgoing_bytes_total_; }

 private:
  struct Reply {
    protocol::Frames frames;
    bool close = false;
  };
  using Ref = protocol::Connection::Ref;

  protocol::Async<void> serve(Ref connection);
  //! False: the connection is to be closed.
  protocol::Async<bool> serve_one(Ref connection, std::shared_ptr<protocol::Message> message);
  protocol::Async<bool> get_data(Ref connection, std::shared_ptr<protocol::Message> message);
  protocol::Async<bool> forward(Ref connection, std::shared_ptr<protocol::Message> message);
  bool answer(const Ref& connection, const protocol::Message& message, protocol::Op op);
  void free_keys(const protocol::Message& message);
  protocol::OutMessage identity() const;
  protocol::OutMessage keys() const;
  bool busy(const Ref& connection) const;
  std::vector<std::pair<Key, ValueId>> held_of(const protocol::Message& message);

  protocol::Loop& loop_;
  Driver& driver_;
  Store& store_;
  Packer& packer_;
  ServiceQueue& service_;
  const Options& options_;
  bool paused_ = false;
  bool closed_ = false;
  std::uint64_t next_token_ = 1;
  absl::flat_hash_map<std::uint64_t, protocol::Completer<Reply>> awaited_;
  absl::flat_hash_set<std::string> claimed_;
  absl::flat_hash_set<Ref> connections_;
  std::uint64_t outgoing_ = 0;
  std::uint64_t outgoing_total_ = 0;
  std::uint64_t outgoing_bytes_ = 0;
  std::uint64_t outgoing_bytes_total_ = 0;
};

}  // namespace worker
