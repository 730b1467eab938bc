//! What a worker says about itself in every heartbeat, read without Python.
//!
//! Answers to: distributed/worker.py, Worker.get_metrics; distributed/system_monitor.py.
#pragma once

#include <cstdint>

#include "protocol/base/time.h"
#include "protocol/wire/writer.h"
#include "worker/core/core.h"
#include "worker/shell/fetcher.h"
#include "worker/shell/peer_server.h"
#include "worker/shell/store.h"

namespace worker {

//! CPU share and descriptors of this process, measured between two calls.
class ProcessGauge {
 public:
  struct Reading {
    double cpu_percent = 0;
    std::uint64_t memory = 0;
    std::uint64_t descriptors = 0;
  };
  Reading read(protocol::Now now);

 private:
  double last_cpu_ = 0;
  double last_wall_ = 0;
};

struct MetricsSources {
  const Core& core;
  const Store& store;
  const Fetcher& fetcher;
  const PeerServer& server;
};

//! Writes the metrics map.
void write_metrics(protocol::MessageWriter& writer, const MetricsSources& from,
                   const ProcessGauge::Reading& process, protocol::Now now);

}  // namespace worker
