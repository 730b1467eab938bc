//! Connections on loopback: greeting, limits on those that do not greet, resets at every byte.
#include <catch2/catch.hpp>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "protocol/net/connector.h"
#include "protocol/net/listener.h"
#include "protocol/net/rpc_pool.h"
#include "protocol/net/sender.h"
#include "protocol/wire/writer.h"

using namespace protocol;

namespace {

//! A loop with a listener whose accepted connections and refusals are kept.
struct Lab {
  Loop loop;
  std::vector<Connection::Ref> accepted;
  std::vector<Hello> hellos;
  std::vector<Error> refused;
  std::unique_ptr<Listener> listener;

  explicit Lab(Limits limits = kLimits, std::uint32_t per_host = 32) {
    Listener::Options options;
    options.host = "127.0.0.1";
    options.limits = limits;
    options.handshakes_per_host_max = per_host;
    auto opened = Listener::open(
        loop, options,
        [this](Connection::Ref connection, const Hello& hello) {
          accepted.push_back(std::move(connection));
          hellos.push_back(hello);
        },
        [this](const Address&, const Error& reason) { refused.push_back(reason); });
    REQUIRE(opened);
    listener = std::move(*opened);
  }
  ~Lab() {
    for (auto& connection : accepted) connection->abort({Fault::closed, "end of test"});
    accepted.clear();
    listener.reset();
    // Those who still waited for a connection are told of its end in the loop's next turns.
    for (int i = 0; i < 3; ++i) uv_run(loop.uv(), UV_RUN_NOWAIT);
  }

  //! Turns the loop until the condition holds; the deadline only ends a broken test.
  bool until(const std::function<bool()>& holds) {
    const std::uint64_t end = uv_hrtime() + 10'000'000'000ULL;
    while (!holds() && uv_hrtime() < end) uv_run(loop.uv(), UV_RUN_NOWAIT);
    return holds();
  }

  //! A plain socket connected to the listener.
  int raw_peer() {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(listener->address().port);
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0);
    return fd;
  }
};

std::string bytes_of(const OutMessage& message) {
  std::string out;
  for (const Slice& piece : message.pieces) out += piece.view();
  return out;
}

OutMessage text_message(std::string_view text) {
  MessageWriter writer;
  writer.str(text);
  return writer.finish();
}

bool closed_by_listener(int fd) {
  char byte;
  ssize_t got;
  while ((got = ::recv(fd, &byte, 1, MSG_DONTWAIT)) > 0) {
  }
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

Async<void> call_into(RpcPool& pool, RpcPool::Call call, std::optional<Result<Frames>>& out) {
  out = co_await pool.call(std::move(call));
}

Async<void> read_into(Connection::Ref connection, std::vector<Frames>& out) {
  while (true) {
    auto message = co_await connection->read();
    if (!message) co_return;
    out.push_back(std::move(*message));
  }
}

Async<void> echo(Connection::Ref connection) {
  while (true) {
    auto message = co_await connection->read();
    if (!message) co_return;
    connection->send(frame_message(*message));
  }
}

}  // namespace

TEST_CASE("two peers greet and learn each other's values", "[net]") {
  Lab lab;
  std::optional<Result<Dialled>> dialled;
  DialOptions options;
  options.hello.pickle_protocol = 4;
  spawn([](Loop& loop, std::string address, DialOptions with,
           std::optional<Result<Dialled>>& out) -> Async<void> {
    out = co_await dial(loop, address, with);
  }(lab.loop, lab.listener->address().text(), options, dialled));
  REQUIRE(lab.until([&] { return dialled && lab.accepted.size() == 1; }));
  REQUIRE(dialled->ok());
  CHECK(lab.hellos[0].pickle_protocol == 4);
  CHECK(lab.hellos[0].compression.empty());
  CHECK((**dialled).hello.pickle_protocol == 5);
  CHECK((**dialled).hello.rask == kRaskDialect);
  CHECK((**dialled).connection->same_host());
  CHECK(lab.listener->handshakes() == 0);
  (**dialled).connection->abort({Fault::closed, "end of test"});
}

TEST_CASE("a stock handshake without the rask key is a stock peer", "[net]") {
  Hello stock;
  stock.rask = 0;
  stock.compression = "lz4";
  FrameReader reader;
  const std::string bytes = bytes_of(write_hello(stock));
  const auto space = reader.prepare();
  std::copy(bytes.begin(), bytes.end(), space.data);
  reader.commit(bytes.size());
  Frames frames;
  REQUIRE(*reader.next(frames));
  const auto hello = parse_hello(frames);
  REQUIRE(hello);
  CHECK(hello->rask == 0);
  CHECK(hello->compression == "lz4");
}

TEST_CASE("a long message right behind the greeting is read by the limits of those that greeted", "[net]") {
  Lab lab;
  const int fd = lab.raw_peer();
  const OutMessage second = text_message(std::string(2 * kLimits.handshake_bytes_max, 'x'));
  std::string bytes = bytes_of(write_hello(Hello{}));
  bytes += bytes_of(second) + bytes_of(text_message("third"));
  REQUIRE(::send(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  REQUIRE(lab.until([&] { return lab.accepted.size() == 1; }));
  std::vector<Frames> messages;
  spawn(read_into(lab.accepted[0], messages));
  CHECK(lab.until([&] { return messages.size() == 2; }));
  CHECK(lab.refused.empty());
  ::close(fd);
}

TEST_CASE("garbage and HTTP on the port are refused within one read", "[net][X1]") {
  Lab lab;
  for (const std::string_view junk :
       {std::string_view("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        std::string_view("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")}) {
    const int fd = lab.raw_peer();
    REQUIRE(::send(fd, junk.data(), junk.size(), 0) == static_cast<ssize_t>(junk.size()));
    const std::size_t before = lab.refused.size();
    CHECK(lab.until([&] { return lab.refused.size() == before + 1 && closed_by_listener(fd); }));
    ::close(fd);
  }
  CHECK(lab.accepted.empty());
}

TEST_CASE("a message that is not a handshake map is refused", "[net][X1]") {
  Lab lab;
  const int fd = lab.raw_peer();
  const std::string bytes = bytes_of(text_message("hello"));
  REQUIRE(::send(fd, bytes.data(), bytes.size(), 0) > 0);
  CHECK(lab.until([&] { return lab.refused.size() == 1 && closed_by_listener(fd); }));
  ::close(fd);
}

TEST_CASE("a connection that does not greet in time is closed", "[net][X6]") {
  Limits limits;
  limits.handshake_deadline_ms = 1;
  Lab lab(limits);
  const int fd = lab.raw_peer();
  CHECK(lab.until([&] { return lab.refused.size() == 1 && closed_by_listener(fd); }));
  CHECK(lab.refused[0].fault == Fault::timeout);
  CHECK(lab.listener->handshakes() == 0);
  ::close(fd);
}

TEST_CASE("connections that do not greet are limited per host, greeted ones are not", "[net][X6]") {
  Lab lab(kLimits, 2);
  const int first = lab.raw_peer();
  const int second = lab.raw_peer();
  REQUIRE(lab.until([&] { return lab.listener->handshakes() == 2; }));
  const int third = lab.raw_peer();
  CHECK(lab.until([&] { return lab.refused.size() == 1 && closed_by_listener(third); }));
  const std::string hello = bytes_of(write_hello({}));
  REQUIRE(::send(first, hello.data(), hello.size(), 0) > 0);
  CHECK(lab.until([&] { return lab.accepted.size() == 1; }));
  const int fourth = lab.raw_peer();
  CHECK(lab.until([&] { return lab.listener->handshakes() == 2; }));
  for (const int fd : {first, second, third, fourth}) ::close(fd);
}

TEST_CASE("a reset at every byte of a message ends that connection only", "[net][N5]") {
  Lab lab;
  const std::string hello = bytes_of(write_hello({}));
  const std::string whole = bytes_of(text_message("a message of some length"));
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    const int fd = lab.raw_peer();
    const std::string sent = hello + whole.substr(0, cut);
    REQUIRE(::send(fd, sent.data(), sent.size(), 0) == static_cast<ssize_t>(sent.size()));
    REQUIRE(lab.until([&] { return lab.accepted.size() == 1; }));
    std::vector<Frames> got;
    spawn(read_into(lab.accepted[0], got));
    const linger hard{1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    ::shutdown(fd, SHUT_WR);
    REQUIRE(lab.until([&] { return lab.accepted[0]->closed(); }));
    REQUIRE(lab.until([&] { return cut < whole.size() || got.size() == 1; }));
    CHECK(got.size() == (cut == whole.size() ? 1 : 0));
    if (cut > 0 && cut < whole.size()) {
      CHECK(lab.accepted[0]->reason().where == "in the middle of a message");
    }
    ::close(fd);
    lab.accepted.clear();
    uv_run(lab.loop.uv(), UV_RUN_NOWAIT);
  }
}

TEST_CASE("a pool asks, keeps the connection and uses it again", "[net][pool]") {
  Lab lab;
  RpcPool pool(lab.loop, {});
  for (int round = 0; round < 3; ++round) {
    std::optional<Result<Frames>> answer;
    spawn(call_into(pool, {lab.listener->address().text(), text_message("ping"), {}, true}, answer));
    REQUIRE(lab.until([&] {
      if (round == 0 && lab.accepted.size() == 1 && !answer && lab.hellos.size() == 1) {
        lab.hellos.clear();
        spawn(echo(lab.accepted[0]));
      }
      return answer.has_value();
    }));
    REQUIRE(answer->ok());
    CHECK((**answer)[0].view().substr(1) == "ping");
  }
  CHECK(lab.accepted.size() == 1);
  CHECK(pool.idle() == 1);
}

TEST_CASE("a question without an answer in time fails and its connection is not kept",
          "[net][pool]") {
  Lab lab;
  RpcPool pool(lab.loop, {});
  std::optional<Result<Frames>> answer;
  spawn(call_into(
      pool, {lab.listener->address().text(), text_message("ping"), Duration::ms(1), true}, answer));
  REQUIRE(lab.until([&] { return answer.has_value(); }));
  CHECK(answer->error().fault == Fault::timeout);
  CHECK(pool.idle() == 0);
}

TEST_CASE("a pool that ends fails the questions under way, greeted or not", "[net][pool]") {
  Lab lab;
  RpcPool pool(lab.loop, {});
  const auto ask = [&](std::optional<Result<Frames>>& answer) {
    spawn(call_into(pool, {lab.listener->address().text(), text_message("ping"), {}, true}, answer));
  };
  std::optional<Result<Frames>> greeted, connecting, late;
  ask(greeted);
  REQUIRE(lab.until([&] { return lab.accepted.size() == 1; }));
  ask(connecting);
  pool.end();
  ask(late);
  REQUIRE(lab.until([&] { return greeted && connecting && late; }));
  for (const auto* answer : {&greeted, &connecting, &late}) CHECK(!(*answer)->ok());
}

TEST_CASE("a pool that ends while a name is looked up connects to nobody", "[net][pool]") {
  Lab lab;
  RpcPool pool(lab.loop, {});
  const std::string named = "tcp://localhost:" + std::to_string(lab.listener->address().port);
  std::optional<Result<Frames>> answer;
  spawn(call_into(pool, {named, text_message("ping"), {}, true}, answer));
  pool.end();
  lab.loop.finish_pool_work();
  REQUIRE(answer);
  CHECK_FALSE(answer->ok());
  CHECK(lab.accepted.empty());
}

TEST_CASE("what follows work on the thread pool is run before its owner goes", "[net][loop]") {
  Loop loop;
  int done = 0;
  for (int i = 0; i < 20; ++i) loop.offload([] {}, [&] { ++done; });
  loop.finish_pool_work();
  CHECK(done == 20);
}

TEST_CASE("ops sent while a write is in flight leave as one message", "[net][outbox]") {
  Lab lab;
  const int fd = lab.raw_peer();
  const std::string hello = bytes_of(write_hello({}));
  REQUIRE(::send(fd, hello.data(), hello.size(), 0) > 0);
  REQUIRE(lab.until([&] { return lab.accepted.size() == 1; }));
  StreamSender sender;
  sender.attach(lab.accepted[0]);
  // Larger than what the kernel buffers, so that the first write cannot finish at once.
  const std::string big(64u << 20, 'x');
  sender.op().bin(big);
  uv_run(lab.loop.uv(), UV_RUN_NOWAIT);
  for (int i = 0; i < 100; ++i) {
    sender.op().integer(i);
    uv_run(lab.loop.uv(), UV_RUN_NOWAIT);
  }
  FrameReader reader(FrameReader::Profile::established);
  std::vector<Frames> messages;
  REQUIRE(lab.until([&] {
    const auto space = reader.prepare();
    const ssize_t got = ::recv(fd, space.data, space.size, MSG_DONTWAIT);
    if (got > 0) reader.commit(static_cast<std::size_t>(got));
    Frames frames;
    while (*reader.next(frames)) messages.push_back(std::exchange(frames, {}));
    return messages.size() == 3;
  }));
  CHECK(messages[1][0].size() == big.size() + 10);
  CHECK(messages[2][0].size() == 5 + 100);
  sender.detach();
  ::close(fd);
}

TEST_CASE("a peer with an interval waits as long as its pace says", "[net][outbox]") {
  Lab lab;
  const int fd = lab.raw_peer();
  const std::string hello = bytes_of(write_hello({}));
  REQUIRE(::send(fd, hello.data(), hello.size(), 0) > 0);
  REQUIRE(lab.until([&] { return lab.accepted.size() == 1; }));
  StreamSender sender;
  sender.attach(lab.accepted[0]);
  // Long enough that only the pace, never the clock, decides what this test sees.
  sender.set_interval(lab.loop, {600'000, 1'200'000, 1'200'000});
  const auto arrived = [&] {
    for (int i = 0; i < 20; ++i) uv_run(lab.loop.uv(), UV_RUN_NOWAIT);
    return sender.unsent_bytes() == 0;
  };
  const auto send = [&](Pace pace) {
    sender.set_pace(pace);
    sender.op().integer(1);
    return arrived();
  };
  CHECK(send(Pace::at_once));
  CHECK_FALSE(send(Pace::relaxed));
  CHECK_FALSE(send(Pace::steady));
  CHECK(send(Pace::at_once));  // and with it what had been left
  sender.detach();
  ::close(fd);
}

TEST_CASE("addresses are parsed and printed as Dask writes them", "[net][address]") {
  CHECK(parse_address("tcp://1.2.3.4:80")->text() == "tcp://1.2.3.4:80");
  CHECK(parse_address("1.2.3.4:80")->text() == "tcp://1.2.3.4:80");
  CHECK(parse_address("tcp://[::1]:80")->host == "::1");
  CHECK(parse_address("tcp://[::1]:80")->text() == "tcp://[::1]:80");
  CHECK(parse_address("::1", 8786)->text() == "tcp://[::1]:8786");
  CHECK(parse_address("tls://host")->scheme == "tls");
  CHECK(parse_address("host", 8786)->port == 8786);
  CHECK_FALSE(parse_address("host:99999"));
  CHECK_FALSE(parse_address("host:x"));
  CHECK_FALSE(parse_address("tcp://[::1"));
  CHECK(is_numeric_host("127.0.0.1"));
  CHECK(is_numeric_host("fe80::1%eth0"));
  CHECK_FALSE(is_numeric_host("localhost"));
}
