//! What a worker says about itself in every heartbeat, read without Python.
//!
//! Answers to: distributed/worker.py, Worker.get_metrics; distributed/system_monitor.py.
#pragma once

#include <cstdint>

#include "protocol/base/time.h"
#include "protocol/wire/messages_register.h"
#include "worker/core/core.h"
#include "worker/shell/fetcher.h"
#include "worker/shell/peer_server.h"
#include "worker/shell/store.h"

namespace worker {

struct MetricsSources {
  const Core& core;
  const Store& store;
  const Fetcher& fetcher;
  const PeerServer& server;
};

//! The metrics as a msgpack map of their own.
Slice metrics_map(const protocol::WorkerMetrics& metrics);

//! Reads the metrics; the share of the CPU is measured between two readings.
class Gauge {
 public:
  explicit Gauge(MetricsSources sources) : from_(sources) {}
  protocol::WorkerMetrics read(protocol::Now now);

 private:
  double cpu_percent(protocol::Now now);

  MetricsSources from_;
  double last_cpu_ = 0;
  double last_wall_ = 0;
};

}  // namespace worker
