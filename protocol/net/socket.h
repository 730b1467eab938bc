//! Socket options and name resolution, as stock Dask sets and does them.
//!
//! Answers to: distributed/comm/tcp.py, set_tcp_timeout.
#pragma once

#include <uv.h>

#include <string>

#include "protocol/base/result.h"
#include "protocol/net/address.h"
#include "protocol/net/async.h"
#include "protocol/net/loop.h"

namespace protocol {

//! No delay, keepalive and the kernel's own timeout for unacknowledged data (30 s).
void set_socket_options(uv_tcp_t* socket, int timeout_seconds = 30);

//! Local and remote end of a connected socket; the host is empty if the peer is gone already.
Address local_address(const uv_tcp_t* socket);
Address remote_address(const uv_tcp_t* socket);

//! The IP of a host name, looked up on the thread pool. Numeric hosts come back at once.
Async<Result<std::string>> resolve_host(Loop& loop, std::string host);

}  // namespace protocol
