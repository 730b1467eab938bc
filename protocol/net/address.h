//! Addresses of Dask peers: `tcp://host:port`, IPv6 in brackets, a bare `host:port`.
//!
//! The canonical string (scheme, numeric host, port) is a worker's identity everywhere, so there is
//! one parser and one printer. Names are resolved elsewhere (resolve.h); this file never blocks.
//!
//! Answers to: distributed/comm/addressing.py.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/base/result.h"

struct sockaddr;

namespace protocol {

struct Address {
  std::string scheme = "tcp";
  std::string host;          //!< without brackets; empty: all interfaces
  std::uint16_t port = 0;

  //! `tcp://127.0.0.1:8786`, `tcp://[::1]:8786`.
  std::string text() const;
  bool operator==(const Address&) const = default;
};

//! Parses `[scheme://]host[:port]`. `default_port` is used when none is given.
Result<Address> parse_address(std::string_view text, std::uint16_t default_port = 0);

//! True for dotted IPv4 and any IPv6 literal.
bool is_numeric_host(std::string_view host);

//! Host and port of a socket address, printed numerically (an IPv4-mapped IPv6 host as IPv4).
Address address_of(const sockaddr* socket_address);

//! The IP this machine uses towards other machines, found without sending anything.
//! Answers to: distributed/utils.py, get_ip.
std::string local_ip();

//! The IP of a network interface such as `eth0`; fails with the list of those that exist.
Result<std::string> interface_ip(std::string_view interface);

}  // namespace protocol
