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
    if (!message->reset(std::move(*frames)) || !message->root().is_map()) break;
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
    switch (protocol::op_of(name)) {
      case Op::get_data:
        co_return co_await get_data(connection, message) && !close;
      case Op::close:
        if (wants_reply(*message)) {
          MessageWriter writer;
          protocol::write_ok(writer);
          connection->send(writer.finish());
        }
        co_return false;
      case Op::ping:
        if (wants_reply(*message)) connection->send(pong());
        co_return !close;
      case Op::identity:
        if (wants_reply(*message)) connection->send(identity());
        co_return !close;
      case Op::free_keys_rpc:
        free_keys(*message);
        if (wants_reply(*message)) connection->send(nil_message());
        co_return !close;
      default:
        break;
    }
  }
  co_return co_await forward(connection, message) && !close;
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
  options_.memory_limit ? writer.uinteger(options_.memory_limit) : writer.nil();
  return writer.finish();
}

bool PeerServer::busy(const Ref& connection) const {
  if (paused_) return outgoing_ >= 1;
  const std::uint64_t slots = options_.incoming_connections;
  return outgoing_ >= (connection->same_host() ? 2 * slots : slots);
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
  std::vector<std::pair<Key, PayloadRef>> found;
  std::uint64_t bytes = 0;
  for (const protocol::Value spelled : message->root().find("keys").elements()) {
    const auto key = message->key(spelled);
    if (!key) continue;
    const auto task = driver_.core().find(*key);
    if (!task || !driver_.core().task(*task).value.valid()) continue;
    Result<PayloadRef> payload = co_await packer_.payload(driver_.core().task(*task).value);
    if (!payload) continue;  // not here after all: the peer asks elsewhere
    bytes += bytes_of(**payload);
    found.emplace_back(Key{std::string(key->bytes)}, std::move(*payload));
  }
  outgoing_bytes_ += bytes;
  protocol::GetDataReply reply;
  for (const auto& [key, payload] : found) reply.data.emplace_back(key, payload);
  connection->send(message_of(reply));
  Result<Frames> thanks = co_await connection->read();
  --outgoing_;
  outgoing_bytes_ -= bytes;
  co_return thanks.ok();
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
