//! A worker that works on nothing: it answers every compute-task at once with task-finished.
//!
//! To a scheduler it is a worker like any other (registers, reports running, heartbeats, serves
//! get_data), so it measures the scheduler alone. Many live in one process, each with a stream, an
//! RPC connection and a listener of its own, as real workers have. It sends every field that a
//! stock scheduler insists on. Values are the int 1, whatever the task was.
//!
//! Answers to: distributed/worker.py, Worker, as seen from the scheduler.
#pragma once

#include <cstdint>
#include <string>

#include "bench/peer.h"

namespace bench {

struct ZeroOptions {
  std::uint16_t scheduler_port = 0;
  int nthreads = 1;
  std::string versions;  //!< msgpack map, as `distributed.versions.get_versions()`
};

//! What all zero workers of the process did together.
struct ZeroCounts {
  std::uint64_t registered = 0;
  std::uint64_t lost = 0;
  std::uint64_t tasks = 0;
  std::uint64_t batches = 0;   //!< stream messages that held tasks
  std::uint64_t batch_max = 0;
};

class ZeroWorker {
 public:
  ZeroWorker(Peers& peers, const ZeroOptions& options, ZeroCounts& counts, int number);

  //! Starts the next heartbeat unless the last one is unanswered.
  void heartbeat();
  //! Drops every connection without a word, as a killed process does.
  void die();
  bool registered() const { return registered_; }

 private:
  void send_registration();
  void on_registered(const Message& reply);
  void on_stream(const Message& message);
  void on_rpc(Peer& peer, const Message& message);
  void write_finished(MessageWriter& out, Value task);
  void write_steal_response(MessageWriter& out, Value request);
  void write_metrics(MessageWriter& out) const;

  Peers& peers_;
  const ZeroOptions& options_;
  ZeroCounts& counts_;
  std::string name_;
  std::string address_;
  Peer* stream_ = nullptr;
  Peer* rpc_ = nullptr;
  bool registered_ = false;
  bool heartbeat_unanswered_ = false;
  protocol::StreamBatch batch_;
};

}  // namespace bench
