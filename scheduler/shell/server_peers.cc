//! Workers and clients that come and go; see server.h.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "protocol/wire/messages_worker.h"
#include "scheduler/core/state.h"
#include "scheduler/shell/server.h"
#include "scheduler/shell/stream.h"
#include "scheduler/shell/translate_in.h"

namespace scheduler {
namespace {

constexpr std::size_t kNamesShown = 100;
constexpr std::size_t kLossesTold = 8192;  //!< of each kind, in the event of a worker's loss
constexpr std::size_t kReportsPerPass = 4096;

void write_set(protocol::MessageWriter& out, const std::vector<KeyView>& keys) {
  out.map(2);
  out.field("__Set__");
  out.boolean(true);
  out.field("as-list");
  out.array(static_cast<std::uint32_t>(keys.size()));
  for (const KeyView key : keys) out.key(key);
}

std::string names_of(const std::vector<KeyView>& keys) {
  std::string out = "{";
  for (std::size_t i = 0; i < keys.size() && i < kNamesShown; ++i) {
    out += (i > 0 ? ", " : "") + protocol::key_repr(keys[i]);
  }
  if (keys.size() > kNamesShown) out += fmt::format(", … {} in all", keys.size());
  return out + "}";
}

}  // namespace

WorkerPeer* Server::find_worker(std::string_view text) {
  if (WorkerPeer* exact = peers.find_worker(text)) return exact;
  auto parsed = protocol::parse_address(text);
  if (!parsed) return nullptr;
  if (const auto known = resolved_.find(parsed->host); known != resolved_.end()) {
    parsed->host = known->second;
  }
  return peers.find_worker(parsed->text());
}

WorkerPeer* Server::find_worker(protocol::Value value) {
  if (!value.exists()) return nullptr;
  const auto name = protocol::canonical_key(value.raw());
  if (name) {
    if (WorkerPeer* alias = peers.find_alias(*name)) return alias;
  }
  const auto text = value.as_str();
  return text ? find_worker(*text) : nullptr;
}

void Server::remember_host(const std::string& name, const std::string& ip) {
  if (name != ip && resolved_.size() < 10'000) resolved_[name] = ip;
}

double Server::heartbeat_interval(std::size_t count) const {
  if (count <= 10) return 0.5;
  if (count < 50) return 1;
  if (count < 200) return 2;
  return static_cast<double>(count) / 200 + 1;
}

void Server::close_worker(WorkerPeer& worker) {
  log.info("Closing worker " + worker.address);
  topics.publish({worker.address}, [](protocol::MessageWriter& out) {
    out.map(1);
    out.field("action");
    out.str("close-worker");
  });
  protocol::write(worker.stream.op(), protocol::CloseWorker{"scheduler-close-worker"});
}

//! What is lost with a worker: its running tasks, and values nobody else holds. Of a great many,
//! the first ones, because to look at all takes too long for one turn.
struct Server::Losses {
  std::vector<KeyView> processing;
  std::vector<KeyView> computed;
  std::vector<KeyView> scattered;
};

Server::Losses Server::losses_with(const WorkerPeer& worker) const {
  Losses out;
  const Worker& record = core.worker(worker.id);
  const auto first = [](const std::vector<TaskId>& list) {
    return std::span(list).first(std::min(list.size(), kLossesTold));
  };
  for (const TaskId running : first(record.processing)) {
    out.processing.push_back(KeyView{core.task(running).spelled_key()});
  }
  for (const TaskId held : first(record.has_what)) {
    const Task& task = core.task(held);
    if (task.who_has.size() > 1) continue;
    (task.spec ? out.computed : out.scattered).push_back(KeyView{task.spelled_key()});
  }
  return out;
}

void Server::report_losses(const WorkerPeer& worker, std::string_view stimulus, bool expected) {
  const Losses losses = losses_with(worker);
  const auto write = [&](protocol::MessageWriter& out, bool name_it) {
    out.map(name_it ? 7 : 6);
    out.field("action");
    out.str("remove-worker");
    out.field("processing-tasks");
    write_set(out, losses.processing);
    out.field("lost-computed-tasks");
    write_set(out, losses.computed);
    out.field("lost-scattered-tasks");
    write_set(out, losses.scattered);
    out.field("stimulus_id");
    out.str(stimulus);
    out.field("expected");
    out.boolean(expected);
    if (name_it) {
      out.field("worker");
      out.str(worker.address);
    }
  };
  topics.publish({worker.address}, [&](protocol::MessageWriter& out) { write(out, false); });
  topics.publish({"all"}, [&](protocol::MessageWriter& out) { write(out, true); });
  if (!losses.computed.empty()) {
    log.warning(fmt::format("Removing worker '{}' caused the cluster to lose already computed "
                            "task(s), which will be recomputed elsewhere: {} (stimulus_id='{}')",
                            worker.address, names_of(losses.computed), stimulus));
  }
  if (!losses.scattered.empty()) {
    log.error(fmt::format("Removing worker '{}' caused the cluster to lose scattered data, which "
                          "can't be recovered: {} (stimulus_id='{}')",
                          worker.address, names_of(losses.scattered), stimulus));
  }
}

void Server::announce_loss(WorkerPeer& worker, std::string_view stimulus, bool expected) {
  log.info(fmt::format("Remove worker addr: {} name: {} (stimulus_id='{}')", worker.address,
                       protocol::key_text(worker.name), stimulus));
  report_losses(worker, stimulus, expected);
  pool.forget(worker.address);
  watchers.removed(worker);
  clean_topic_later(worker.address);
}

void Server::remove_worker(WorkerId worker_id, std::string_view stimulus, bool expected,
                           bool tell_to_close) {
  WorkerPeer* worker = peers.find(worker_id);
  if (worker == nullptr) return;
  if (!worker->fading) announce_loss(*worker, stimulus, expected);
  if (tell_to_close) {
    protocol::write(worker->stream.op(), protocol::CloseWorker{"scheduler-remove-worker"});
  }
  step(WorkerLost{worker_id, expected}, stimulus);
  // What was said to it last is still to be written: it lives on with its connection.
  std::shared_ptr<WorkerPeer> leaving = peers.remove(worker_id);
  if (!leaving->connection->closed()) {
    const protocol::Connection::Ref connection = leaving->connection;
    connection->on_close([leaving] {});
  }
  if (peers.workers().empty()) log.info("Lost all workers");
}

protocol::Async<void> Server::lose_worker(WorkerId worker_id, std::string stimulus) {
  const auto much = [&] {
    const Worker& worker = core.worker(worker_id);
    return worker.processing.size() + worker.has_what.size() >
           core.state().config.transitions_at_once;
  };
  while (WorkerPeer* worker = peers.find(worker_id)) {  // or else it was removed meanwhile
    if (!much()) co_return remove_worker(worker_id, stimulus, false, false);
    if (!std::exchange(worker->fading, true)) announce_loss(*worker, stimulus, false);
    step(WorkerFading{worker_id, false}, stimulus);
    co_await next_turn(loop);
  }
}

void Server::set_worker_status(WorkerPeer& worker, WorkerStatus status, std::string_view stimulus) {
  const WorkerStatus before = core.worker(worker.id).status;
  if (before == status) return;
  topics.publish({worker.address}, [&](protocol::MessageWriter& out) {
    out.map(4);
    out.field("action");
    out.str("worker-status-change");
    out.field("prev-status");
    out.str(status_name(before));
    out.field("status");
    out.str(status_name(status));
    out.field("stimulus_id");
    out.str(stimulus);
  });
  step(WorkerStatusChanged{worker.id, status}, stimulus);
}

ClientId Server::client_named(std::string_view name) {
  if (const ClientPeer* known = peers.find_client(name)) return known->id;
  auto pseudo = std::make_unique<ClientPeer>();
  pseudo->id = peers.next_client_id();
  pseudo->name = name;
  const ClientPeer& client = peers.add(std::move(pseudo));
  step(ClientAdded{client.id, client.name}, Server::stimulus("add-client"));
  return client.id;
}

void Server::remove_client(ClientId client_id, std::string_view stimulus) {
  ClientPeer* client = peers.find(client_id);
  if (client == nullptr) return;
  if (!closing_) log.info("Remove client " + client->name);
  topics.publish({"all", client->name}, [&](protocol::MessageWriter& out) {
    out.map(2);
    out.field("action");
    out.str("remove-client");
    out.field("client");
    out.str(client->name);
  });
  graphs.drop(client_id);
  topics.forget(client_id);
  clean_topic_later(client->name);
  step(ClientRemoved{client_id}, stimulus);
  peers.remove(client_id);
}

void Server::report_again(ClientId client, std::vector<protocol::Key> keys) {
  retried_.push_back({client, std::move(keys), 8, 0});
}

void Server::report_retried() {
  std::size_t budget = kReportsPerPass;
  for (Retried& retried : retried_) {
    for (; retried.at < retried.keys.size() && budget > 0; ++retried.at, --budget) {
      const protocol::Key& key = retried.keys[retried.at];
      const auto task = core.find(key.view());
      if (!task) continue;
      const TaskState state = core.task(*task).state;
      if (state != TaskState::memory && state != TaskState::erred) continue;
      step(KeyReported{retried.client, key.view()}, Server::stimulus("report-retried"));
    }
    if (retried.at < retried.keys.size()) continue;
    retried.at = 0;
    --retried.reports_left;
  }
  std::erase_if(retried_, [](const Retried& retried) { return retried.reports_left <= 0; });
}

}  // namespace scheduler
