//! Connecting and greeting; see connector.h.
#include "protocol/net/connector.h"

#include <netinet/in.h>

#include <memory>
#include <utility>

#include "protocol/net/socket.h"

namespace protocol {
namespace {

struct Attempt {
  uv_connect_t request;
  Completer<int> done;
};

//! Starts the TCP connection; completes with a libuv status.
Completer<int> connect(const Connection::Ref& connection, const sockaddr_storage& where) {
  auto* attempt = new Attempt;
  attempt->request.data = attempt;
  const Completer<int> done = attempt->done;
  const int status = uv_tcp_connect(&attempt->request, connection->socket(),
                                    reinterpret_cast<const sockaddr*>(&where),
                                    [](uv_connect_t* request, int result) {
                                      const std::unique_ptr<Attempt> ended(
                                          static_cast<Attempt*>(request->data));
                                      ended->done.complete(result);
                                    });
  if (status != 0) {
    delete attempt;
    done.complete(status);
  }
  return done;
}

Error failure(const std::string& address, const std::string& why) {
  return {Fault::io, "connecting to " + address + ": " + why};
}

}  // namespace

Async<Result<Dialled>> dial(Loop& loop, std::string address, DialOptions options) {
  const auto parsed = parse_address(address);
  if (!parsed) co_return failure(address, parsed.error().text());
  if (parsed->scheme != "tcp") {
    co_return failure(address, parsed->scheme + ":// is not supported yet");
  }
  const auto host = co_await resolve_host(loop, parsed->host);
  if (!host) co_return failure(address, host.error().where);
  sockaddr_storage where{};
  if (uv_ip4_addr(host->c_str(), parsed->port, reinterpret_cast<sockaddr_in*>(&where)) != 0 &&
      uv_ip6_addr(host->c_str(), parsed->port, reinterpret_cast<sockaddr_in6*>(&where)) != 0) {
    co_return failure(address, "not an IP address: " + *host);
  }
  const auto connection = Connection::create(loop);
  if (options.begun) options.begun(connection);
  if (connection->closed()) co_return failure(address, "this side ends");
  Timer deadline(loop);
  deadline.start(options.timeout_ms, 0,
                 [&connection] { connection->abort({Fault::timeout, "connecting"}); });
  const int status = co_await connect(connection, where);
  deadline.stop();
  if (status != 0) {
    const std::string why = connection->closed() ? "timed out" : uv_strerror(status);
    connection->abort({Fault::io, why});
    co_return failure(address, why);
  }
  connection->start(options.tcp_timeout_seconds);
  const auto hello = co_await greet(loop, connection, options.hello,
                                    static_cast<std::int64_t>(options.timeout_ms));
  if (!hello) co_return failure(address, hello.error().text());
  co_return Dialled{connection, *hello};
}

}  // namespace protocol
