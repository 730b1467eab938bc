//! Values in and out through the scheduler: gather, scatter, update_data.
//!
//! Answers to: Scheduler.gather, scatter, update_data and add_keys; utils_comm.scatter_to_workers.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "scheduler/shell/gather.h"
#include "scheduler/shell/rpc.h"
#include "scheduler/shell/scatter.h"
#include "scheduler/shell/server.h"
#include "scheduler/shell/stream.h"

namespace scheduler {

using protocol::KeyView;
using protocol::MessageWriter;

Async<Reply> rpc_gather(Server& server, Request request) {
  protocol::GatherCall call;
  if (auto read = request.read(call); !read) co_return Reply::raise(read.error());
  const std::size_t count = call.keys.size();
  Gathering gathering(server, request.message, std::move(call.keys), request.call.serializers);
  co_await gathering.run();
  server.topics.publish({"all"}, [&](MessageWriter& out) {
    out.map(2);
    out.field("action");
    out.str("gather");
    out.field("count");
    out.uinteger(count);
  });
  if (!gathering.failed().empty()) {
    std::string states;
    for (const KeyView key : gathering.failed()) {
      const auto id = server.core.find(key);
      states += fmt::format("{}{}: '{}'", states.empty() ? "" : ", ", protocol::key_repr(key),
                            id ? state_name(server.core.task(*id).state) : "forgotten");
      if (states.size() > 1000) break;
    }
    server.log.error("Couldn't gather keys: {" + states + "}");
  }
  co_return gathering.reply();
}

DataScattered scattered(Server& server, ClientId client, const protocol::WhoHas& who_has) {
  DataScattered event;
  event.client = client;
  for (const protocol::Holders& holders : who_has.keys) {
    ScatteredKey key;
    key.key = holders.key;
    key.nbytes = holders.nbytes;
    for (const std::string_view address : who_has.workers(holders)) {
      if (const WorkerPeer* worker = server.find_worker(address)) key.workers.push_back(worker->id);
    }
    event.keys.push_back(std::move(key));
  }
  return event;
}

Reply rpc_update_data(Server& server, const Request& request) {
  protocol::UpdateData call;
  if (auto read = request.read(call); !read) return Reply::raise(read.error());
  const ClientId client = call.client.empty() ? ClientId() : server.client_named(call.client);
  server.step(scattered(server, client, call.who_has), Server::stimulus("update-data"));
  return Reply::nil();
}

Reply rpc_add_keys(Server& server, const Request& request) {
  protocol::KeysCall call;
  if (auto read = request.read(call); !read) return Reply::raise(read.error());
  const WorkerPeer* worker = server.find_worker(request.get("worker"));
  if (worker == nullptr) return Reply::text("not found");
  server.step(ReplicasAdded{worker->id, call.keys}, Server::stimulus("add-keys"));
  return Reply::text("OK");
}

namespace {

//! Running workers among those asked for, by address; waits for one up to the timeout.
Async<protocol::Result<std::vector<std::string>>> targets(Server& server,
                                                          const protocol::ScatterCall& call) {
  const double deadline = wall_time() + call.timeout_seconds;
  while (true) {
    std::vector<std::string> out;
    for (const auto& [id, worker] : server.peers.workers()) {
      if (!server.core.worker(id).running()) continue;
      const bool asked =
          !call.has_workers ||
          std::any_of(call.workers.begin(), call.workers.end(), [&, peer = worker.get()](auto name) {
            return server.find_worker(name) == peer;
          });
      if (asked) out.push_back(worker->address);
    }
    if (!out.empty()) {
      std::sort(out.begin(), out.end());
      co_return out;
    }
    if (wall_time() > deadline) {
      co_return protocol::Error{protocol::Fault::timeout, "No valid workers found"};
    }
    co_await sleep(server.loop, 0.1);
  }
}

//! Sends one worker its share; answers with the sizes.
Async<protocol::Result<std::vector<std::pair<std::string, std::uint64_t>>>> deliver(
    Server& server, std::string address, protocol::Data data) {
  protocol::UpdateDataCall call;
  call.data = std::move(data);
  MessageWriter question;
  protocol::write(question, call);
  protocol::RpcPool::Call rpc{address, question.finish(), {}, true};
  auto frames = co_await server.pool.call(std::move(rpc));
  if (!frames) co_return frames.error();
  protocol::Message answer;
  if (auto parsed = answer.reset(std::move(*frames)); !parsed) co_return parsed.error();
  protocol::UpdateDataReply reply;
  if (auto read = protocol::read(answer, reply); !read) co_return read.error();
  std::vector<std::pair<std::string, std::uint64_t>> sizes;
  for (const auto& [key, nbytes] : reply.nbytes) sizes.emplace_back(key.bytes, nbytes);
  co_return sizes;
}

//! Which worker gets which values: round-robin, `copies` of each.
std::map<std::string, protocol::Data> shares(Server& server, const std::vector<std::string>& workers,
                                             const protocol::Data& data, std::size_t copies,
                                             protocol::WhoHas& who_has) {
  std::map<std::string, protocol::Data> out;
  for (const auto& item : data) {
    const std::size_t first = server.scatter_turn++ % workers.size();
    who_has.add_key(item.first);
    for (std::size_t copy = 0; copy < copies; ++copy) {
      const std::string& worker = workers[(first + copy) % workers.size()];
      out[worker].push_back(item);
      who_has.add_address(worker);
    }
  }
  return out;
}

}  // namespace

Async<Reply> rpc_scatter(Server& server, Request request) {
  protocol::ScatterCall call;
  if (auto read = request.read(call); !read) co_return Reply::raise(read.error());
  const auto workers = co_await targets(server, call);
  if (!workers) co_return Reply::raise({"TimeoutError", workers.error().where});
  std::size_t copies = 1;
  if (call.broadcast) copies = call.copies > 0 ? static_cast<std::size_t>(call.copies) : workers->size();
  copies = std::min(copies, workers->size());

  protocol::WhoHas who_has;
  std::vector<Async<protocol::Result<std::vector<std::pair<std::string, std::uint64_t>>>>> sends;
  for (auto& [address, share] : shares(server, *workers, call.data, copies, who_has)) {
    sends.push_back(deliver(server, address, share));
  }
  std::map<std::string, std::uint64_t, std::less<>> sizes;
  const auto deliveries = co_await protocol::all(std::move(sends));
  for (const auto& sent : deliveries) {
    if (!sent) co_return Reply::raise({"OSError", sent.error().where});
    for (const auto& [key, nbytes] : *sent) sizes[key] = nbytes;
  }
  for (protocol::Holders& holders : who_has.keys) {
    const auto size = sizes.find(holders.key.bytes);
    if (size != sizes.end()) holders.nbytes = size->second;
  }
  const ClientId client = call.client.empty() ? ClientId() : server.client_named(call.client);
  server.step(scattered(server, client, who_has), Server::stimulus("scatter"));
  server.topics.publish({call.client, "all"}, [&](MessageWriter& out) {
    out.map(3);
    out.field("action");
    out.str("scatter");
    out.field("client");
    out.str(call.client);
    out.field("count");
    out.uinteger(call.data.size());
  });
  co_return Reply::written([&](MessageWriter& out) {
    out.array(static_cast<std::uint32_t>(call.data.size()));
    for (const auto& [key, value] : call.data) out.key(key);
  });
}

}  // namespace scheduler
