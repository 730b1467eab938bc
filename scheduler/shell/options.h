//! The command line of rask-scheduler.
//!
//! The options of `dask scheduler`, plus --config and --python, which the launcher `rask scheduler`
//! passes. Options whose feature comes later are accepted and named once in the log, so that
//! deployment tools can pass what they always pass.
//!
//! Answers to: distributed/cli/dask_scheduler.py.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/base/result.h"

namespace scheduler {

struct Options {
  std::string host;                   //!< empty: all interfaces; may be a URI
  std::optional<std::uint16_t> port;  //!< 0: any free one
  std::string interface;
  std::string protocol;
  std::string scheduler_file;
  std::string pid_file;
  std::optional<double> idle_timeout;  //!< seconds
  std::string config_file;
  std::string python = "python3";
  std::vector<std::string> later;      //!< accepted options that do nothing yet
  bool show_help = false;
  bool show_version = false;
};

//! Reads argv (without the program's name). An error is a sentence for stderr.
protocol::Result<Options> parse_options(const std::vector<std::string>& arguments);

//! "90", "1h", "5 minutes", "100 ms" as seconds. Answers to: dask.utils.parse_timedelta.
protocol::Result<double> parse_seconds(std::string_view text);

std::string help_text();

}  // namespace scheduler
