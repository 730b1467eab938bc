//! Accepting and greeting; see listener.h.
#include "protocol/net/listener.h"

#include <netinet/in.h>

#include <cstring>
#include <utility>

#include "protocol/net/socket.h"

namespace protocol {
namespace {

constexpr std::uint64_t kPauseWithoutDescriptorsMs = 100;

Result<sockaddr_storage> bind_address(const Listener::Options& options) {
  sockaddr_storage out{};
  const std::string host = options.host.empty() ? "0.0.0.0" : options.host;
  if (uv_ip4_addr(host.c_str(), options.port, reinterpret_cast<sockaddr_in*>(&out)) == 0 ||
      uv_ip6_addr(host.c_str(), options.port, reinterpret_cast<sockaddr_in6*>(&out)) == 0) {
    return out;
  }
  return Error{Fault::bad_type, "'" + host + "' is not an IP address to listen on"};
}

}  // namespace

struct Listener::State : std::enable_shared_from_this<Listener::State> {
  State(Loop& the_loop, Options the_options)
      : loop(the_loop), options(std::move(the_options)), pause(std::make_unique<Timer>(the_loop)) {}

  Loop& loop;
  Options options;
  OnAccept on_accept;
  OnRefused on_refused;
  uv_tcp_t socket;
  std::shared_ptr<State> self;  //!< until libuv has closed the socket
  Address address;
  std::unique_ptr<Timer> pause;  //!< gone once closed
  bool closed = false;
  std::uint32_t handshakes = 0;
  std::unordered_map<std::string, std::uint32_t> handshakes_of;
  std::unordered_map<Connection*, Connection::Ref> ungreeted;

  void on_connection(int status);
  void accept_one();
  static Async<void> welcome(std::shared_ptr<State> state, Connection::Ref connection);
};

Result<std::unique_ptr<Listener>> Listener::open(Loop& loop, Options options, OnAccept on_accept,
                                                 OnRefused on_refused) {
  const auto where = bind_address(options);
  if (!where) return where.error();
  const auto state = std::make_shared<State>(loop, std::move(options));
  state->on_accept = std::move(on_accept);
  state->on_refused = std::move(on_refused);
  state->self = state;
  uv_tcp_init(loop.uv(), &state->socket);
  state->socket.data = state.get();
  std::unique_ptr<Listener> listener(new Listener(state.get()));
  int status = uv_tcp_bind(&state->socket, reinterpret_cast<const sockaddr*>(&*where), 0);
  if (status == 0) {
    status = uv_listen(reinterpret_cast<uv_stream_t*>(&state->socket), state->options.backlog,
                       [](uv_stream_t* server, int result) {
                         static_cast<State*>(server->data)->on_connection(result);
                       });
  }
  if (status != 0) {
    return Error{Fault::io, "listening on " + state->options.host + ":" +
                                std::to_string(state->options.port) + ": " + uv_strerror(status)};
  }
  state->address = local_address(&state->socket);
  return listener;
}

Listener::~Listener() {
  State& state = *state_;
  state.closed = true;
  state.pause.reset();
  // A peer whose greeting is never answered would wait for ever.
  auto ungreeted = std::exchange(state.ungreeted, {});
  for (auto& [raw, connection] : ungreeted) connection->abort({Fault::closed, "shutting down"});
  uv_close(reinterpret_cast<uv_handle_t*>(&state.socket), [](uv_handle_t* handle) {
    const auto last = std::move(static_cast<State*>(handle->data)->self);
  });
}

const Address& Listener::address() const { return state_->address; }

std::size_t Listener::handshakes() const { return state_->handshakes; }

void Listener::State::on_connection(int status) {
  if (closed) return;
  if (status == 0) {
    accept_one();
  } else if (status == UV_EMFILE || status == UV_ENFILE) {
    // The connection stays in the backlog; libuv tries again when the socket is polled next.
    if (!pause->active()) {
      on_refused({}, {Fault::io, "out of file descriptors; accepting stops for a moment"});
    }
    pause->start(kPauseWithoutDescriptorsMs, 0, [] {});
  }
}

void Listener::State::accept_one() {
  const auto connection = Connection::create(loop);
  auto* server = reinterpret_cast<uv_stream_t*>(&socket);
  if (uv_accept(server, reinterpret_cast<uv_stream_t*>(connection->socket())) != 0) {
    connection->abort({Fault::closed, "not accepted"});
    return;
  }
  connection->start(options.tcp_timeout_seconds);
  std::uint32_t& from_host = handshakes_of[connection->peer().host];
  if (handshakes >= options.limits.handshakes_max || from_host >= options.handshakes_per_host_max) {
    on_refused(connection->peer(), {Fault::too_large, "too many connections that do not greet"});
    if (from_host == 0) handshakes_of.erase(connection->peer().host);
    connection->abort({Fault::too_large, "too many handshakes"});
    return;
  }
  ++handshakes;
  ++from_host;
  ungreeted.emplace(connection.get(), connection);
  spawn(welcome(shared_from_this(), connection));
}

Async<void> Listener::State::welcome(std::shared_ptr<State> state, Connection::Ref connection) {
  const std::string host = connection->peer().host;
  const auto hello = co_await greet(state->loop, connection, state->options.hello,
                                    state->options.limits.handshake_deadline_ms);
  state->ungreeted.erase(connection.get());
  --state->handshakes;
  if (--state->handshakes_of[host] == 0) state->handshakes_of.erase(host);
  if (state->closed) {
    connection->abort({Fault::closed, "shutting down"});
  } else if (!hello) {
    state->on_refused(connection->peer(), hello.error());
  } else {
    state->on_accept(connection, *hello);
  }
}

}  // namespace protocol
