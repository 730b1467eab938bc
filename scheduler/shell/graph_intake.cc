//! Submissions and the answers of the graph processes; see graph_intake.h.
#include "scheduler/shell/graph_intake.h"

#include <algorithm>
#include <utility>

#include "protocol/base/key_token.h"
#include "protocol/wire/message.h"
#include "protocol/wire/pickles.h"
#include "scheduler/core/state.h"
#include "scheduler/shell/server.h"
#include "scheduler/shell/stream.h"

namespace scheduler {
namespace {

constexpr std::size_t kWantsSlice = 4096;
constexpr std::size_t kErrorsSlice = 4096;
//! Bytes a client may leave unread before it gets more.
constexpr std::size_t kUnsentMax = 4u << 20;
constexpr double kDrainSeconds = 0.005;

GraphWorkers workers_now(const Server& server) {
  GraphWorkers workers;
  for (const auto& [id, peer] : server.peers.workers()) {
    workers.threads = std::max(workers.threads, peer->nthreads);
    workers.all_threads += peer->nthreads;
    if (peer->memory_limit > 0 && (workers.memory == 0 || peer->memory_limit < workers.memory)) {
      workers.memory = peer->memory_limit;
    }
  }
  return workers;
}

//! What a task is restricted to and what can be neither an address nor a worker's name.
std::optional<protocol::Key> no_worker(const State& state, std::span<const GraphTask> tasks) {
  const Annotations* seen = nullptr;
  for (const GraphTask& task : tasks) {
    const Annotations* annotations = task.annotations.get();
    if (annotations == nullptr || std::exchange(seen, annotations) == annotations) continue;
    for (const protocol::Key& worker : annotations->workers) {
      const auto kind = protocol::read_key_token(worker.bytes).kind;
      const bool text = kind == protocol::KeyToken::Kind::str;
      if (!text && !state.aliases.contains(worker.bytes)) return worker;
    }
  }
  return std::nullopt;
}

GraphError own_error(std::string pickle, std::string text) {
  return {protocol::pickled_bytes_payload(pickle), protocol::nil_payload(), std::move(text), ""};
}

}  // namespace

GraphIntake::GraphIntake(Server& server, std::string python)
    : server_(server), python_(std::move(python)) {}

GraphIntake::~GraphIntake() = default;

void GraphIntake::start() {
  GraphLink::Options options;
  options.python = python_;
  options.temporary = server_.settings.temporary_directory;
  options.clients = [this] { return server_.peers.connected_clients(); };
  link_ = std::make_unique<GraphLink>(server_.loop.uv(), std::move(options), *this);
}

void GraphIntake::close() {
  if (link_) link_->close();
}

GraphIntake::Submission& GraphIntake::begin(SubmissionId id, ClientId client,
                                            const protocol::UpdateGraph& graph) {
  Submission& submission = submissions_[id];
  submission.client = client;
  submission.graph = &graph;
  submission.stimulus =
      graph.stimulus_id.empty() ? Server::stimulus("update-graph") : std::string(graph.stimulus_id);
  return submission;
}

protocol::Completer<bool> GraphIntake::refuse(ClientId client, const protocol::UpdateGraph& graph,
                                              std::string why) {
  const SubmissionId id(next_++);
  const protocol::Completer<bool> done = begin(id, client, graph).done;
  on_error(id, own_error(protocol::pickle_exception({"TypeError", why}), why));
  return done;
}

protocol::Completer<bool> GraphIntake::submit(ClientId client, const protocol::UpdateGraph& graph,
                                              Slice wanted) {
  const SubmissionId id(next_++);
  Submission& submission = begin(id, client, graph);
  const auto& actors =
      graph.actors == protocol::UpdateGraph::Actors::all ? graph.keys : graph.actor_keys;
  if (graph.actors != protocol::UpdateGraph::Actors::none) {
    for (const KeyView key : actors) submission.actor_keys.insert(key.bytes);
  }
  if (graph.actors == protocol::UpdateGraph::Actors::listed) {
    submission.actors_unmet = submission.actor_keys;
  }
  GraphLink::Request request;
  request.id = id;
  request.client = client;
  request.expr = graph.expr;
  request.annotations = graph.annotations;
  request.fifo_timeout = graph.fifo_timeout;
  request.order = !graph.has_priorities;
  request.wanted = std::move(wanted);
  request.settings = server_.metadata.plain_map(protocol::string_key("rask-settings"));
  request.workers = workers_now(server_);
  link_->submit(std::move(request));
  return submission.done;
}

GraphIntake::Submission* GraphIntake::find(SubmissionId id) {
  const auto found = submissions_.find(id);
  return found == submissions_.end() ? nullptr : &found->second;
}

GraphIntake::Submission* GraphIntake::under_way(SubmissionId id) {
  Submission* submission = find(id);
  return submission == nullptr || submission->failed ? nullptr : submission;
}

void GraphIntake::drop(ClientId client) {
  std::vector<SubmissionId> mine;
  for (const auto& [id, submission] : submissions_) {
    if (submission.client == client) mine.push_back(id);
  }
  for (const SubmissionId id : mine) {
    link_->drop(id);
    if (find(id)->opened) server_.step(GraphDropped{id}, Server::stimulus("remove-client"));
    end(id);
  }
}

void GraphIntake::drop_all() {
  while (!submissions_.empty()) {
    const SubmissionId id = submissions_.begin()->first;
    link_->drop(id);
    if (find(id)->opened) server_.step(GraphDropped{id}, Server::stimulus("restart"));
    end(id);
  }
}

void GraphIntake::end(SubmissionId id) {
  const auto found = submissions_.find(id);
  const protocol::Completer<bool> done = found->second.done;
  submissions_.erase(found);
  // The client's session goes on, but not from inside whoever called this.
  server_.loop.defer([done] { done.complete(true); });
}

protocol::Completer<GraphIntake::Loaded> GraphIntake::load(Slice plugin,
                                                           std::function<bool()> abandoned) {
  const UploadId id = next_upload_++;
  const protocol::Completer<Loaded> done = loading_[id];
  link_->load(id, std::move(plugin), std::move(abandoned));
  return done;
}

void GraphIntake::forget(UploadId id) { link_->forget(id); }

void GraphIntake::end_load(Loaded loaded) {
  const auto found = loading_.find(loaded.id);
  if (found == loading_.end()) return;
  const protocol::Completer<Loaded> done = found->second;
  loading_.erase(found);
  server_.loop.defer([done, loaded = std::move(loaded)] { done.complete(loaded); });
}

// ---- answers ------------------------------------------------------------------------------------

void GraphIntake::on_hello(ByteView versions) {
  versions_ = versions;
  protocol::Document document;
  if (document.parse(versions_)) packages_ = parse_packages(document.root());
  hello_.complete(true);
}

std::vector<std::uint32_t> GraphIntake::on_homes(SubmissionId, std::span<const KeyView> keys) {
  std::vector<std::uint32_t> homes;
  homes.reserve(keys.size());
  for (const KeyView key : keys) {
    homes.push_back(kNoHome);
    const auto id = server_.core.find(key);
    if (!id) continue;
    for (const Replica& replica : server_.core.task(*id).who_has) {
      if (!server_.core.worker(replica.worker).running()) continue;
      // The lowest number, so that blocks with copies on the same workers get the same home.
      homes.back() = std::min(homes.back(), replica.worker.value);
    }
  }
  return homes;
}

void GraphIntake::on_open(SubmissionId id, bool append, std::optional<std::uint64_t>,
                          std::optional<double> fifo_timeout) {
  Submission* submission = under_way(id);
  if (submission == nullptr) return;
  submission->opened = true;
  GraphOpened event;
  event.submission = id;
  event.client = submission->client;
  event.fifo_timeout = fifo_timeout.value_or(submission->graph->fifo_timeout_seconds);
  event.has_submitting_task = submission->graph->has_submitting_task;
  event.submitting_task = submission->graph->submitting_task;
  event.append = append;
  server_.step(event, submission->stimulus);
}

std::int64_t GraphIntake::priority_of(Submission& submission, KeyView key) {
  const protocol::UpdateGraph& graph = *submission.graph;
  const auto& given = graph.priorities;
  std::size_t& cursor = submission.priority_cursor;
  if (cursor < given.size() && given[cursor].first == key) return given[cursor++].second;
  if (submission.by_key.empty()) {
    for (const auto& [name, priority] : given) submission.by_key.emplace(name.bytes, priority);
    for (std::size_t i = 0; graph.priorities_in_order && i < graph.keys.size(); ++i) {
      submission.by_key.emplace(graph.keys[i].bytes, i);
    }
  }
  const auto found = submission.by_key.find(key.bytes);
  return found == submission.by_key.end() ? 0 : found->second;
}

void GraphIntake::note_priorities(Submission& submission, std::span<const KeyView> keys,
                                  bool outside) {
  const std::vector<KeyView>& wanted = submission.graph->keys;
  const std::uint64_t told =
      std::exchange(submission.keys_told, submission.keys_told + keys.size());
  if (outside) return;  // they have no records
  if (submission.as_numbered) {
    const bool more =
        submission.graph->priorities_in_order && told + keys.size() <= wanted.size() &&
        std::equal(keys.begin(), keys.end(), wanted.begin() + static_cast<long>(told));
    if (more) return;
    submission.as_numbered = false;
    for (std::uint64_t i = 0; i < told; ++i) {
      submission.priorities.push_back(static_cast<std::int64_t>(i));
    }
  }
  for (const KeyView key : keys) submission.priorities.push_back(priority_of(submission, key));
}

void GraphIntake::on_keys(SubmissionId id, std::span<const KeyView> keys, bool outside) {
  Submission* submission = under_way(id);
  if (submission == nullptr) return;
  if (submission->graph->has_priorities) note_priorities(*submission, keys, outside);
  if (!submission->actor_keys.empty()) {
    for (const KeyView key : keys) {
      submission->actor.push_back(submission->actor_keys.contains(key.bytes));
      submission->actors_unmet.erase(key.bytes);
    }
  }
  GraphKeys event;
  event.submission = id;
  event.keys = keys;
  event.outside = outside;
  server_.step(event, submission->stimulus);
}

void GraphIntake::send_wants(SubmissionId id, Submission& submission, std::size_t count) {
  const std::vector<KeyView>& wanted = submission.graph->keys;
  while (count > 0 && submission.wants_sent < wanted.size()) {
    const std::size_t slice = std::min({count, kWantsSlice, wanted.size() - submission.wants_sent});
    const std::span<const KeyView> keys(wanted.data() + submission.wants_sent, slice);
    submission.wants_sent += slice;
    count -= slice;
    server_.step(GraphWants{id, keys}, submission.stimulus);
  }
}

void GraphIntake::on_records(SubmissionId id, std::vector<GraphTask> tasks) {
  Submission* submission = under_way(id);
  if (submission == nullptr) return;
  for (GraphTask& task : tasks) {
    if (submission->graph->has_priorities) {
      task.priority = submission->as_numbered ? task.key : submission->priorities[task.key];
    }
    task.actor = task.actor || (!submission->actor.empty() && submission->actor[task.key]);
  }
  if (const auto worker = no_worker(server_.core.state(), tasks)) {
    const std::string text =
        "addresses should be strings or tuples, got " + protocol::key_repr(*worker);
    return on_error(id, own_error(protocol::pickle_exception({"TypeError", text}), text));
  }
  // As many wants as records, so that neither makes a turn long.
  send_wants(id, *submission, std::max(tasks.size(), std::size_t{1}));
  server_.step(GraphRecords{id, std::move(tasks)}, submission->stimulus);
}

void GraphIntake::on_barriers(SubmissionId id, std::vector<GraphBarrier> barriers) {
  Submission* submission = under_way(id);
  if (submission == nullptr) return;
  server_.step(GraphBarriers{id, std::move(barriers)}, submission->stimulus);
}

void GraphIntake::on_commit(SubmissionId id) {
  Submission* submission = under_way(id);
  if (submission == nullptr) return;
  send_wants(id, *submission, submission->graph->keys.size());
  if (const auto key = unknown_actor(*submission)) {
    return on_error(id, own_error(protocol::pickle_key_error(*key), protocol::key_repr(*key)));
  }
  server_.step(GraphCommitted{id}, submission->stimulus);
  report(*submission, "OK");
  end(id);
}

//! A key that the client wants to be an actor and that no task has.
std::optional<KeyView> GraphIntake::unknown_actor(const Submission& submission) const {
  for (const std::string_view key : submission.actors_unmet) {
    if (!server_.core.find(KeyView{key})) return KeyView{key};
  }
  return std::nullopt;
}

void GraphIntake::on_error(SubmissionId id, GraphError error) {
  Submission* submission = under_way(id);
  if (submission == nullptr) return;
  submission->failed = true;
  server_.log.error(error.exception_text);
  if (submission->opened) server_.step(GraphDropped{id}, submission->stimulus);
  spawn(report_failure(id, std::move(error)));
}

//! One answer per key, as stock: a slice in each turn, as fast as the client takes them.
protocol::Async<void> GraphIntake::report_failure(SubmissionId id, GraphError error) {
  for (std::size_t at = 0; find(id) != nullptr;) {  // or else the client has left
    const Submission& submission = *find(id);
    const std::vector<KeyView>& keys = submission.graph->keys;
    ClientPeer* client = server_.peers.find(submission.client);
    const std::size_t end_of_slice = std::min(keys.size(), at + kErrorsSlice);
    for (; client != nullptr && at < end_of_slice; ++at) {
      protocol::write(client->stream.op(),
                      protocol::ClientTaskErred{keys[at], error.exception, error.traceback});
    }
    if (client == nullptr || at == keys.size()) break;
    co_await next_turn(server_.loop);
    while (find(id) != nullptr && client->stream.unsent_bytes() > kUnsentMax) {
      co_await sleep(server_.loop, kDrainSeconds);
    }
  }
  if (find(id) == nullptr) co_return;
  report(*find(id), "error");
  end(id);
}

void GraphIntake::on_loaded(UploadId id, std::string_view name) {
  end_load({id, std::string(name), std::nullopt});
}

void GraphIntake::on_load_error(UploadId id, GraphError error) {
  end_load({id, "", std::move(error)});
}

void GraphIntake::on_log(std::string_view line) { server_.log.info(line); }

void GraphIntake::report(const Submission& submission, std::string_view status) {
  ClientPeer* client = server_.peers.find(submission.client);
  if (client == nullptr) return;
  server_.topics.publish({"scheduler", client->name}, [&](protocol::MessageWriter& out) {
    out.map(3);
    out.field("action");
    out.str("update-graph");
    out.field("stimulus_id");
    out.str(submission.stimulus);
    out.field("status");
    out.str(status);
  });
}

}  // namespace scheduler
