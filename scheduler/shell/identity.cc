//! Writing identities; see identity.h.
#include "scheduler/shell/identity.h"

#include <fmt/format.h>

#include <map>

#include "scheduler/core/admission.h"
#include "scheduler/shell/server.h"
#include "scheduler/shell/translate_in.h"

namespace scheduler {
namespace {

//! What admission knows of a worker, among the metrics that the worker told itself.
protocol::PayloadRef admission_metrics(const MemoryReport::Line& line) {
  protocol::MessageWriter out;
  out.map(1);
  out.field("rask");
  out.map(5);
  out.field("memory_budget");
  line.budget == kNoBudget ? out.nil() : out.uinteger(line.budget);
  out.field("reserved_bytes");
  out.uinteger(line.use.reserved);
  out.field("in_flight_bytes");
  out.uinteger(line.use.in_flight);
  out.field("delayed_tasks");
  out.uinteger(line.delayed_tasks);
  out.field("delayed_bytes");
  out.uinteger(line.delayed_bytes);
  return out.take_payload();
}

std::map<WorkerId, protocol::PayloadRef> metrics_of_workers(const Server& server) {
  std::map<WorkerId, protocol::PayloadRef> found;
  for (const MemoryReport::Line& line : memory_report(server.core.state()).workers) {
    found.emplace(line.worker, admission_metrics(line));
  }
  return found;
}

}  // namespace

protocol::WorkerIdentity identity_of(const Server& server, const WorkerPeer& peer, bool live) {
  protocol::WorkerIdentity out;
  const Worker& worker = server.core.worker(peer.id);
  out.address = peer.address;
  out.host = peer.host;
  out.name = peer.name;
  for (const auto& [name, amount] : worker.resources) out.resources.emplace_back(name, amount);
  out.local_directory = peer.local_directory;
  out.nthreads = peer.nthreads;
  out.memory_limit = peer.memory_limit;
  out.last_seen = peer.last_seen;
  for (const auto& [name, port] : peer.services) out.services.emplace_back(name, port);
  out.metrics = peer.metrics;
  out.status = status_name(worker.status);
  out.nanny = peer.nanny;
  out.extra = peer.extra;
  out.live = live;
  return out;
}

void write_identity(protocol::MessageWriter& writer, const Server& server, std::int64_t workers,
                    bool live) {
  protocol::Identity out;
  out.id = server.id;
  out.address = server.address;
  out.started = server.started;
  out.n_workers = server.peers.workers().size();
  std::vector<protocol::WorkerIdentity> listed;
  const bool none = workers == 0 || !live;
  const auto metrics =
      none ? std::map<WorkerId, protocol::PayloadRef>() : metrics_of_workers(server);
  for (const auto& [id, peer] : server.peers.workers()) {
    out.total_threads += peer->nthreads;
    out.total_memory += peer->memory_limit;
    if (workers < 0 || listed.size() < static_cast<std::size_t>(workers)) {
      listed.push_back(identity_of(server, *peer, live));
      const auto more = metrics.find(id);
      if (more != metrics.end()) listed.back().more_metrics = more->second;
    }
  }
  out.workers = listed;
  protocol::write(writer, out);
}

std::string identity_json(const Server& server) {
  // Written at the start, when there are no workers; readers use address and services.
  return fmt::format(
      "{{\n  \"type\": \"Scheduler\",\n  \"id\": \"{}\",\n  \"address\": \"{}\",\n"
      "  \"services\": {{}},\n  \"started\": {:.6f},\n  \"n_workers\": 0,\n  \"total_threads\": 0,\n"
      "  \"total_memory\": 0,\n  \"workers\": {{}}\n}}",
      server.id, server.address, server.started);
}

}  // namespace scheduler
