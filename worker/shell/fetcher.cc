#include "worker/shell/fetcher.h"

#include <algorithm>
#include <utility>

#include "protocol/wire/message.h"
#include "protocol/wire/messages_rpc.h"
#include "protocol/wire/writer.h"

namespace worker {

using protocol::Async;
using protocol::Connection;
using protocol::Frames;
using protocol::MessageWriter;
using protocol::Result;

namespace {

constexpr std::uint64_t kMeasuredFrom = 1'000'000;  // smaller transfers measure latency, not rate

protocol::OutMessage question(const std::vector<Key>& keys, const std::string& who) {
  protocol::GetDataCall call;
  for (const Key& key : keys) call.keys.push_back(key);
  call.who = who;
  MessageWriter writer;
  write(writer, call);
  return writer.finish();
}

protocol::OutMessage thanks() {
  MessageWriter writer;
  protocol::write_ok(writer);
  return writer.finish();
}

std::uint64_t bytes_of(const Frames& frames) {
  std::uint64_t bytes = 0;
  for (const Slice& frame : frames) bytes += frame.size();
  return bytes;
}

}  // namespace

Async<void> Fetcher::run(PeerId peer, std::string address, std::vector<Key> keys) {
  const double start = loop_.now().wall;
  Result<Connection::Ref> connection = co_await pool_.take(address);
  if (!connection) {
    driver_.step(GatherDepNetworkFailure{peer}, "gather-dep-network-failure");
    co_return;
  }
  (*connection)->send(question(keys, address_));
  Result<Frames> answer = co_await (*connection)->read();
  if (!answer) {
    driver_.step(GatherDepNetworkFailure{peer}, "gather-dep-network-failure");
    co_return;
  }
  take_answer(peer, std::move(*answer), *connection, address, start);
}

void Fetcher::take_answer(PeerId peer, Frames frames, Connection::Ref connection,
                          const std::string& address, double start) {
  const std::uint64_t bytes = bytes_of(frames);
  protocol::Message message;
  if (auto status = message.reset(std::move(frames)); !status) {
    connection->abort(status.error());
    driver_.gather_failed(peer, "answer of " + address + ": " + status.error().text());
    return;
  }
  const protocol::Value status = message.root().find("status");
  if (status.equals("busy")) {
    pool_.give_back(address, std::move(connection));
    driver_.step(GatherDepBusy{peer}, "gather-dep-busy");
    return;
  }
  if (!status.equals("OK")) {
    connection->abort({protocol::Fault::bad_type, "get_data answered with an error"});
    driver_.gather_failed(peer, "get_data of " + address + " failed: " +
                                    std::string(message.root().find("exception_text")
                                                    .as_str().value_or("unexpected answer")));
    return;
  }
  std::vector<std::pair<Key, PayloadRef>> data;
  for (const protocol::Entry entry : message.root().find("data").entries()) {
    const auto key = message.key(entry.key);
    const auto payload = message.payload(entry.value);
    if (!key || !payload) continue;  // like a key that is not there: asked for elsewhere
    data.emplace_back(Key{std::string(key->bytes)}, *payload);
  }
  connection->send(thanks());
  pool_.give_back(address, std::move(connection));
  const double stop = loop_.now().wall;
  if (bytes >= kMeasuredFrom) measure(address, bytes, stop - start);
  driver_.gathered(peer, std::move(data), Transfer{start, stop, address});
}

void Fetcher::measure(const std::string& address, std::uint64_t bytes, double seconds) {
  const double bandwidth = static_cast<double>(bytes) / std::max(seconds, 0.001);
  bandwidth_ = 0.95 * bandwidth_ + 0.05 * bandwidth;
  Rate& rate = rates_[address];
  rate.first += bandwidth;
  ++rate.second;
}

}  // namespace worker
