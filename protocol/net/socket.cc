//! Socket options, ends of a socket, resolution of names; see socket.h.
#include "protocol/net/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>

namespace protocol {
namespace {

template <class Get>
Address end_of(const uv_tcp_t* socket, Get get) {
  sockaddr_storage storage{};
  int size = sizeof storage;
  if (get(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  return address_of(reinterpret_cast<const sockaddr*>(&storage));
}

}  // namespace

void set_socket_options(uv_tcp_t* socket, int timeout_seconds) {
  uv_tcp_nodelay(socket, 1);
  uv_os_fd_t fd;
  if (uv_fileno(reinterpret_cast<const uv_handle_t*>(socket), &fd) != 0) return;
  // Stock's arithmetic: ten probes fill what the idle time leaves of the timeout.
  constexpr int probes = 10;
  const int interval = std::max(1, (timeout_seconds - std::max(2, timeout_seconds / 4)) / probes);
  const int idle = std::max(1, timeout_seconds - interval * probes);
  const int on = 1;
  const unsigned user_timeout_ms = static_cast<unsigned>(timeout_seconds) * 1000;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, sizeof user_timeout_ms);
}

Address local_address(const uv_tcp_t* socket) { return end_of(socket, uv_tcp_getsockname); }

Address remote_address(const uv_tcp_t* socket) { return end_of(socket, uv_tcp_getpeername); }

Async<Result<std::string>> resolve_host(Loop& loop, std::string host) {
  if (is_numeric_host(host)) co_return Result<std::string>(std::move(host));
  struct Lookup {
    uv_getaddrinfo_t request;
    Completer<Result<std::string>> found;
  };
  auto* lookup = new Lookup;
  lookup->request.data = lookup;
  const Completer<Result<std::string>> found = lookup->found;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  const int status = uv_getaddrinfo(
      loop.uv(), &lookup->request,
      [](uv_getaddrinfo_t* request, int result, addrinfo* list) {
        const std::unique_ptr<Lookup> owned(static_cast<Lookup*>(request->data));
        static_cast<Loop*>(request->loop->data)->pool_work_ends();
        if (result != 0 || list == nullptr) {
          owned->found.complete(Error{Fault::io, uv_strerror(result)});
        } else {
          const addrinfo* best = list;  // as stock: IPv4 if there is one
          while (best->ai_family != AF_INET && best->ai_next != nullptr) best = best->ai_next;
          if (best->ai_family != AF_INET) best = list;
          owned->found.complete(address_of(best->ai_addr).host);
        }
        uv_freeaddrinfo(list);
      },
      host.c_str(), nullptr, &hints);
  if (status != 0) {
    delete lookup;
    co_return Error{Fault::io, uv_strerror(status)};
  }
  loop.pool_work_begins();
  auto answer = co_await found;
  if (!answer) co_return Error{Fault::io, "resolving '" + host + "': " + answer.error().where};
  co_return answer;
}

}  // namespace protocol
