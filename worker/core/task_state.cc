//! Names of task states.
#include "worker/core/task_state.h"

#include <array>

namespace worker {

std::string_view task_state_name(TaskState state) {
  static constexpr std::array<std::string_view, kTaskStates> kNames = {
      "released", "waiting", "ready",  "constrained", "executing",   "long-running", "fetch",
      "flight",   "missing", "memory", "error",       "cancelled",   "resumed",      "rescheduled",
      "forgotten"};
  return kNames[static_cast<std::size_t>(state)];
}

}  // namespace worker
