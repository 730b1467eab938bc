//! Messages of the worker stream as events: the way from bytes to the core.
//!
//! One reader per worker stream; it keeps the lists of the last message so that the next one
//! allocates nothing. What it hands on borrows from the message for the duration of the step. An op
//! that is unknown, or not a worker's to send, is an error of that connection.
//!
//! Answers to: the worker_handlers of distributed/scheduler.py.
#pragma once

#include <string_view>
#include <vector>

#include "protocol/base/result.h"
#include "protocol/wire/message.h"
#include "protocol/wire/messages_worker.h"
#include "protocol/wire/ops.h"
#include "scheduler/core/events.h"

namespace scheduler {

class Server;

class WorkerReader {
 public:
  WorkerReader(Server& server, WorkerId worker) : server_(server), worker_(worker) {}

  //! Acts on one op-map of a batch. An error closes the stream.
  protocol::Status act(const protocol::Message& message, protocol::Value op, protocol::Op kind);

 private:
  protocol::Status on_task_finished(const protocol::Message& message, protocol::Value op);
  protocol::Status on_dense_finished(const protocol::Message& message, protocol::Value op);
  protocol::Status on_task_erred(const protocol::Message& message, protocol::Value op);
  protocol::Status on_release_worker_data(const protocol::Message& message, protocol::Value op);
  protocol::Status on_add_keys(const protocol::Message& message, protocol::Value op);
  protocol::Status on_request_refresh(const protocol::Message& message, protocol::Value op);
  protocol::Status on_steal_response(const protocol::Message& message, protocol::Value op);
  protocol::Status on_long_running(const protocol::Message& message, protocol::Value op);
  protocol::Status on_reschedule(const protocol::Message& message, protocol::Value op);
  protocol::Status on_status_change(const protocol::Message& message, protocol::Value op);
  protocol::Status on_log_event(const protocol::Message& message, protocol::Value op);
  std::span<const StartStop> spans(const std::vector<protocol::StartStop>& from);

  Server& server_;
  WorkerId worker_;
  protocol::TaskFinished finished_;
  protocol::TaskErred erred_;
  std::vector<StartStop> spans_;
  struct NumberedType {
    Slice pickle;
    std::string name;
  };
  std::vector<NumberedType> types_;  //!< of results, as a rask worker numbered them from 1
};

//! Dask's name of a worker status, and back.
std::string_view status_name(WorkerStatus status);
std::optional<WorkerStatus> parse_status(std::string_view name);

}  // namespace scheduler
