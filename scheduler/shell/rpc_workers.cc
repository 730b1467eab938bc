//! Questions and orders about workers: leaving, resources, scaling, the end of the cluster.
//!
//! Answers to: Scheduler.remove_worker (unregister), add_resources, workers_to_close,
//! adaptive_target and close (terminate).
#include <algorithm>

#include "scheduler/core/state.h"
#include "scheduler/shell/rpc.h"
#include "scheduler/shell/scaling.h"
#include "scheduler/shell/server.h"

namespace scheduler {

using protocol::MessageWriter;

Reply rpc_unregister(Server& server, const Request& request) {
  const WorkerPeer* worker = server.find_worker(request.get("address"));
  if (worker == nullptr) return Reply::text("already-removed");
  const std::string stimulus(request.text("stimulus_id", "unregister"));
  server.remove_worker(worker->id, stimulus, request.flag("expected", false),
                       request.flag("close", true));
  return Reply::text("OK");
}

Reply rpc_set_resources(Server& server, const Request& request) {
  WorkerPeer* worker = server.find_worker(request.get("worker"));
  if (worker == nullptr) {
    return Reply::missing_key(protocol::string_key(request.text("worker")));
  }
  Resources resources = server.core.worker(worker->id).resources;
  for (const auto [name, amount] : request.get("resources").entries()) {
    const std::string resource(name.as_str().value_or(""));
    const double value = amount.as_double().value_or(0);
    const auto known = std::find_if(resources.begin(), resources.end(),
                                    [&](const auto& entry) { return entry.first == resource; });
    if (known != resources.end()) {
      known->second = value;
    } else {
      resources.emplace_back(resource, value);
    }
  }
  std::sort(resources.begin(), resources.end());
  server.step(WorkerResourcesSet{worker->id, std::move(resources)}, Server::stimulus("resources"));
  return Reply::text("OK");
}

Downscale downscale_of(const protocol::RetireWorkersCall& call) {
  Downscale wish;
  if (call.memory_ratio > 0) wish.memory_ratio = call.memory_ratio;
  if (call.n >= 0) wish.n = call.n;
  if (call.minimum >= 0) wish.minimum = call.minimum;
  if (call.target >= 0) wish.target = call.target;
  return wish;
}

Reply rpc_workers_to_close(Server& server, const Request& request) {
  protocol::RetireWorkersCall call;
  if (auto read = request.read(call); !read) return Reply::raise(read.error());
  if (!call.key.empty()) return Reply::unsupported("workers_to_close with a key function");
  const auto chosen = workers_to_close(server.core, downscale_of(call));
  return Reply::written([&](MessageWriter& out) {
    out.array(static_cast<std::uint32_t>(chosen.size()));
    for (const WorkerId id : chosen) {
      const WorkerPeer* worker = server.peers.find(id);
      if (call.attribute == "name") {
        out.key(worker->name);
      } else if (call.attribute == "host") {
        out.str(worker->host);
      } else {
        out.str(worker->address);
      }
    }
  });
}

Reply rpc_adaptive_target(Server& server, const Request& request) {
  const double duration =
      request.seconds("target_duration", server.settings.adaptive_target_duration);
  const auto target = adaptive_target(server.core, duration > 0 ? duration : 5);
  return Reply::written([&](MessageWriter& out) { out.integer(target); });
}

Reply rpc_terminate(Server& server, const Request& request) {
  protocol::TerminateCall call;
  if (auto read = request.read(call); !read) return Reply::raise(read.error());
  server.close(call.reason);
  return Reply::nil();
}

}  // namespace scheduler
