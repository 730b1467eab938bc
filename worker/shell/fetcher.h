//! Fetches values from peers: the asking side of get_data.
//!
//! One question per GatherDep of the core, whose limits decide how many run at once. Bytes that did
//! not all arrive never become a value: a broken connection is a network failure of the peer.
//!
//! Answers to: distributed/worker.py, Worker.gather_dep and get_data_from_worker.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <string>
#include <utility>
#include <vector>

#include "protocol/net/async.h"
#include "protocol/net/rpc_pool.h"
#include "worker/shell/driver.h"

namespace worker {

class Fetcher {
 public:
  //! Bytes per second, summed over `count` transfers.
  using Rate = std::pair<double, std::uint64_t>;

  Fetcher(protocol::Loop& loop, protocol::RpcPool& pool, Driver& driver, std::string own_address)
      : loop_(loop), pool_(pool), driver_(driver), address_(std::move(own_address)) {}

  void fetch(PeerId peer, std::string address, std::vector<Key> keys) {
    spawn(run(peer, std::move(address), std::move(keys)));
  }
  //! Moving average of what transfers reached, bytes per second.
  double bandwidth() const { return bandwidth_; }
  //! By peer, since the last clear.
  const absl::flat_hash_map<std::string, Rate>& rates() const { return rates_; }
  void clear_rates() { rates_.clear(); }

 private:
  protocol::Async<void> run(PeerId peer, std::string address, std::vector<Key> keys);
  void take_answer(PeerId peer, protocol::Frames frames, protocol::Connection::Ref connection,
                   const std::string& address, double start);
  void measure(const std::string& address, std::uint64_t bytes, double seconds);

  protocol::Loop& loop_;
  protocol::RpcPool& pool_;
  Driver& driver_;
  std::string address_;
  double bandwidth_ = 100e6;
  absl::flat_hash_map<std::string, Rate> rates_;
};

}  // namespace worker
