//! Opens connections to other peers.
//!
//! `tls://` is refused here, in one place: it is not supported yet, and a peer that asked for
//! encryption must never be spoken to without.
//!
//! Answers to: distributed/comm/core.py, connect.
#pragma once

#include <functional>
#include <string>

#include "protocol/base/result.h"
#include "protocol/net/async.h"
#include "protocol/net/connection.h"
#include "protocol/net/handshake.h"

namespace protocol {

struct DialOptions {
  Hello hello;
  std::uint64_t timeout_ms = 30'000;  //!< for the connection and, again, for the handshake
  int tcp_timeout_seconds = 30;
  std::function<void(const Connection::Ref&)> begun = nullptr;  //!< told of the connection before it stands
};

struct Dialled {
  Connection::Ref connection;
  Hello hello;  //!< what the peer said
};

//! Connects to an address such as tcp://host:port and greets.
Async<Result<Dialled>> dial(Loop& loop, std::string address, DialOptions options);

}  // namespace protocol
