//! Killing by nanny, removing, waiting for replacements; see restart.h.
#include "scheduler/shell/restart.h"

#include <fmt/format.h>

#include <map>
#include <string>

#include "scheduler/shell/ask.h"
#include "scheduler/shell/rpc.h"
#include "scheduler/shell/server.h"
#include "scheduler/shell/stream.h"

namespace scheduler {

using protocol::MessageWriter;

namespace {

struct Order {
  std::vector<WorkerId> workers;
  double timeout = 30;
  bool wait = true;
  bool raise = true;  //!< on_error
  std::string stimulus;
};

struct Outcome {
  std::map<std::string, std::string> states;  //!< address -> OK, removed, timed out
  std::optional<protocol::PythonError> error;
};

std::string list_of(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (const std::string& text : texts) out += (out.size() > 1 ? ", '" : "'") + text + "'";
  return out + "]";
}

protocol::OutMessage kill_message(std::string_view reason) {
  MessageWriter out;
  out.map(3);
  out.field("op");
  out.str("kill");
  out.field("reason");
  out.str(reason);
  out.field("reply");
  out.boolean(true);
  return out.finish();
}

//! Removes what has no nanny, kills the rest by their nannies. Names those removed.
Async<std::vector<std::string>> stop_workers(Server& server, const Order& order, Outcome& out) {
  std::vector<std::string> alone;
  std::vector<Target> nannies;
  std::map<std::string, WorkerId> ids;
  for (const WorkerId id : order.workers) {
    const WorkerPeer* worker = server.peers.find(id);
    if (worker == nullptr) continue;
    ids.emplace(worker->address, id);
    if (worker->nanny.empty()) {
      alone.push_back(worker->address);
    } else {
      nannies.push_back({worker->address, worker->nanny});
    }
  }
  if (!alone.empty()) {
    server.log.warning(fmt::format("Workers {} do not use a nanny and will be terminated without "
                                   "restarting them", list_of(alone)));
  }
  for (const std::string& address : alone) {
    server.remove_worker(ids.at(address), order.stimulus, false, true);
    out.states[address] = "removed";
  }
  const std::size_t asked = nannies.size();
  Question question(kill_message(order.stimulus));
  question.timeout = protocol::Duration::seconds(order.timeout);
  question.keep = false;
  const auto answers = co_await ask_all(server, std::move(nannies), std::move(question));
  std::vector<std::string> stuck;
  for (const Answer& answer : answers) {
    out.states[answer.worker] = answer.error ? "timed out" : "OK";
    if (answer.error) stuck.push_back(answer.worker);
  }
  if (!stuck.empty()) {
    server.log.error(fmt::format("Workers {} did not shut down within {}s; force closing",
                                 list_of(stuck), order.timeout));
    for (const std::string& address : stuck) {
      server.remove_worker(ids.at(address), order.stimulus, false, true);
    }
    out.error = protocol::PythonError{
        "TimeoutError", fmt::format("{}/{} nanny worker(s) did not shut down within {}s: {}",
                                    stuck.size(), asked, order.timeout, list_of(stuck))};
  }
  co_return alone;
}

protocol::PythonError not_back(const Server& server, const Order& order, std::size_t before,
                               std::size_t alone) {
  std::string text = fmt::format(
      "Waited for {} worker(s) to reconnect after restarting but, after {}s, {} have not returned. "
      "Consider a longer timeout, or `wait_for_workers=False`.",
      order.workers.size(), order.timeout, before - server.peers.workers().size());
  if (alone > 0) {
    text += fmt::format(
        " The {} worker(s) not using Nannies were just shut down instead of restarted (restart is "
        "only possible with Nannies). If your deployment system does not automatically re-launch "
        "terminated processes, then those workers will never come back, and `Client.restart` will "
        "always time out. Do not use `Client.restart` in that case.",
        alone);
  }
  return {"TimeoutError", text};
}

Async<Outcome> restart_them(Server& server, Order order) {
  Outcome out;
  const std::size_t before = server.peers.workers().size();
  const double deadline = server.loop.now().mono.as_seconds() + order.timeout;
  const auto alone = co_await stop_workers(server, order, out);
  if (out.error && order.raise) co_return out;
  out.error.reset();
  server.topics.publish({"all"}, [&](MessageWriter& event) {
    event.map(2);
    event.field("action");
    event.str("restart-workers");
    event.field("workers");
    event.array(static_cast<std::uint32_t>(out.states.size()));
    for (const auto& [address, state] : out.states) event.str(address);
  });
  if (!order.wait) {
    server.log.info("Workers restart finished (did not wait for new workers) "
                    "(stimulus_id='" + order.stimulus + "'");
    co_return out;
  }
  while (server.peers.workers().size() < before &&
         server.loop.now().mono.as_seconds() < deadline) {
    co_await sleep(server.loop, 0.05);
  }
  if (server.peers.workers().size() >= before) {
    server.log.info("Workers restart finished (stimulus_id='" + order.stimulus + "'");
    co_return out;
  }
  out.error = not_back(server, order, before, alone.size());
  if (!order.raise) {
    server.log.error(out.error->text);
    out.error.reset();
  }
  co_return out;
}

Order order_of(Server& server, const Request& request) {
  Order order;
  order.timeout = request.seconds("timeout", 30);
  order.wait = request.flag("wait_for_workers", true);
  order.raise = request.text("on_error", "raise") == "raise";
  order.stimulus = request.text("stimulus_id", "restart");
  const Value named = request.get("workers");
  if (named.exists()) {
    for (const Value name : named.elements()) {
      if (const WorkerPeer* worker = server.find_worker(name)) order.workers.push_back(worker->id);
    }
  } else {
    for (const auto& [id, worker] : server.peers.workers()) order.workers.push_back(id);
  }
  return order;
}

Async<void> restart_quietly(Server& server, Order order) {
  (void)co_await restart_them(server, std::move(order));
}

}  // namespace

void restart_silent_workers(Server& server, std::vector<WorkerId> workers) {
  Order order;
  order.workers = std::move(workers);
  order.wait = false;
  order.raise = false;
  order.stimulus = Server::stimulus("check-worker-ttl");
  spawn(restart_quietly(server, std::move(order)));
}

Async<Reply> rpc_restart_workers(Server& server, Request request) {
  const Order order = order_of(server, request);
  server.log.info(fmt::format("Restarting {} workers (stimulus_id='{}')", order.workers.size(),
                              order.stimulus));
  const Outcome outcome = co_await restart_them(server, order);
  if (outcome.error) co_return Reply::raise(*outcome.error);
  co_return Reply::written([&](MessageWriter& out) {
    out.map(static_cast<std::uint32_t>(outcome.states.size()));
    for (const auto& [address, state] : outcome.states) {
      out.str(address);
      out.str(state);
    }
  });
}

Async<Reply> rpc_restart(Server& server, Request request) {
  const Order order = order_of(server, request);
  server.log.info(fmt::format("Restarting workers and releasing all keys (stimulus_id='{}')",
                              order.stimulus));
  server.graphs.drop_all();
  server.step(Restarted{}, order.stimulus);
  const Outcome outcome = co_await restart_them(server, order);
  if (outcome.error) co_return Reply::raise(*outcome.error);
  co_return Reply::nil();
}

}  // namespace scheduler
