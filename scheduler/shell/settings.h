//! Dask's resolved configuration, as far as the scheduler process uses it.
//!
//! The launcher reads files and environment with dask.config and hands over one flat map; so the
//! native side never parses "5 minutes". Without that map the values are stock's defaults.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>

#include "protocol/base/bytes.h"
#include "protocol/base/result.h"
#include "scheduler/core/core.h"
#include "scheduler/shell/log.h"

namespace scheduler {

struct Settings {
  Config core;
  double worker_ttl = 300;             //!< seconds without a heartbeat; 0: for ever
  double rask_worker_ttl = 60;         //!< the same for workers whose heartbeat needs no Python
  double idle_timeout = 0;             //!< seconds; 0: never
  double events_cleanup_delay = 3600;  //!< seconds a gone peer's events are kept
  std::size_t events_kept = 1000;      //!< per topic
  double connect_timeout = 30;         //!< seconds
  int tcp_timeout = 30;                //!< seconds
  int backlog = 2048;
  bool reuse_broadcast = true;
  double adaptive_target_duration = 5;
  std::string contact_address;
  std::string temporary_directory;     //!< empty: the system's
  std::unordered_set<std::string> blocked_handlers;
  std::string log_format = Log::kStockFormat;
  std::size_t log_length = 10000;
};

//! Reads the flat map. Unknown keys are left alone; a value of the wrong type is an error.
protocol::Result<Settings> parse_settings(protocol::ByteView msgpack);

//! The whole of a file.
protocol::Result<std::string> read_file(const std::string& path);

}  // namespace scheduler
