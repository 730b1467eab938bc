//! What the core carries for a task without looking at it (worker::WorkRef).
#pragma once

#include <string>
#include <vector>

#include "worker/shell/border.h"

namespace worker {

//! A transfer that brought inputs of a task; told with its end, for the task stream.
struct Transfer {
  double start = 0;  //!< wall time
  double stop = 0;
  std::string source;
};

struct Work {
  RunSpecRef spec;         //!< null: `packed_spec` must be opened by Python (it is compressed)
  PayloadRef packed_spec;
  PayloadRef annotations;  //!< null: empty
  bool named_executor = false;
  bool lazy = false;  //!< Job::lazy
  std::string span;         //!< Job::span
  mutable std::vector<Transfer> transfers;  //!< so far; not the core's business
};

}  // namespace worker
