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
#include "worker/shell/options.h"
#include "worker/shell/service_queue.h"
#include "worker/shell/stream_in.h"

namespace worker {

class SchedulerLink {
 public:
  SchedulerLink(protocol::Loop& loop, const Options& options, protocol::RpcPool& pool,
                protocol::StreamSender& stream, StreamIn& in, Driver& driver, Fetcher& fetcher,
                Gauge gauge, ServiceQueue& service, std::function<void(std::string)> on_lost)
      : loop_(loop), options_(options), pool_(pool), stream_(stream), in_(in), driver_(driver),
        fetcher_(fetcher), gauge_(std::move(gauge)), service_(service),
        on_lost_(std::move(on_lost)), beat_(loop), keep_alive_(loop) {}

  //! Connects and registers; the outcome is a service event.
  void start(std::string address) {
    address_ = std::move(address);
    spawn(enroll());
  }
  //! Python is set up: tell the scheduler that we run, read its stream, send heartbeats.
  void run();
  void send_status(std::string_view status, std::string_view stimulus);
  void offer(HeartbeatOffer offer) { offer_ = std::move(offer); }
  Slice metrics() { return metrics_map(gauge_.read(loop_.now())); }
  //! Says goodbye and closes the stream.
  void close();

 private:
  protocol::Async<void> enroll();
  protocol::Async<void> read_stream();
  protocol::Async<void> heartbeat();
  protocol::OutMessage registration();
  protocol::OutMessage heartbeat_message();
  void not_registered(ServiceEvent::Kind kind, std::string text);
  void give_up_dialling();
  protocol::WorkerMetrics measure();
  void on_answer(double sent, const protocol::HeartbeatReply& reply);
  void beat_every(double seconds);

  protocol::Loop& loop_;
  const Options& options_;
  protocol::RpcPool& pool_;
  protocol::StreamSender& stream_;
  StreamIn& in_;
  Driver& driver_;
  Fetcher& fetcher_;
  Gauge gauge_;
  ServiceQueue& service_;
  std::function<void(std::string)> on_lost_;
  protocol::Timer beat_;
  protocol::Timer keep_alive_;
  protocol::Connection::Ref dialling_;  //!< does not stand yet
  protocol::Connection::Ref connection_;
  std::string address_;
  HeartbeatOffer offer_;
  double interval_ = 0;
  bool beating_ = false;
  bool closed_ = false;
};

}  // namespace worker
