//! One worker: its registration, its stream, its heartbeats.
//!
//! A worker is known from the moment register-worker is accepted until its stream ends or it is
//! removed; nothing is sent to it for tasks before it says that it runs. A worker never comes back:
//! the next registration from the same address is a new worker.
//!
//! Answers to: distributed/scheduler.py, Scheduler.add_worker, handle_worker, heartbeat_worker.
#include <fmt/format.h>

#include <utility>

#include "protocol/net/socket.h"
#include "protocol/wire/messages_register.h"
#include "scheduler/shell/rpc.h"
#include "scheduler/shell/server.h"
#include "scheduler/shell/stream.h"
#include "scheduler/shell/translate_in.h"

namespace scheduler {
namespace {

using protocol::Address;
using protocol::RegisterWorker;
using protocol::RegisterWorkerReply;

//! Names of hosts become IPs, so that an address has one spelling.
Async<protocol::Result<Address>> canonical(Server& server, std::string text) {
  auto parsed = protocol::parse_address(text);
  if (!parsed) co_return parsed.error();
  const auto host = co_await protocol::resolve_host(server.loop, parsed->host);
  if (!host) co_return host.error();
  server.remember_host(parsed->host, *host);
  parsed->host = *host;
  co_return parsed;
}

Resources resources_of(const std::vector<protocol::Amount>& amounts) {
  Resources out;
  for (const auto& [name, amount] : amounts) out.emplace_back(name, amount);
  std::sort(out.begin(), out.end());
  return out;
}

std::unique_ptr<WorkerPeer> make_peer(Server& server, const RegisterWorker& in,
                                      const Address& address, const Request& request) {
  auto peer = std::make_unique<WorkerPeer>();
  peer->id = server.peers.next_worker_id();
  peer->address = address.text();
  peer->host = address.host;
  peer->name.bytes = in.name.bytes;
  peer->nanny = in.nanny;
  peer->server_id = in.server_id;
  peer->local_directory = in.local_directory;
  peer->nthreads = static_cast<std::uint32_t>(in.nthreads);
  peer->memory_limit = in.memory_limit;
  for (const auto& [name, port] : in.services) peer->services.emplace_back(name, port);
  peer->metrics = in.metrics;
  peer->extra = in.extra;
  peer->packages = parse_packages(request.body().find("versions"));
  peer->last_seen = wall_time();
  peer->last_seen_mono = server.loop.now().mono;
  peer->rask = request.hello.rask > 0;
  peer->connection = request.connection;
  return peer;
}

//! Why this worker may not join, if it may not.
std::optional<Reply> refusal(Server& server, const RegisterWorker& in, const std::string& address) {
  // It may come back before all that was on it has been seen to.
  const auto end = [&](const WorkerPeer* known) {
    if (known == nullptr || !known->fading) return;
    server.remove_worker(known->id, Server::stimulus("worker-returns"), false, false);
  };
  end(server.peers.find_worker(address));
  end(server.peers.find_alias(in.name));
  if (server.peers.find_worker(address) != nullptr) {
    return Reply::raise({"ValueError", "Worker already exists " + address});
  }
  if (server.peers.find_alias(in.name) != nullptr) {
    const std::string name = protocol::key_text(in.name);
    server.log.warning("Worker tried to connect with a duplicate name: " + name);
    const std::string why = "name taken, " + name;
    RegisterWorkerReply reply;
    reply.ok = false;
    reply.message = why;
    reply.time = wall_time();
    protocol::MessageWriter out;
    protocol::write(out, reply);
    return Reply(out.finish());
  }
  return std::nullopt;
}

void send_welcome(Server& server, WorkerPeer& worker) {
  std::vector<const Packages*> others;
  for (const auto& [id, other] : server.peers.workers()) {
    if (other->packages) others.push_back(&*other->packages);
  }
  const std::string warning =
      mismatch_warning(server.graphs.packages(), others, worker.packages, worker.server_id);
  RegisterWorkerReply reply;
  reply.time = wall_time();
  reply.heartbeat_interval_seconds = server.heartbeat_interval(server.peers.workers().size());
  for (const auto& [name, pickle] : server.plugins.worker) {
    reply.worker_plugins.emplace_back(name, pickle);
  }
  reply.warning = warning;
  protocol::MessageWriter out;
  protocol::write(out, reply);
  worker.connection->send(out.finish());
  worker.stream.attach(worker.connection);
}

void heartbeat(Server& server, WorkerPeer& worker, const protocol::WorkerMetrics& measured,
               std::span<const Executing> executing) {
  worker.last_seen = wall_time();
  worker.last_seen_mono = server.loop.now().mono;
  WorkerHeartbeat event;
  event.worker = worker.id;
  event.memory_rss = measured.memory;
  event.spilled_bytes = measured.spilled_memory;
  event.bandwidth = measured.bandwidth_total;
  event.executing = executing;
  server.step(event, "heartbeat");
}

void announce(Server& server, const WorkerPeer& worker) {
  server.topics.publish({worker.address}, [](protocol::MessageWriter& out) {
    out.map(1);
    out.field("action");
    out.str("add-worker");
  });
  server.topics.publish({"all"}, [&](protocol::MessageWriter& out) {
    out.map(2);
    out.field("action");
    out.str("add-worker");
    out.field("worker");
    out.str(worker.address);
  });
  server.log.info(fmt::format("Register worker addr: {} name: {}", worker.address,
                              protocol::key_text(worker.name)));
}

WorkerPeer& join(Server& server, const RegisterWorker& in, std::unique_ptr<WorkerPeer> peer) {
  WorkerPeer& worker = server.peers.add(std::move(peer));
  WorkerAdded event;
  event.worker = worker.id;
  event.address = worker.address;
  event.host = worker.host;
  event.name = worker.name;
  event.nthreads = worker.nthreads;
  event.memory_limit = worker.memory_limit;
  event.resources = resources_of(in.resources);
  event.rask = worker.rask;
  const std::string stimulus(in.stimulus_id);
  server.step(event, stimulus);
  heartbeat(server, worker, in.measured, {});
  announce(server, worker);
  if (const auto status = parse_status(in.status); status && *status != WorkerStatus::init) {
    server.set_worker_status(worker, *status, stimulus);
  }
  server.watchers.added(server, worker);
  return worker;
}

Async<void> read_stream(Server& server, WorkerId id, protocol::Connection::Ref connection) {
  WorkerReader reader(server, id);
  StreamReader stream(server, connection);
  while (co_await stream.next_message()) {
    while (const auto op = stream.next_op()) {
      if (auto acted = reader.act(op->message, op->value, op->kind); !acted) {
        stream.fail(acted.error());
      }
      if (stream.tired()) co_await next_turn(server.loop);
    }
  }
}

}  // namespace

Async<Reply> rpc_register_worker(Server& server, Request request) {
  RegisterWorker in;
  if (auto read = request.read(in); !read) {
    co_return Reply::raise(read.error());
  }
  const auto address = co_await canonical(server, std::string(in.address));
  if (!address) co_return Reply::raise({"ValueError", address.error().where});
  if (auto refused = refusal(server, in, address->text())) {
    // The request asks for no reply because the connection becomes the stream; a refusal is one.
    request.connection->send(refused->message());
    request.connection->close();
    co_return Reply::taken_over();
  }
  WorkerPeer& worker = join(server, in, make_peer(server, in, *address, request));
  const WorkerId id = worker.id;
  const std::string where = worker.address;
  send_welcome(server, worker);
  server.log.info("Starting worker compute stream, " + where);
  request.message.reset();
  co_await read_stream(server, id, request.connection);
  co_await server.lose_worker(id, Server::stimulus("handle-worker-cleanup"));
  co_return Reply::taken_over();
}

Reply rpc_heartbeat_worker(Server& server, const Request& request) {
  protocol::HeartbeatWorker in;
  if (auto read = request.read(in); !read) {
    return Reply::raise(read.error());
  }
  protocol::HeartbeatReply reply;
  WorkerPeer* worker = server.find_worker(request.get("address"));
  reply.missing = worker == nullptr;
  if (worker == nullptr) {
    server.log.warning(fmt::format("Received heartbeat from unregistered worker '{}'.",
                                   sample(in.address, 200)));
  } else {
    std::vector<Executing> executing;
    for (const auto& [key, seconds] : in.executing) executing.push_back({key, seconds});
    worker->metrics = in.metrics;
    heartbeat(server, *worker, in.measured, executing);
    reply.time = worker->last_seen;
    reply.heartbeat_interval_seconds = server.heartbeat_interval(server.peers.workers().size());
  }
  protocol::MessageWriter out;
  protocol::write(out, reply);
  return out.finish();
}

}  // namespace scheduler
