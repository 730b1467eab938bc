//! Pooled connections for questions to other servers: one question at a time on each.
//!
//! Idle connections are kept per address and used again. A connection whose question failed, timed
//! out or was answered out of turn is closed, never kept, so an answer can never be taken for the
//! answer to another question.
//!
//! Answers to: distributed/core.py, ConnectionPool and send_recv.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "protocol/base/result.h"
#include "protocol/base/time.h"
#include "protocol/net/async.h"
#include "protocol/net/connection.h"
#include "protocol/net/connector.h"
#include "protocol/wire/frames.h"

namespace protocol {

class RpcPool {
 public:
  RpcPool(Loop& loop, DialOptions options);
  ~RpcPool() { close(); }
  RpcPool(const RpcPool&) = delete;
  RpcPool& operator=(const RpcPool&) = delete;

  struct Call {
    std::string address;
    OutMessage question;
    std::optional<Duration> timeout;       //!< none: waits as long as the peer lives
    bool keep = true;                      //!< false: the connection is closed afterwards
  };
  //! Asks and waits for the answer.
  Async<Result<Frames>> call(Call call);

  //! A connection to `address` for a conversation of one's own; end it with give_back or abort.
  Async<Result<Connection::Ref>> take(std::string address);
  void give_back(const std::string& address, Connection::Ref connection);

  //! Closes idle connections to an address; it is gone.
  void forget(const std::string& address);
  void close();
  //! Closes; questions under way err in the next turn, and no more are asked. For whoever waits for
  //! an answer when the loop stops would wait for ever, and keep what it holds.
  void end();
  std::size_t idle() const;

 private:
  static constexpr std::size_t kIdlePerAddress = 16;

  Loop& loop_;
  DialOptions options_;
  std::unordered_map<std::string, std::vector<Connection::Ref>> idle_;
  std::vector<std::weak_ptr<Connection>> dialled_;  //!< idle or in use; some are gone
  bool closed_ = false;
  bool ended_ = false;
};

}  // namespace protocol
