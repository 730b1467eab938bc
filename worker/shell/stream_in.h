//! Ops of the scheduler's stream as events of the worker core.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <functional>
#include <string>

#include "protocol/base/result.h"
#include "protocol/wire/message.h"
#include "protocol/wire/messages_dense.h"
#include "protocol/wire/messages_worker.h"
#include "worker/shell/driver.h"

namespace worker {

class StreamIn {
 public:
  struct Hooks {
    std::function<void(std::string_view status, std::string_view stimulus)> status_change;
    std::function<void(const std::string& address)> peer_gone;
    std::function<void(std::string reason)> close;
    //! An op that is not native: a plugin's.
    std::function<void(const protocol::Message&, protocol::Value op)> other;
  };
  StreamIn(Driver& driver, Hooks hooks) : driver_(driver), hooks_(std::move(hooks)) {}

  //! Acts on every op of one message, in order. An error ends the stream, as in stock.
  protocol::Status on_message(const protocol::Message& message);

 private:
  protocol::Status on_op(const protocol::Message& message, protocol::Value op);
  protocol::Status on_compute(const protocol::Message& message, protocol::Value op);
  protocol::Status on_dense_compute(const protocol::Message& message, protocol::Value op);
  protocol::Status on_dense_task(const protocol::Message& message, protocol::Value record);
  protocol::Status on_forget(const protocol::Message& message, protocol::Value op);
  protocol::Status on_steal(const protocol::Message& message, protocol::Value op);
  template <class Read, class Make>
  protocol::Status forward(const protocol::Message& message, protocol::Value op, const Make& make);

  Driver& driver_;
  Hooks hooks_;
  protocol::ComputeTask compute_;  //!< reused, so that its lists keep their memory
  std::vector<Replica> replicas_;
  protocol::DenseCompute dense_;
  protocol::DenseTask task_;
  //! Bytes that tasks share, by the number a rask scheduler gave them.
  absl::flat_hash_map<protocol::BlobNumber, protocol::Slice> blobs_;
};

}  // namespace worker
