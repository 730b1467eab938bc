//! The worker's life with its scheduler: register, the stream, heartbeats.
//!
//! A worker never reconnects, as in stock: when the stream breaks, or a heartbeat is answered with
//! "missing", the worker closes. Heartbeats are made and sent here, without Python, so a task that
//! holds the GIL cannot make its worker look dead.
//!
//! Answers to: distributed/worker.py, Worker._register_with_scheduler, heartbeat, handle_scheduler.
#pragma once

#include <functional>
#include <string>

#include "protocol/net/async.h"
#include "protocol/net/connector.h"
#include "protocol/net/rpc_pool.h"
#include "protocol/net/sender.h"
#include "worker/shell/metrics.h"
#include "worker/shell/service_queue.h"
#include "worker/shell/stream_in.h"

namespace worker {

class SchedulerLink {
 public:
  SchedulerLink(protocol::Loop& loop, const Options& options, Slice extra, protocol::RpcPool& pool,
                protocol::StreamSender& stream, StreamIn& in, const Driver& driver,
                MetricsSources sources,
                ServiceQueue& service, std::function<void(std::string)> on_lost)
      : loop_(loop), options_(options), extra_(std::move(extra)), pool_(pool),
        stream_(stream), in_(in), driver_(driver), gauge_(sources),
        service_(service), on_lost_(std::move(on_lost)), beat_(loop), keep_alive_(loop) {}

  //! Connects and registers; the outcome is a service event.
  void start(std::string address) {
    address_ = std::move(address);
    spawn(enroll());
  }
  //! Python is set up: tell the scheduler that we run, read its stream, send heartbeats.
  void run();
  void send_status(std::string_view status, std::string_view stimulus);
  void set_extensions(PayloadRef map) { extensions_ = std::move(map); }
  Slice metrics();
  //! Says goodbye and closes the stream.
  void close();

 private:
  protocol::Async<void> enroll();
  protocol::Async<void> read_stream();
  protocol::Async<void> heartbeat();
  protocol::OutMessage registration();
  protocol::OutMessage heartbeat_message();
  void refused(std::string text);
  void beat_every(double seconds);

  protocol::Loop& loop_;
  const Options& options_;
  Slice extra_;  //!< a map merged into our identity
  protocol::RpcPool& pool_;
  protocol::StreamSender& stream_;
  StreamIn& in_;
  const Driver& driver_;
  Gauge gauge_;
  ServiceQueue& service_;
  std::function<void(std::string)> on_lost_;
  protocol::Timer beat_;
  protocol::Timer keep_alive_;
  protocol::Connection::Ref connection_;
  std::string address_;
  PayloadRef extensions_;
  double interval_ = 0;
  bool beating_ = false;
  bool closed_ = false;
};

}  // namespace worker
