//! What the shuffle plugin of workers asks of the scheduler: runs of P2P shuffles.
//!
//! The core keeps the runs; here are the questions, stock's words for refusals, and the one thing
//! that takes time: telling every participant that all inputs are in.
//!
//! Answers to: distributed/shuffle/_scheduler_plugin.py, get, get_or_create, restrict_task, barrier.
#include <fmt/format.h>

#include <algorithm>

#include "scheduler/core/shuffle.h"
#include "scheduler/core/state.h"
#include "scheduler/shell/ask.h"
#include "scheduler/shell/rpc.h"
#include "scheduler/shell/server.h"
#include "scheduler/shell/stream.h"

namespace scheduler {

using protocol::MessageWriter;

namespace {

constexpr double kBarrierRetrySeconds = 0.1;
constexpr int kBarrierRetries = 3;

//! The worker's plugin looks at the status and raises what is in the answer.
Reply inconsistent(std::string text) {
  return Reply::written([&](MessageWriter& out) {
    protocol::write_error(
        out, {"P2PConsistencyError", std::move(text), "distributed.shuffle._exceptions"},
        protocol::ErrorStatus::handled);
  });
}

Reply run_spec(const Core& core, const ShuffleRun& run) {
  std::vector<std::string_view> workers;
  for (const WorkerId id : run.participants) workers.push_back(core.worker(id).address);
  std::vector<std::uint32_t> worker_for;
  worker_for.reserve(run.worker_for.size());
  for (const WorkerId id : run.worker_for) {
    const auto place = std::lower_bound(run.participants.begin(), run.participants.end(), id);
    worker_for.push_back(static_cast<std::uint32_t>(place - run.participants.begin()));
  }
  protocol::ShuffleRunPickle pickle;
  pickle.run_id = run.number;
  pickle.spec = run.spec->pickle->own.view();
  pickle.workers = workers;
  pickle.worker_for = worker_for;
  pickle.parts = run.spec->parts_out;
  pickle.chunks = run.spec->chunks;
  protocol::RunSpec carried;
  carried.own = Slice::copy_of(protocol::pickle_shuffle_run_spec(pickle));
  return Reply::written([&](MessageWriter& out) {
    out.map(2);
    out.field("status");
    out.literal("OK");
    out.field("run_spec");
    out.run_spec(carried);
  });
}

std::string unknown_worker(std::string_view address) {
  return fmt::format("Scheduler is unaware of this worker {}",
                     protocol::key_repr(protocol::string_key(address)));
}

Reply refusal(const Core& core, ShuffleRefusal why, std::string_view shuffle, KeyView transfer) {
  const std::string barrier = protocol::key_repr(barrier_key(shuffle));
  switch (why) {
    case ShuffleRefusal::no_barrier:
      return inconsistent(fmt::format(
          "Barrier task with key {} does not exist. This may be caused by task fusion during graph "
          "generation. Please let us know that you ran into this by leaving a comment at "
          "distributed#7816.", barrier));
    case ShuffleRefusal::no_transfer: return Reply::missing_key(transfer);
    case ShuffleRefusal::not_processing: {
      const std::string_view state = state_name(core.task(*core.find(transfer)).state);
      return inconsistent(fmt::format("Expected <TaskState {} {}> to be processing, is {}.",
                                      protocol::key_repr(transfer), state, state));
    }
    case ShuffleRefusal::no_spec:
    case ShuffleRefusal::none: break;
  }
  return Reply::raise(protocol::PythonError{
      "RuntimeError", fmt::format("The spec of {} is of a kind this scheduler does not know", barrier)});
}

}  // namespace

Reply rpc_shuffle_get_or_create(Server& server, const Request& request) {
  const std::string_view shuffle = request.text("shuffle_id");
  const std::string_view address = request.text("worker");
  const auto key = request.message->key(request.body().find("key"));
  if (!key) return Reply::raise(key.error());
  const WorkerPeer* worker = server.find_worker(address);
  if (worker == nullptr) return inconsistent(unknown_worker(address));
  const State& state = server.core.state();
  const bool fresh = find_run(state, shuffle) == nullptr;
  if (fresh) {
    const ShuffleRefusal why = may_start(state, shuffle, *key);
    if (why != ShuffleRefusal::none) return refusal(server.core, why, shuffle, *key);
  }
  server.step(ShuffleStarted{shuffle, *key, worker->id}, Server::stimulus("shuffle-get"));
  if (fresh) {
    server.log.warning(fmt::format("Shuffle {} initialized by task {} executed on worker {}", shuffle,
                                   protocol::key_repr(*key), address));
  }
  return run_spec(server.core, *find_run(state, shuffle));
}

Reply rpc_shuffle_get(Server& server, const Request& request) {
  const std::string_view shuffle = request.text("id");
  const std::string_view address = request.text("worker");
  const WorkerPeer* worker = server.find_worker(address);
  if (worker == nullptr) return inconsistent(unknown_worker(address));
  const ShuffleRun* run = find_run(server.core.state(), shuffle);
  if (run == nullptr) {
    return inconsistent(fmt::format("No active shuffle with id={} found",
                                    protocol::key_repr(protocol::string_key(shuffle))));
  }
  server.step(ShuffleJoined{shuffle, worker->id}, Server::stimulus("shuffle-get"));
  return run_spec(server.core, *run);
}

Reply rpc_shuffle_restrict_task(Server& server, const Request& request) {
  const std::string_view shuffle = request.text("id");
  const auto run_id = request.get("run_id").as_uint();
  const auto key = request.message->key(request.body().find("key"));
  if (!key) return Reply::raise(key.error());
  const ShuffleRun* run = find_run(server.core.state(), shuffle);
  if (run == nullptr) return Reply::missing_key(protocol::string_key(shuffle));
  if (run->number != run_id) {
    return inconsistent(fmt::format("Request {}, expected run_id={} for {}",
                                    run->number > run_id.value_or(0) ? "stale" : "invalid",
                                    run_id.value_or(0), run->name()));
  }
  if (!server.core.find(*key)) return Reply::missing_key(*key);
  const std::string_view address = request.text("worker");
  const WorkerPeer* worker = server.find_worker(address);
  if (worker == nullptr) return inconsistent(unknown_worker(address));
  server.step(ShuffleTaskPinned{shuffle, run->number, *key, worker->id},
              Server::stimulus("shuffle-restrict-task"));
  return Reply::written([](MessageWriter& out) { protocol::write_status_ok(out); });
}

// ---- the barrier --------------------------------------------------------------------------------

namespace {

protocol::OutMessage inputs_done(std::string_view shuffle, std::uint64_t run) {
  MessageWriter out;
  out.map(4);
  out.field("op");
  out.str("shuffle_inputs_done");
  out.field("shuffle_id");
  out.str(shuffle);
  out.field("run_id");
  out.uinteger(run);
  out.field("reply");
  out.boolean(true);
  return out.finish();
}

//! The connection failed; the worker itself has said nothing.
bool unreached(const Answer& answer) {
  return answer.error && (answer.error->type == "CommClosedError" || answer.error->type == "TimeoutError");
}

Reply runtime_error(std::string text) {
  return Reply::raise(protocol::PythonError{"RuntimeError", std::move(text)});
}

}  // namespace

Async<Reply> rpc_shuffle_barrier(Server& server, Request request) {
  const std::string_view shuffle = request.text("id");
  const std::uint64_t number = request.get("run_id").as_uint().value_or(0);
  const ShuffleRun* run = find_run(server.core.state(), shuffle);
  if (run == nullptr) co_return Reply::missing_key(protocol::string_key(shuffle));
  const std::string name = run->name();
  if (run->number != number) {
    co_return Reply::raise(protocol::PythonError{
        "ValueError", fmt::format("run_id={} does not match {}", number, name)});
  }
  if (!request.flag("consistent", true)) {
    server.log.warning(
        fmt::format("Shuffle {} restarted due to data inconsistency during barrier", shuffle));
    server.step(ShuffleRestarted{shuffle, number}, Server::stimulus("p2p-barrier-inconsistent"));
    co_return Reply::nil();
  }
  std::vector<Target> left;
  for (const WorkerId id : run->participants) {
    const std::string& address = server.core.worker(id).address;
    left.push_back({address, address});
  }
  int stuck = 0;
  while (!left.empty()) {
    const std::size_t before = left.size();
    const auto answers = co_await ask_all(server, std::move(left), Question(inputs_done(shuffle, number)));
    left.clear();
    for (const Answer& answer : answers) {
      if (unreached(answer)) {
        left.push_back({answer.worker, answer.worker});
      } else if (answer.error) {
        co_return runtime_error("Unexpected error encountered during P2P barrier: " +
                                answer.error->text);
      }
    }
    if (left.empty()) break;
    server.log.warning(fmt::format("Failure during broadcast of {}, retrying.", shuffle));
    run = find_run(server.core.state(), shuffle);
    if (run == nullptr || run->number != number) {
      co_return runtime_error(fmt::format("A worker left during shuffle {}", name));
    }
    if (left.size() == before && ++stuck >= kBarrierRetries) {
      co_return runtime_error(fmt::format("Broadcast not making progress for {}. Aborting.", name));
    }
    co_await sleep(server.loop, kBarrierRetrySeconds);
  }
  co_return Reply::nil();
}

}  // namespace scheduler
