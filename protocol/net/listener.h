//! Accepts connections and greets them, within limits on those that have not greeted yet.
//!
//! A connection is handed on only after the handshake. Before that at most
//! `Limits::handshakes_max` exist, and at most a small number from one address: beyond that new
//! ones are closed at once. So a flood of connections that say nothing costs a bounded amount.
//! Out of file descriptors, accepting stops for a moment and everything else goes on.
//!
//! Answers to: distributed/comm/tcp.py, BaseTCPListener.
#pragma once

#include <uv.h>

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "protocol/base/result.h"
#include "protocol/net/connection.h"
#include "protocol/net/handshake.h"
#include "protocol/net/loop.h"

namespace protocol {

class Listener {
 public:
  struct Options {
    std::string host;        //!< IP; empty: all interfaces
    std::uint16_t port = 0;  //!< 0: any free one
    int backlog = 2048;
    int tcp_timeout_seconds = 30;
    Hello hello;
    Limits limits = kLimits;
    std::uint32_t handshakes_per_host_max = 32;
  };
  using OnAccept = std::function<void(Connection::Ref, const Hello&)>;
  //! A connection was refused or failed to greet; the text is for the log.
  using OnRefused = std::function<void(const Address& peer, const Error& reason)>;

  static Result<std::unique_ptr<Listener>> open(Loop& loop, Options options, OnAccept on_accept,
                                                OnRefused on_refused);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const Address& address() const;
  std::size_t handshakes() const;

 private:
  struct State;
  explicit Listener(State* state) : state_(state) {}
  State* state_;  //!< outlives this object until libuv has closed the socket
};

}  // namespace protocol
