//! The sending half of a stream: op-maps that leave as one array per write.
//!
//! Ops gather in a batch; the batch is closed and written when the turn ends and no write is in
//! flight. So an idle peer gets an op at once, and a busy one gets many ops in one message.
//!
//! Answers to: distributed/batched.py, BatchedSend.
#pragma once

#include <string>

#include "protocol/net/connection.h"
#include "protocol/wire/writer.h"

namespace protocol {

class StreamSender {
 public:
  StreamSender() = default;
  StreamSender(const StreamSender&) = delete;
  StreamSender& operator=(const StreamSender&) = delete;
  ~StreamSender() { detach(); }

  //! Ops sent so far and from now on go to this connection. It must not outlive the sender
  //! unless detached.
  void attach(Connection::Ref connection) {
    connection_ = std::move(connection);
    connection_->before_flush([this] { close_batch(); });
    if (!batch_.empty()) connection_->flush_soon();
  }
  void detach() {
    if (connection_) connection_->before_flush(nullptr);
    connection_ = nullptr;
  }

  //! The writer for exactly one more op-map.
  MessageWriter& op() {
    if (connection_) {
      connection_->flush_soon();
      if (batch_.bytes() > kLimits.outbox_bytes_max) {
        connection_->abort({Fault::too_large, "the peer does not read: " +
                                                  std::to_string(batch_.bytes()) + " bytes wait"});
      }
    }
    return batch_.next();
  }

  const Connection::Ref& connection() const { return connection_; }

 private:
  void close_batch() {
    if (!batch_.empty()) connection_->send(batch_.close());
  }

  Connection::Ref connection_;
  StreamBatch batch_;
};

}  // namespace protocol
