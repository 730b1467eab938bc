//! Retiring workers: what only they hold is copied away first, then they go.
//!
//! A retiring worker takes no new tasks. Its unique keys are copied to the running workers with the
//! least data; when each key also lies on a worker that stays, the worker is removed. If there is
//! nowhere to copy to, the worker stays and is not in the answer.
//!
//! Answers to: Scheduler.retire_workers and active_memory_manager.RetireWorker.
#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "protocol/wire/messages_worker.h"
#include "scheduler/core/state.h"
#include "scheduler/shell/identity.h"
#include "scheduler/shell/rpc.h"
#include "scheduler/shell/scaling.h"
#include "scheduler/shell/server.h"
#include "scheduler/shell/stream.h"
#include "scheduler/shell/translate_in.h"

namespace scheduler {

using protocol::KeyView;
using protocol::MessageWriter;

Downscale downscale_of(const protocol::RetireWorkersCall& call);

namespace {

constexpr double kAskAgain = 2;  // seconds; a copy asked for may have failed without a word

//! Tasks on this worker with no copy on a worker that stays.
std::vector<TaskId> unique_keys(const Core& core, WorkerId worker) {
  std::vector<TaskId> out;
  for (const TaskId id : core.worker(worker).has_what) {
    const Task& task = core.task(id);
    const bool safe = std::any_of(
        task.who_has.begin(), task.who_has.end(),
        [&](const Replica& replica) { return core.worker(replica.worker).running(); });
    if (!safe) out.push_back(id);
  }
  return out;
}

//! Spreads copies over the running workers, least data first. False: there is no such worker.
bool copy_away(Server& server, const std::vector<TaskId>& tasks, const std::string& stimulus) {
  std::vector<std::pair<std::uint64_t, WorkerId>> load;
  for (const WorkerId id : server.core.workers()) {
    const Worker& worker = server.core.worker(id);
    if (worker.running()) load.emplace_back(std::max(worker.memory_rss, worker.nbytes), id);
  }
  if (load.empty()) return false;
  absl::flat_hash_map<WorkerId, std::vector<KeyView>> moves;
  for (const TaskId id : tasks) {
    auto least = std::min_element(load.begin(), load.end());
    least->first += server.core.state().size_of(server.core.task(id));
    moves[least->second].push_back(server.core.task(id).key());
  }
  // Keys are copied: the steps below may let go of a task.
  for (const auto& [worker, keys] : moves) {
    std::vector<protocol::Key> owned;
    for (const KeyView key : keys) owned.push_back(protocol::Key{std::string(key.bytes)});
    const std::vector<KeyView> views(owned.begin(), owned.end());
    server.step(ReplicasWanted{worker, views}, stimulus);
  }
  return true;
}

enum class Outcome : std::uint8_t { retired, left, stays };

void tell_status(WorkerPeer& worker, WorkerStatus status, std::string_view stimulus) {
  protocol::write(worker.stream.op(), protocol::WorkerStatusChange{status_name(status), stimulus});
}

//! Waits until nothing is lost with the worker.
Async<Outcome> empty_worker(Server& server, WorkerId id, WorkerStatus before, std::string stimulus) {
  double asked_at = 0;
  while (true) {
    WorkerPeer* worker = server.peers.find(id);
    if (worker == nullptr) co_return Outcome::left;
    const auto unique = unique_keys(server.core, id);
    const bool actors = !server.core.worker(id).actors.empty();
    if (unique.empty() && !actors) co_return Outcome::retired;
    const double now = server.loop.now().mono.as_seconds();
    if (asked_at == 0) {
      server.log.info(fmt::format("Retiring worker {}; {} keys are being moved away.",
                                  worker->address, unique.size()));
    }
    if (now - asked_at > kAskAgain) {
      asked_at = now;
      if (actors || !copy_away(server, unique, stimulus)) {
        tell_status(*worker, before, stimulus);
        server.log.warning(fmt::format("Could not retire worker '{}': unique data could not be "
                                       "moved to any other worker (stimulus_id='{}')",
                                       worker->address, stimulus));
        co_return Outcome::stays;
      }
    }
    const double keys = static_cast<double>(server.core.worker(id).has_what.size());
    co_await sleep(server.loop, std::clamp(keys / 400, 0.01, 0.5));
  }
}

struct Retired {
  std::string address;
  Outcome outcome;
  protocol::PayloadRef identity;
};

Async<Retired> retire(Server& server, WorkerId id, bool close, bool remove, std::string stimulus) {
  WorkerPeer* worker = server.peers.find(id);
  const WorkerStatus before = server.core.worker(id).status;
  const std::string address = worker->address;
  server.set_worker_status(*worker, WorkerStatus::closing_gracefully, stimulus);
  tell_status(*worker, WorkerStatus::closing_gracefully, stimulus);
  MessageWriter identity;
  protocol::write(identity, identity_of(server, *worker, true));
  const protocol::PayloadRef shown = identity.take_payload();

  const Outcome outcome = co_await empty_worker(server, id, before, stimulus);
  worker = server.peers.find(id);
  if (outcome == Outcome::retired && worker != nullptr) {
    if (remove) {
      server.remove_worker(id, stimulus, true, close);
    } else if (close) {
      server.close_worker(*worker);
    }
    server.log.info(fmt::format("Retired worker '{}' (stimulus_id='{}')", address, stimulus));
  }
  co_return Retired{address, outcome, shown};
}

std::vector<WorkerId> chosen_workers(Server& server, const protocol::RetireWorkersCall& call) {
  std::vector<WorkerId> out;
  if (call.has_names) {
    // Names that came through a command line are texts: compare as texts.
    std::unordered_set<std::string> names;
    for (const KeyView name : call.names) names.insert(protocol::key_text(name));
    for (const auto& [id, worker] : server.peers.workers()) {
      if (names.contains(protocol::key_text(worker->name))) out.push_back(id);
    }
  } else if (call.has_workers) {
    for (const std::string_view address : call.workers) {
      const WorkerPeer* worker = server.find_worker(address);
      if (worker && std::find(out.begin(), out.end(), worker->id) == out.end()) {
        out.push_back(worker->id);
      }
    }
  } else {
    out = workers_to_close(server.core, downscale_of(call));
  }
  return out;
}

}  // namespace

Async<Reply> rpc_retire_workers(Server& server, Request request) {
  protocol::RetireWorkersCall call;
  if (auto read = request.read(call); !read) co_return Reply::raise(read.error());
  if (call.has_workers && call.has_names) {
    co_return Reply::raise({"TypeError", "names and workers are mutually exclusive"});
  }
  if (!call.key.empty()) co_return Reply::unsupported("retire_workers with a key function");
  const std::string stimulus =
      call.stimulus_id.empty() ? Server::stimulus("retire-workers") : std::string(call.stimulus_id);
  std::vector<Async<Retired>> going;
  for (const WorkerId id : chosen_workers(server, call)) {
    going.push_back(retire(server, id, call.close_workers, call.remove, stimulus));
  }
  const auto results = co_await protocol::all(std::move(going));
  std::vector<const Retired*> retired;
  for (const Retired& result : results) {
    if (result.outcome != Outcome::stays) retired.push_back(&result);
  }
  co_return Reply::written([&](MessageWriter& out) {
    out.map(static_cast<std::uint32_t>(retired.size()));
    for (const Retired* result : retired) {
      out.str(result->address);
      out.payload(result->identity);
    }
  });
}

}  // namespace scheduler
