//! Observers of the set of workers: every Cluster object keeps one such connection.
//!
//! An observer gets the identity of all workers first, then a batch for each that comes or goes.
//!
//! Answers to: distributed/scheduler.py, WorkerStatusPlugin and subscribe_worker_status.
#pragma once

#include <memory>
#include <vector>

#include "protocol/net/connection.h"
#include "protocol/net/sender.h"
#include "scheduler/shell/peers.h"

namespace scheduler {

class Server;

class StatusWatchers {
 public:
  void add(protocol::Connection::Ref connection);
  void added(Server& server, const WorkerPeer& worker);
  void removed(const WorkerPeer& worker);

 private:
  void sweep();
  std::vector<std::unique_ptr<protocol::StreamSender>> watchers_;
};

}  // namespace scheduler
