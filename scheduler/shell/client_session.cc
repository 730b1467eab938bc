//! One client: its registration and its stream.
//!
//! The stream is read in order by one coroutine. update-graph holds it up until the graph is
//! committed, so nothing the client says later can overtake its graph; other clients are not held
//! up. When the connection ends, what has arrived is still acted on (a client may fire, forget and
//! leave), then everything the client wanted is released.
//!
//! Answers to: distributed/scheduler.py, Scheduler.add_client and the client_handlers.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "protocol/base/key_token.h"
#include "protocol/wire/messages_client.h"
#include "protocol/wire/messages_register.h"
#include "protocol/wire/shared_memory.h"
#include "scheduler/shell/rpc.h"
#include "scheduler/shell/scatter.h"
#include "scheduler/shell/server.h"
#include "scheduler/shell/stream.h"

namespace scheduler {
namespace {

using protocol::Connection;
using protocol::Done;
using protocol::Error;
using protocol::Fault;
using protocol::Message;
using protocol::Op;
using protocol::Status;

constexpr std::size_t kKeysSlice = 4096;
// A stock client pays for each message, not for each op in it; stock waits as long.
constexpr protocol::StreamSender::Intervals kClientIntervals{2, 10, 16};  //!< ms; 2 as stock

//! A client that is gone may still have asked, behind its graph, that others keep the results (fire
//! and forget). Words are looked for, not ops: to keep a graph in doubt costs less than to parse
//! all that waits.
bool may_be_wanted(const protocol::Frames& current, const std::deque<protocol::Frames>& unread) {
  const auto desires = [](const protocol::Frames& frames) {
    return !frames.empty() && frames[0].view().find(protocol::op_name(Op::client_desires_keys)) !=
                                  std::string_view::npos;
  };
  return desires(current) || std::ranges::any_of(unread, desires);
}

//! Acts on the ops of one client, one at a time.
class ClientReader {
 public:
  ClientReader(Server& server, const ClientPeer& client)
      : server_(server), client_(client.id), name_(client.name), connection_(client.connection) {}

  //! The op takes more than one turn.
  bool is_slow(const StreamReader::Op& op) const {
    return op.kind == Op::update_graph || op.value.find("keys").elements().size() > kKeysSlice;
  }
  //! An op that cannot be read may be left out: what it names can be no task and no topic. A client's
  //! API lets such values through, and stock takes them without effect.
  bool forgives(const StreamReader::Op& op) const;
  Status act(const Message& message, Value op, Op kind);
  Async<Status> act_slowly(StreamReader::Op op, StreamReader& stream);

 private:
  Async<Status> on_update_graph(StreamReader::Op op, StreamReader& stream);
  Async<void> in_slices(std::span<const KeyView> keys, ClientId client, Op kind);
  Async<Status> cancel_slowly(StreamReader::Op op);
  void log_cancel(const protocol::CancelKeys& in);
  void on_slice(std::span<const KeyView> keys, ClientId client, Op kind);
  Status on_keys(const Message& message, Value op, Op kind);
  Status on_cancel(const Message& message, Value op);
  Status on_report_key(const Message& message, Value op);
  Status on_update_data(const Message& message, Value op);
  Status on_subscription(const Message& message, Value op, bool subscribe);
  Status on_heartbeat();

  //! The client named in a message, or the sender.
  ClientId named(std::string_view name) {
    return name.empty() || name == name_ ? client_ : server_.client_named(name);
  }

  Server& server_;
  ClientId client_;
  std::string name_;
  Connection::Ref connection_;
};

bool ClientReader::forgives(const StreamReader::Op& op) const {
  switch (op.kind) {
    case Op::client_desires_keys:
    case Op::client_releases_keys:
    case Op::cancel_keys:
    case Op::report_key:
    case Op::subscribe_topic:
    case Op::unsubscribe_topic: return true;
    default: return false;
  }
}

Status ClientReader::act(const Message& message, Value op, Op kind) {
  switch (kind) {
    case Op::client_desires_keys: return on_keys(message, op, kind);
    case Op::client_releases_keys: return on_keys(message, op, kind);
    case Op::cancel_keys: return on_cancel(message, op);
    case Op::report_key: return on_report_key(message, op);
    case Op::update_data: return on_update_data(message, op);
    case Op::subscribe_topic: return on_subscription(message, op, true);
    case Op::unsubscribe_topic: return on_subscription(message, op, false);
    case Op::heartbeat_client: return on_heartbeat();
    case Op::queue_future_release:
    case Op::queue_release:
    case Op::variable_future_received_confirm:
    case Op::variable_delete:
    case Op::publish_flush_batched_send:
      server_.log.once(protocol::op_name(kind),
                       fmt::format("Stream op '{}' is not supported yet and is ignored; see "
                                   "docs/COMPATIBILITY.md", protocol::op_name(kind)));
      return Done{};
    default:
      return Error{Fault::unknown_op, "'" + sample(op.find("op").as_str().value_or("")) +
                                             "' is not an op of a client's stream"};
  }
}

Async<Status> ClientReader::act_slowly(StreamReader::Op op, StreamReader& stream) {
  if (op.kind == Op::update_graph) co_return co_await on_update_graph(op, stream);
  if (op.kind == Op::cancel_keys) co_return co_await cancel_slowly(op);
  if (op.kind != Op::client_desires_keys && op.kind != Op::client_releases_keys) {
    co_return act(op.message, op.value, op.kind);
  }
  protocol::ClientReleasesKeys in;  // both ops have the same fields
  Status read = Done{};
  const auto work = [&] { read = protocol::read(op.message, op.value, in); };
  if (is_large(op.message)) {
    co_await offload(server_.loop, work);
  } else {
    work();
  }
  if (!read) co_return read;
  co_await in_slices(in.keys, named(in.client), op.kind);
  co_return Done{};
}

//! An update-graph and what it borrows.
struct TakenGraph {
  protocol::UpdateGraph graph;
  protocol::Slice wanted;    //!< msgpack array of graph.keys
  std::string stimulus;
  Key submitting_task;
  bool detached = false;     //!< nothing in `graph` borrows from the message any more

  //! `share`: in memory that a graph process can map.
  Status read(const Message& message, Value op, bool share);
  //! Whether its keys can be told what else was wrong.
  bool names_keys() const {
    return std::ranges::none_of(graph.keys, [](KeyView key) { return key.bytes.empty(); });
  }

 private:
  void detach(bool share);
};

Status TakenGraph::read(const Message& message, Value op, bool share) {
  if (auto done = protocol::read(message, op, graph); !done) return done;
  const ByteView from = message.document().bytes();
  const auto as_it_came = [&](KeyView key) {
    return key.bytes.data() >= from.data() && key.bytes.data() < from.data() + from.size();
  };
  detached = graph.priorities.empty() && graph.actor_keys.empty() &&
             std::all_of(graph.keys.begin(), graph.keys.end(), as_it_came);
  if (detached) {
    detach(share);
  } else {
    const Value keys = op.find("keys");
    wanted = protocol::Slice::copy_of((keys.is_map() ? keys.find("as-list") : keys).raw());
  }
  return Done{};
}

//! The keys of a million tasks stand twice in the message and each is a node of its tape: once
//! they point into `wanted`, all of that can go before the tasks come.
void TakenGraph::detach(bool share) {
  std::string bytes;
  protocol::append_array_header(bytes, static_cast<std::uint32_t>(graph.keys.size()));
  std::size_t at = bytes.size();
  std::size_t size = at;
  for (const KeyView key : graph.keys) size += key.bytes.size();
  protocol::SharedBuffer shared;
  share = share && shared.make(size);
  bytes.resize(share ? at : size);
  char* const to = share ? shared.data() : bytes.data();
  if (share) std::memcpy(to, bytes.data(), at);
  for (KeyView& key : graph.keys) {
    std::memcpy(to + at, key.bytes.data(), key.bytes.size());
    at += key.bytes.size();
  }
  wanted = share ? shared.finish() : protocol::Slice::own(std::move(bytes));
  at = size;  // from the end: each key's place follows from its length
  for (auto key = graph.keys.rbegin(); key != graph.keys.rend(); ++key) {
    at -= key->bytes.size();
    key->bytes = wanted.view().substr(at, key->bytes.size());
  }
  stimulus = graph.stimulus_id;
  graph.stimulus_id = stimulus;
  submitting_task.bytes = graph.submitting_task.bytes;
  graph.submitting_task = submitting_task.view();
}

Async<Status> ClientReader::on_update_graph(StreamReader::Op op, StreamReader& stream) {
  const Message& message = op.message;
  TakenGraph taken;
  Status read = Done{};
  const bool large = is_large(message);
  const auto work = [&] { read = taken.read(message, op.value, large); };
  if (large) {
    co_await offload(server_.loop, work);
  } else {
    work();
  }
  if (!read && !taken.names_keys()) co_return read;
  if (!read) {
    server_.log.error(read.error().text());
    co_await server_.graphs.refuse(client_, taken.graph, read.error().text());
    co_return Done{};
  }
  if (taken.detached) stream.forget_message();
  const auto committed = server_.graphs.submit(client_, taken.graph, taken.wanted);
  connection_->on_close([&server = server_, client = client_, connection = connection_.get(), &message] {
    if (!may_be_wanted(message.frames(), connection->unread())) server.graphs.drop(client);
  });
  co_await committed;
  connection_->on_close(nullptr);
  co_return Done{};
}

Status ClientReader::on_keys(const Message& message, Value op, Op kind) {
  protocol::ClientReleasesKeys in;  // both ops have the same fields
  if (auto read = protocol::read(message, op, in); !read) return read;
  on_slice(in.keys, named(in.client), kind);
  return Done{};
}

void ClientReader::on_slice(std::span<const KeyView> keys, ClientId client, Op kind) {
  if (kind == Op::client_desires_keys) {
    server_.step(KeysDesired{client, keys}, Server::stimulus("client-desires-keys"));
  } else {
    server_.step(KeysReleased{client, keys}, Server::stimulus("client-releases-keys"));
  }
}

Async<void> ClientReader::in_slices(std::span<const KeyView> keys, ClientId client, Op kind) {
  for (std::size_t at = 0; at < keys.size(); at += kKeysSlice) {
    if (at > 0) co_await next_turn(server_.loop);
    on_slice(keys.subspan(at, std::min(kKeysSlice, keys.size() - at)), client, kind);
  }
}

void ClientReader::log_cancel(const protocol::CancelKeys& in) {
  const ClientPeer* peer = server_.peers.find(named(in.client));
  server_.log.info(fmt::format("Client {} requests to cancel {} keys", peer ? peer->name : "",
                               in.keys.size()));
}

Status ClientReader::on_cancel(const Message& message, Value op) {
  protocol::CancelKeys in;
  if (auto read = protocol::read(message, op, in); !read) return read;
  log_cancel(in);
  server_.step(KeysCancelled{named(in.client), in.keys, in.force, in.reason, in.msg},
               Server::stimulus("cancel-key"));
  return Done{};
}

Async<Status> ClientReader::cancel_slowly(StreamReader::Op op) {
  protocol::CancelKeys in;
  Status read = Done{};
  const auto work = [&] { read = protocol::read(op.message, op.value, in); };
  co_await offload(server_.loop, work);
  if (!read) co_return read;
  log_cancel(in);
  const std::span<const KeyView> keys = in.keys;
  for (std::size_t at = 0; at < keys.size(); at += kKeysSlice) {
    if (at > 0) co_await next_turn(server_.loop);
    const auto slice = keys.subspan(at, std::min(kKeysSlice, keys.size() - at));
    server_.step(KeysCancelled{named(in.client), slice, in.force, in.reason, in.msg},
                 Server::stimulus("cancel-key"));
  }
  co_return Done{};
}

Status ClientReader::on_report_key(const Message& message, Value op) {
  protocol::ReportKey in;
  if (auto read = protocol::read(message, op, in); !read) return read;
  server_.step(KeyReported{named(in.client), in.key}, Server::stimulus("report-key"));
  return Done{};
}

Status ClientReader::on_update_data(const Message& message, Value op) {
  protocol::UpdateData in;
  if (auto read = protocol::read(message, op, in); !read) return read;
  server_.step(scattered(server_, named(in.client), in.who_has), Server::stimulus("update-data"));
  return Done{};
}

Status ClientReader::on_subscription(const Message& message, Value op, bool subscribe) {
  protocol::TopicSubscription in;
  if (auto read = protocol::read(message, op, in); !read) return read;
  if (subscribe) {
    server_.topics.subscribe(in.topic, named(in.client));
  } else {
    server_.topics.unsubscribe(in.topic, named(in.client));
  }
  return Done{};
}

Status ClientReader::on_heartbeat() {
  if (ClientPeer* peer = server_.peers.find(client_)) {
    peer->last_seen = wall_time();
    const double interval = 10 * server_.heartbeat_interval(server_.peers.clients().size());
    protocol::write(peer->stream.op(), protocol::AdjustHeartbeatInterval{interval});
  }
  return Done{};
}

ClientPeer& welcome(Server& server, const protocol::RegisterClient& in,
                    const Connection::Ref& connection) {
  if (ClientPeer* old = server.peers.find_client(in.client)) {
    // It came back before we noticed that it had left.
    if (old->connection) old->connection->abort({Fault::closed, "the client connected again"});
    server.remove_client(old->id, Server::stimulus("remove-client"));
  }
  auto peer = std::make_unique<ClientPeer>();
  peer->id = server.peers.next_client_id();
  peer->name = in.client;
  peer->last_seen = wall_time();
  peer->packages = parse_packages(in.versions);
  peer->connection = connection;
  ClientPeer& client = server.peers.add(std::move(peer));
  server.log.info("Receive client connection: " + client.name);
  server.topics.publish({"all", client.name}, [&](protocol::MessageWriter& out) {
    out.map(2);
    out.field("action");
    out.str("add-client");
    out.field("client");
    out.str(client.name);
  });
  server.step(ClientAdded{client.id, client.name}, Server::stimulus("add-client"));
  return client;
}

void send_stream_start(Server& server, ClientPeer& client) {
  std::vector<const Packages*> workers;
  for (const auto& [id, worker] : server.peers.workers()) {
    if (worker->packages) workers.push_back(&*worker->packages);
  }
  const std::string warning =
      mismatch_warning(server.graphs.packages(), workers, client.packages, "Client");
  protocol::MessageWriter out;
  out.array(1);
  protocol::write(out, protocol::StreamStart{warning, {}});
  client.connection->send(out.finish());
  client.stream.attach(client.connection);
  client.stream.set_interval(server.loop, kClientIntervals);
}

}  // namespace

Async<Reply> rpc_register_client(Server& server, Request request) {
  protocol::RegisterClient in;
  if (auto read = request.read(in); !read) {
    co_return Reply::raise(read.error());
  }
  ClientPeer& peer = welcome(server, in, request.connection);
  const ClientId id = peer.id;
  const std::string name = peer.name;
  send_stream_start(server, peer);
  // Large frames of graphs go on to a graph process.
  request.connection->share_large_frames();

  server.log.write(Log::Level::info, Log::kCore,
                   "Starting established connection to " + request.connection->peer().text());
  ClientReader reader(server, peer);
  StreamReader stream(server, request.connection);
  bool leaving = false;
  while (!leaving && co_await stream.next_message()) {
    while (const auto op = stream.next_op()) {
      if (op->kind == Op::close_client) {
        leaving = true;
        break;
      }
      Status acted = Done{};
      if (reader.is_slow(*op)) {
        acted = co_await reader.act_slowly(*op, stream);
      } else {
        acted = reader.act(op->message, op->value, op->kind);
      }
      if (!acted && reader.forgives(*op)) {
        stream.ignore(*op, acted.error());
      } else if (!acted) {
        stream.fail(acted.error());
      }
      if (stream.tired()) co_await next_turn(server.loop);
    }
  }
  if (server.peers.find(id) != nullptr) {
    server.remove_client(id, Server::stimulus("remove-client"));
  }
  request.connection->close();
  if (!server.closing()) server.log.info("Close client connection: " + name);
  co_return Reply::taken_over();
}

}  // namespace scheduler
