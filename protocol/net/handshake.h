//! What two peers tell each other first: one map each way, right after TCP is up.
//!
//! Each side writes its map before it reads the other's. Stock peers ignore keys they do not know,
//! so ours says `rask`; two such peers may then use denser messages. A peer that does not greet in
//! time, or that sends anything else, is closed: nothing else is read from it.
//!
//! Answers to: distributed/comm/core.py, Comm.handshake_info and handshake_configuration.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "protocol/base/result.h"
#include "protocol/net/async.h"
#include "protocol/net/connection.h"

namespace protocol {

//! The version of our own denser messages; 0 is a stock peer.
inline constexpr std::int64_t kRaskDialect = 1;

struct Hello {
  std::string compression;                       //!< empty: none
  std::array<std::int64_t, 3> python = {3, 11, 0};
  std::int64_t pickle_protocol = 5;
  std::int64_t rask = kRaskDialect;
};

OutMessage write_hello(const Hello& hello);
Result<Hello> parse_hello(const Frames& frames);

//! Sends `mine` and waits for the peer's. Fails after `deadline_ms`; the connection is then closed.
//! On success the limits of the handshake are lifted. Towards this machine nothing is compressed.
Async<Result<Hello>> greet(Loop& loop, Connection::Ref connection, Hello mine,
                           std::int64_t deadline_ms);

}  // namespace protocol
