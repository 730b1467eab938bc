//! A scheduler of a few lines on a thread of its own, to drive a worker's Runtime without Python.
//!
//! It takes one worker, answers its heartbeats, sends it what a test says and notes which tasks
//! finished. Tests wait for what it has noted; nothing here depends on time but for the deadline
//! that ends a broken test.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "protocol/net/listener.h"
#include "protocol/net/rpc_pool.h"
#include "protocol/net/sender.h"
#include "protocol/wire/messages_dense.h"
#include "protocol/wire/messages_register.h"
#include "protocol/wire/messages_rpc.h"
#include "protocol/wire/messages_worker.h"

namespace worker {

class FakeScheduler {
 public:
  FakeScheduler();
  ~FakeScheduler();

  const std::string& address() const { return address_; }

  //! Sends compute-task; the worker at `worker` holds all dependencies.
  void compute(std::string key, std::vector<std::string> dependencies, std::string worker);
  void free_keys(std::vector<std::string> keys);
  //! What the worker at `worker` answers to get_data: key -> its payload's bytes.
  std::map<std::string, std::string> get_data(std::string worker, std::vector<std::string> keys);

  //! Waits until so many tasks have finished. False: the deadline passed.
  bool wait_finished(std::size_t count);
  bool wait_heartbeats(std::size_t count);

 private:
  using Ref = protocol::Connection::Ref;
  using Found = std::map<std::string, std::string>;

  protocol::Async<void> serve(Ref connection);
  void on_call(const Ref& connection, const protocol::Message& message);
  void on_op(const protocol::Message& message, protocol::Value op);
  protocol::Async<void> ask(std::string worker, std::vector<std::string> keys);
  bool wait(const std::function<bool()>& holds);
  void note(const std::function<void()>& change);

  protocol::Loop loop_;
  protocol::RpcPool pool_;
  std::unique_ptr<protocol::Listener> listener_;
  std::set<Ref> connections_;
  protocol::StreamSender stream_;
  std::string address_;
  std::uint64_t runs_ = 0;
  std::thread thread_;

  std::mutex mutex_;  //!< what tests read
  std::condition_variable changed_;
  std::set<std::string> finished_;
  std::size_t heartbeats_ = 0;
  std::optional<Found> found_;
};

}  // namespace worker
