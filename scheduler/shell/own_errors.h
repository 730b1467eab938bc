//! Errors the scheduler itself gives tasks, as the exceptions stock raises for them.
#pragma once

#include "protocol/base/payload.h"
#include "scheduler/core/task.h"

namespace scheduler {

struct ErrorPayloads {
  protocol::PayloadRef exception;
  protocol::PayloadRef traceback;  //!< null: nil
};

//! Why a task erred: the exception of a worker, or one made here.
ErrorPayloads error_payloads(const Task& erred);

}  // namespace scheduler
