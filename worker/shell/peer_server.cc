#include "worker/shell/peer_server.h"

#include <utility>

#include "protocol/wire/fields.h"
#include "protocol/wire/messages_rpc.h"
#include "protocol/wire/ops.h"
#include "protocol/wire/writer.h"

namespace worker {

using protocol::Async;
using protocol::Frames;
using protocol::Message;
using protocol::MessageWriter;
using protocol::Op;
using protocol::OutMessage;
using protocol::Result;

namespace {

template <class Reply>
OutMessage message_of(const Reply& reply) {
  MessageWriter writer;
  write(writer, reply);
  return writer.finish();
}

OutMessage nil_message() {
  MessageWriter writer;
  writer.nil();
  return writer.finish();
}

OutMessage ok_message() {
  MessageWriter writer;
  protocol::write_ok(writer);
  return writer.finish();
}

OutMessage raw_message(const Slice& msgpack) {
  MessageWriter writer;
  writer.raw(msgpack.view());
  return writer.finish();
}

OutMessage pong() {
  MessageWriter writer;
  writer.bin("pong");
  return writer.finish();
}

std::uint64_t bytes_of(const protocol::Payload& payload) {
  std::uint64_t bytes = payload.header.size();
  for (const Slice& frame : payload.frames) bytes += frame.size();
  return bytes;
}

bool wants_reply(const Message& message) {
  return message.root().find("reply").as_bool().value_or(true);
}

}  // namespace

void PeerServer::close() {
  closed_ = true;
  // Closing a connection ends its coroutine, which takes it out of the set.
  const std::vector<Ref> open(connections_.begin(), connections_.end());
  for (const Ref& connection : open) connection->close();
  for (auto& [token, answer] : std::exchange(awaited_, {})) answer.complete(Reply{{}, true});
}

Async<void> PeerServer::serve(Ref connection) {
  connections_.insert(connection);
  while (!closed_ && !connection->closed()) {
    Result<Frames> frames = co_await connection->read();
    if (!frames) break;
    auto message = std::make_shared<Message>();
    if (!message->reset(std::move(*frames))) break;
    if (message->root().equals("OK")) continue;  // thanks for a get_data that Python answered
    if (!message->root().is_map()) break;
    if (!co_await serve_one(connection, message)) break;
  }
  connections_.erase(connection);
  connection->close();
}

Async<bool> PeerServer::serve_one(Ref connection, std::shared_ptr<Message> message) {
  const std::string_view name = message->root().find("op").as_str().value_or("");
  const bool close = message->root().find("close").as_bool().value_or(false);
  if (name.empty()) co_return false;
  if (!claimed_.contains(std::string(name))) {
    const Op op = protocol::op_of(name);
    // Serializers of the asker's own choice are Python's business.
    const bool chosen = op == Op::get_data && message->root().find("serializers").size() > 0;
    if (op == Op::get_data && !chosen) {
      co_return co_await get_data(connection, message) && !close;
    }
    if (answer(connection, *message, op)) co_return !close && op != Op::close;
  }
  co_return co_await forward(connection, message) && !close;
}

//! Serves what needs no wait and no Python. False: not one of these.
bool PeerServer::answer(const Ref& connection, const Message& message, Op op) {
  OutMessage reply;
  switch (op) {
    case Op::close:
      reply = ok_message();
      break;
    case Op::ping:
      reply = pong();
      break;
    case Op::identity:
      reply = identity();
      break;
    case Op::keys:
      reply = keys();
      break;
    case Op::versions:
      if (message.root().find("packages").size() > 0) return false;
      reply = raw_message(options_.versions);
      break;
    case Op::free_keys_rpc:
      free_keys(message);
      reply = nil_message();
      break;
    default:
      return false;
  }
  if (wants_reply(message)) connection->send(reply);
  return true;
}

void PeerServer::free_keys(const Message& message) {
  protocol::Fields fields(message, message.root(), "free_keys");
  std::vector<protocol::KeyView> keys;
  fields.keys("keys", keys);
  driver_.step(FreeKeys{keys}, fields.str_or("stimulus_id", "free-keys-rpc"));
}

OutMessage PeerServer::identity() const {
  MessageWriter writer;
  writer.map(5);
  writer.field("type");
  writer.str("Worker");
  writer.field("id");
  writer.str(options_.id);
  writer.field("scheduler");
  writer.str(options_.scheduler_address);
  writer.field("nthreads");
  writer.uinteger(options_.nthreads);
  writer.field("memory_limit");
  options_.memory.limit ? writer.uinteger(options_.memory.limit) : writer.nil();
  return writer.finish();
}

OutMessage PeerServer::keys() const {
  std::vector<protocol::KeyView> held;
  for (const TaskId id : driver_.core().tasks()) {
    if (driver_.core().task(id).value.valid()) held.push_back(driver_.core().task(id).key);
  }
  MessageWriter writer;
  writer.array(static_cast<std::uint32_t>(held.size()));
  for (const protocol::KeyView key : held) writer.key(key);
  return writer.finish();
}

bool PeerServer::busy(const Ref& connection) const {
  if (paused_) return outgoing_ >= 1;
  const std::uint64_t slots = options_.incoming_connections;
  return outgoing_ >= (connection->same_host() ? 2 * slots : slots);
}

//! Those of the keys asked for that are here.
std::vector<std::pair<Key, ValueId>> PeerServer::held_of(const Message& message) {
  std::vector<std::pair<Key, ValueId>> out;
  for (const protocol::Value spelled : message.root().find("keys").elements()) {
    const auto key = message.key(spelled);
    if (!key) continue;
    const auto task = driver_.core().find(*key);
    if (!task || !driver_.core().task(*task).value.valid()) continue;
    const ValueId value = driver_.core().task(*task).value;
    store_.get(value);  // counts as a use
    out.emplace_back(Key{std::string(key->bytes)}, value);
  }
  return out;
}

//! Question, answer, and the peer's "OK", which frees the slot.
Async<bool> PeerServer::get_data(Ref connection, std::shared_ptr<Message> message) {
  // Peers name themselves; clients and the scheduler do not, and are never told to come back.
  const bool from_peer = message->root().find("who").is_str();
  if (from_peer && busy(connection)) {
    protocol::GetDataReply reply;
    reply.busy = true;
    connection->send(message_of(reply));
    co_return true;
  }
  ++outgoing_;
  ++outgoing_total_;
  const std::vector<std::pair<Key, ValueId>> wanted = held_of(*message);
  // All at once: what must be pickled then costs one wait for the GIL, not one per value.
  std::vector<Async<Result<Packed>>> packing;
  for (const auto& [key, value] : wanted) packing.push_back(packer_.pack(value));
  std::vector<Result<Packed>> packed = co_await protocol::all(std::move(packing));
  if (closed_) co_return false;
  std::vector<std::pair<Key, PayloadRef>> found;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!packed[i]) {
      // Not here after all, or damaged: the peer asks elsewhere, the scheduler learns of it.
      driver_.lost(wanted[i].second);
      continue;
    }
    bytes += bytes_of(*packed[i]->payload);
    found.emplace_back(wanted[i].first, std::move(packed[i]->payload));
  }
  outgoing_bytes_ += bytes;
  outgoing_bytes_total_ += bytes;
  protocol::GetDataReply reply;
  for (const auto& [key, payload] : found) reply.data.emplace_back(key, payload);
  connection->send(message_of(reply));
  Result<Frames> thanks = co_await connection->read();
  --outgoing_;
  outgoing_bytes_ -= bytes;
  // Whoever says anything else has not understood the exchange, and is not left waiting.
  Message said;
  co_return thanks && said.reset(std::move(*thanks)) && said.root().equals("OK");
}

Async<bool> PeerServer::forward(Ref connection, std::shared_ptr<Message> message) {
  const bool reply = wants_reply(*message);
  ServiceEvent event;
  event.kind = ServiceEvent::Kind::request;
  event.token = next_token_++;
  event.message = message->frames();
  event.text = connection->peer().text();
  protocol::Completer<Reply> answer;
  awaited_.emplace(event.token, answer);
  service_.push(std::move(event));
  Reply got = co_await answer;
  if (reply && !got.frames.empty()) connection->send(protocol::frame_message(got.frames));
  co_return !got.close;
}

void PeerServer::reply(std::uint64_t token, Frames frames, bool close) {
  auto awaited = awaited_.extract(token);
  if (!awaited.empty()) awaited.mapped().complete(Reply{std::move(frames), close});
}

}  // namespace worker
