//! Writing, reading and exchanging the first maps; see handshake.h.
#include "protocol/net/handshake.h"

#include <utility>

#include "protocol/wire/message.h"
#include "protocol/wire/writer.h"

namespace protocol {

OutMessage write_hello(const Hello& hello) {
  MessageWriter out;
  out.map(hello.rask != 0 ? 4 : 3);
  out.field("compression");
  if (hello.compression.empty()) {
    out.nil();
  } else {
    out.str(hello.compression);
  }
  out.field("python");
  out.array(3);
  for (const std::int64_t part : hello.python) out.integer(part);
  out.field("pickle-protocol");
  out.integer(hello.pickle_protocol);
  if (hello.rask != 0) {
    out.field("rask");
    out.integer(hello.rask);
  }
  return out.finish();
}

Result<Hello> parse_hello(const Frames& frames) {
  Message message;
  if (auto parsed = message.reset(frames); !parsed) return parsed.error();
  const Value root = message.root();
  if (!root.is_map()) return Error{Fault::bad_type, "handshake is not a map"};
  const auto pickle_protocol = root.find("pickle-protocol").as_int();
  if (!pickle_protocol) {
    return Error{Fault::bad_type,
                 "handshake without pickle-protocol; the Dask versions may not be in sync"};
  }
  Hello out;
  out.compression = root.find("compression").as_str().value_or("");
  out.pickle_protocol = *pickle_protocol;
  out.rask = root.find("rask").as_int().value_or(0);
  std::size_t i = 0;
  for (const Value part : root.find("python").elements()) {
    if (i < out.python.size()) out.python[i++] = part.as_int().value_or(0);
  }
  return out;
}

Async<Result<Hello>> greet(Loop& loop, Connection::Ref connection, Hello mine,
                           std::int64_t deadline_ms) {
  if (connection->same_host()) mine.compression.clear();
  Timer deadline(loop);
  deadline.start(static_cast<std::uint64_t>(deadline_ms), 0, [&connection] {
    connection->abort({Fault::timeout, "no handshake in time"});
  });
  connection->send(write_hello(mine));
  const auto frames = co_await connection->read();
  deadline.stop();
  if (!frames) co_return frames.error();
  auto hello = parse_hello(*frames);
  if (!hello) {
    connection->abort(hello.error());
    co_return hello.error();
  }
  connection->lift_handshake_limits();
  co_return hello;
}

}  // namespace protocol
