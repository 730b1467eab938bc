//! Fetches values from peers: the asking side of get_data.
//!
//! One question per GatherDep of the core, whose limits decide how many run at once. Bytes that did
//! not all arrive never become a value: a broken connection is a network failure of the peer.
//!
//! Answers to: distributed/worker.py, Worker.gather_dep and get_data_from_worker.
#pragma once

#include <string>
#include <vector>

#include "protocol/net/async.h"
#include "protocol/net/rpc_pool.h"
#include "worker/shell/driver.h"

namespace worker {

class Fetcher {
 public:
  //! Bytes and seconds of transfers since the last heartbeat, per peer.
  struct Rate {
    double bandwidth_sum = 0;
    std::uint64_t count = 0;
  };

  Fetcher(protocol::Loop& loop, protocol::RpcPool& pool, Driver& driver)
      : loop_(loop), pool_(pool), driver_(driver) {}

  void set_address(std::string address) { address_ = std::move(address); }
  void fetch(PeerId peer, std::string address, std::vector<Key> keys) {
    spawn(run(peer, std::move(address), std::move(keys)));
  }
  //! Moving average of what transfers reached, bytes per second.
  double bandwidth() const { return bandwidth_; }

 private:
  protocol::Async<void> run(PeerId peer, std::string address, std::vector<Key> keys);
  void take_answer(PeerId peer, protocol::Frames frames, protocol::Connection::Ref connection,
                   const std::string& address, double seconds);

  protocol::Loop& loop_;
  protocol::RpcPool& pool_;
  Driver& driver_;
  std::string address_;
  double bandwidth_ = 100e6;
};

}  // namespace worker
