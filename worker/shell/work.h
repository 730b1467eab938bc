//! What the core carries for a task without looking at it (worker::WorkRef), and jobs made of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "worker/shell/runtime.h"
#include "worker/shell/spill_file.h"

namespace worker {

struct Work {
  RunSpecRef spec;         //!< null: `packed_spec` must be opened by Python (it is compressed)
  PayloadRef packed_spec;
  PayloadRef annotations;  //!< null: empty
  bool named_executor = false;
};

//! A job whose inputs may still be on disk; the thread that takes it reads them.
struct PendingJob {
  Job job;
  std::vector<SpillRef> spilled;  //!< one per input, null if the input is in memory
};

}  // namespace worker
