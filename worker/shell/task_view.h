//! A task of the core as people see it: state dumps and `Worker.state.tasks`.
#pragma once

#include "worker/core/core.h"
#include "worker/shell/border.h"

namespace worker {

TaskView view_task(const Core& core, TaskId id);

}  // namespace worker
