//! Parsing and printing of peer addresses; see address.h.
#include "protocol/net/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <cstring>

namespace protocol {
namespace {

Result<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (code != std::errc() || end != text.data() + text.size()) {
    return Error{Fault::bad_type, "port '" + std::string(text) + "'"};
  }
  return port;
}

//! Splits `host[:port]`; an unbracketed text with several colons is an IPv6 literal without port.
Status split_host_port(std::string_view text, Address& out) {
  std::string_view port;
  if (!text.empty() && text.front() == '[') {
    const auto close = text.find(']');
    if (close == std::string_view::npos) return Error{Fault::bad_type, "unclosed bracket in address"};
    out.host = text.substr(1, close - 1);
    text.remove_prefix(close + 1);
    if (!text.empty() && text.front() != ':') return Error{Fault::bad_type, "text after bracket"};
    if (!text.empty()) port = text.substr(1);
  } else if (const auto colon = text.rfind(':'); colon == std::string_view::npos) {
    out.host = text;
  } else if (text.find(':') != colon) {
    out.host = text;
  } else {
    out.host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  if (port.empty()) return Done{};
  const auto number = parse_port(port);
  if (!number) return number.error();
  out.port = *number;
  return Done{};
}

}  // namespace

std::string Address::text() const {
  const bool six = host.find(':') != std::string::npos;
  return scheme + "://" + (six ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<Address> parse_address(std::string_view text, std::uint16_t default_port) {
  Address out;
  out.port = default_port;
  if (const auto mark = text.find("://"); mark != std::string_view::npos) {
    out.scheme = text.substr(0, mark);
    text.remove_prefix(mark + 3);
  }
  if (text.size() > 512) return Error{Fault::too_large, "address"};
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= ' ') return Error{Fault::bad_type, "space in address"};
  }
  if (auto split = split_host_port(text, out); !split) return split.error();
  return out;
}

bool is_numeric_host(std::string_view host) {
  unsigned char scratch[sizeof(in6_addr)];
  const std::string copy(host.substr(0, host.find('%')));
  return inet_pton(AF_INET, copy.c_str(), scratch) == 1 ||
         inet_pton(AF_INET6, copy.c_str(), scratch) == 1;
}

Address address_of(const sockaddr* socket_address) {
  Address out;
  char text[INET6_ADDRSTRLEN] = "";
  if (socket_address->sa_family == AF_INET) {
    const auto* four = reinterpret_cast<const sockaddr_in*>(socket_address);
    inet_ntop(AF_INET, &four->sin_addr, text, sizeof text);
    out.port = ntohs(four->sin_port);
  } else if (socket_address->sa_family == AF_INET6) {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(socket_address);
    inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof text);
    out.port = ntohs(six->sin6_port);
  }
  out.host = text;
  if (out.host.starts_with("::ffff:") && out.host.find('.') != std::string::npos) {
    out.host.erase(0, std::strlen("::ffff:"));
  }
  return out;
}

std::string local_ip() {
  // Connecting a datagram socket only picks a route, it sends nothing.
  const int socket_fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket_fd < 0) return "127.0.0.1";
  sockaddr_in there{};
  there.sin_family = AF_INET;
  there.sin_port = htons(80);
  inet_pton(AF_INET, "8.8.8.8", &there.sin_addr);
  sockaddr_in here{};
  socklen_t size = sizeof here;
  const bool found =
      ::connect(socket_fd, reinterpret_cast<const sockaddr*>(&there), sizeof there) == 0 &&
      ::getsockname(socket_fd, reinterpret_cast<sockaddr*>(&here), &size) == 0;
  ::close(socket_fd);
  return found ? address_of(reinterpret_cast<const sockaddr*>(&here)).host : "127.0.0.1";
}

Result<std::string> interface_ip(std::string_view interface) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return Error{Fault::io, "listing network interfaces"};
  std::string found;
  std::string names;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    if (interface == entry->ifa_name && found.empty()) found = address_of(entry->ifa_addr).host;
    names += (names.empty() ? "" : ", ") + std::string(entry->ifa_name);
  }
  freeifaddrs(list);
  if (!found.empty()) return found;
  return Error{Fault::io, "interface '" + std::string(interface) +
                              "' has no IPv4 address; those that have: " + names};
}

}  // namespace protocol
