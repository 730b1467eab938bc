//! One small function per action; see translate_out.h.
#include "scheduler/shell/translate_out.h"

#include <fmt/format.h>

#include <variant>

#include "scheduler/core/state.h"
#include "scheduler/shell/own_errors.h"

namespace scheduler {

namespace {

using protocol::Pace;

//! Who has asked for much more than the workers can begin hears of the rest in time anyway.
Pace pace_of(const State& state, ClientId id) {
  const Client* client = state.client(id);
  if (client == nullptr) return Pace::steady;
  if (client->pending == 0) return Pace::at_once;
  return client->pending > 16 + 4 * state.total_nthreads ? Pace::relaxed : Pace::steady;
}

}  // namespace

bool ActionWriter::write(const Actions& actions, std::string_view stimulus) {
  stimulus_ = stimulus;
  turn_wanted_ = tick_wanted_ = false;
  for (const Action& action : actions) {
    std::visit([this](const auto& one) { on(one); }, action);
  }
  write_all_pending();
  return turn_wanted_;
}

protocol::MessageWriter* ActionWriter::to(WorkerId id) {
  WorkerPeer* worker = peers_.find(id);
  if (worker == nullptr) return nullptr;
  if (!pending_free_.empty() || !pending_compute_.empty()) write_pending(id);
  return &worker->stream.op();
}

protocol::MessageWriter* ActionWriter::to(ClientId id) {
  ClientPeer* client = peers_.find(id);
  if (client == nullptr || !client->connection) return nullptr;
  client->stream.set_pace(pace_of(core_.state(), id));
  return &client->stream.op();
}

// ---- to workers ---------------------------------------------------------------------------------

void ActionWriter::add_holders(protocol::WhoHas& out, const Task& task) {
  out.add_key(KeyView{task.spelled_key()}, core_.state().size_of(task));
  for (const Replica& replica : task.who_has) out.add_address(core_.worker(replica.worker).address);
}

void ActionWriter::fill(protocol::DenseTask& out, const SendCompute& action, WorkerPeer& worker) {
  const Task& task = core_.task(action.task);
  out.key = KeyView{task.spelled_key()};
  out.run_id = action.run.value;
  out.priority = {task.priority.user, task.priority.generation,
                  static_cast<double>(task.priority.order)};
  protocol::RunSpec spec = task.spec.get();
  out.tail = spec.tail.empty() ? 0 : worker.blobs.number(spec.tail, dense_.blobs);
  out.own = std::move(spec.own);
  out.buffers.clear();
  for (const Slice& buffer : spec.buffers) {
    const protocol::BlobNumber number = worker.blobs.number_if_shared(buffer, dense_.blobs);
    out.buffers.push_back({number, number == 0 ? buffer : Slice()});
  }
  out.dependencies.clear();
  for (const Edge& edge : task.dependencies) add_holders(out.dependencies, core_.task(edge.task));
  out.resources.clear();
  if (const Resources* resources = task.resources()) {
    for (const auto& [name, amount] : *resources) out.resources.emplace_back(name, amount);
  }
  out.actor = task.actor;
  out.annotations = task.annotations ? task.annotations->raw : nullptr;
}

void ActionWriter::write_computes(WorkerPeer& worker, const std::vector<SendCompute>& computes) {
  dense_.blobs.clear();
  if (dense_tasks_.size() < computes.size()) dense_tasks_.resize(computes.size());
  for (std::size_t i = 0; i < computes.size(); ++i) fill(dense_tasks_[i], computes[i], worker);
  dense_.tasks = static_cast<std::uint32_t>(computes.size());
  dense_.stimulus_id = stimulus_;
  protocol::MessageWriter& out = worker.stream.op();
  protocol::write(out, dense_);
  for (std::size_t i = 0; i < computes.size(); ++i) protocol::write(out, dense_tasks_[i]);
}

void ActionWriter::on(const SendCompute& action) {
  if (const WorkerPeer* worker = peers_.find(action.worker); worker != nullptr && worker->rask) {
    pending_compute_[action.worker].push_back(action);
    return;
  }
  protocol::MessageWriter* out = to(action.worker);
  if (out == nullptr) return;
  const Task& task = core_.task(action.task);
  compute_.key = KeyView{task.spelled_key()};
  compute_.run_id = action.run.value;
  compute_.priority = {task.priority.user, task.priority.generation,
                       static_cast<double>(task.priority.order)};
  compute_.dependencies.clear();
  for (const Edge& edge : task.dependencies) add_holders(compute_.dependencies, core_.task(edge.task));
  const protocol::RunSpec spec = task.spec.get();
  compute_.spec = &spec;
  compute_.resources.clear();
  if (const Resources* resources = task.resources()) {
    for (const auto& [name, amount] : *resources) compute_.resources.emplace_back(name, amount);
  }
  compute_.actor = task.actor;
  compute_.annotations = task.annotations ? task.annotations->raw : nullptr;
  compute_.stimulus_id = stimulus_;
  protocol::write(*out, compute_);
}

void ActionWriter::free_later(WorkerId worker, KeyView key) { pending_free_[worker].push_back(key); }

void ActionWriter::write_pending(WorkerId id) {
  WorkerPeer* worker = peers_.find(id);
  // Computes end a step, so what is to be freed came before them.
  if (const auto found = pending_free_.find(id); found != pending_free_.end()) {
    if (worker != nullptr) {
      free_.keys.swap(found->second);
      free_.stimulus_id = stimulus_;
      protocol::write(worker->stream.op(), free_);
    }
    pending_free_.erase(found);
  }
  if (const auto found = pending_compute_.find(id); found != pending_compute_.end()) {
    if (worker != nullptr) write_computes(*worker, found->second);
    pending_compute_.erase(found);
  }
}

void ActionWriter::write_all_pending() {
  while (!pending_free_.empty()) write_pending(pending_free_.begin()->first);
  while (!pending_compute_.empty()) write_pending(pending_compute_.begin()->first);
}

void ActionWriter::forget_blobs() {
  for (const auto& [id, worker] : peers_.workers()) {
    if (worker->blobs.size() == 0) continue;
    protocol::ForgetBlobs gone{worker->blobs.sweep()};
    if (!gone.numbers.empty()) protocol::write(worker->stream.op(), gone);
  }
}

void ActionWriter::on(const SendFree& action) { free_later(action.worker, spelled(action.task)); }

void ActionWriter::on(const SendFreeUnknown& action) { free_later(action.worker, action.key.view()); }

void ActionWriter::on(const SendRemoveReplica& action) {
  if (auto* out = to(action.worker)) {
    protocol::write(*out, protocol::RemoveReplicas{{action.key.view()}, stimulus_});
  }
}

void ActionWriter::on(const SendAcquireReplica& action) {
  if (auto* out = to(action.worker)) {
    acquire_.who_has.clear();
    add_holders(acquire_.who_has, core_.task(action.task));
    acquire_.stimulus_id = stimulus_;
    protocol::write(*out, acquire_);
  }
}

void ActionWriter::on(const SendRefreshWhoHas& action) {
  if (auto* out = to(action.worker)) {
    refresh_.who_has.clear();
    for (const TaskId task : action.tasks) add_holders(refresh_.who_has, core_.task(task));
    refresh_.stimulus_id = stimulus_;
    protocol::write(*out, refresh_);
  }
}

void ActionWriter::on(const SendStealRequest& action) {
  if (auto* out = to(action.worker)) {
    // The worker echoes the stimulus; it carries the theft's id there and back.
    const std::string theft = fmt::format("steal-{}", action.theft);
    protocol::write(*out, protocol::StealRequest{spelled(action.task), theft});
  }
}

void ActionWriter::on(const SendShuffleFail& action) {
  if (auto* out = to(action.worker)) {
    protocol::write(*out, protocol::ShuffleFail{action.shuffle, action.run, action.message});
  }
}

void ActionWriter::on(const AnnounceWorkerGone& action) {
  const std::string& gone = core_.worker(action.gone).address;
  for (const auto& [id, worker] : peers_.workers()) {
    if (id == action.gone) continue;
    if (auto* out = to(id)) protocol::write(*out, protocol::RemoveWorker{gone, stimulus_});
  }
}

// ---- to clients ---------------------------------------------------------------------------------

void ActionWriter::on(const ReportInMemory& action) {
  if (auto* out = to(action.client)) {
    protocol::write(*out, protocol::KeyInMemory{spelled(action.task), action.type.view(), {}});
  }
}

void ActionWriter::on(const ReportErred& action) {
  auto* out = to(action.client);
  if (out == nullptr) return;
  const Task& task = core_.task(action.task);
  const ErrorPayloads error = error_payloads(task);
  protocol::write(*out, protocol::ClientTaskErred{KeyView{task.spelled_key()}, error.exception,
                                                  error.traceback});
}

void ActionWriter::on(const ReportLost& action) {
  if (auto* out = to(action.client)) protocol::write(*out, protocol::LostData{spelled(action.task)});
}

void ActionWriter::on(const ReportRetried& action) {
  if (auto* out = to(action.client)) {
    protocol::write(*out, protocol::TaskRetried{spelled(action.task)});
  }
}

void ActionWriter::on(const ReportCancelled& action) {
  auto* out = to(action.client);
  if (out == nullptr) return;
  protocol::CancelledKeys message;
  for (const Key& key : action.keys) message.keys.push_back(key.view());
  message.as_set = action.as_set;
  message.reason = action.reason;
  message.msg = action.message;
  protocol::write(*out, message);
}

void ActionWriter::on(const ReportRestart&) {
  for (const auto& [id, client] : peers_.clients()) {
    if (auto* out = to(id)) protocol::write(*out, protocol::ClientRestart{});
  }
}

// ---- to the shell -------------------------------------------------------------------------------

void ActionWriter::on(const WantsTurn&) { turn_wanted_ = true; }
void ActionWriter::on(const WantsTick&) { tick_wanted_ = true; }

void ActionWriter::on(const Note& note) {
  const std::string key = protocol::key_repr(note.key);
  switch (note.kind) {
    case Note::Kind::task_killed_workers:
      log_.error(fmt::format("Task {} marked as failed because {} workers died while trying to run it",
                             key, core_.state().config.allowed_failures + 1));
      break;
    case Note::Kind::dependencies_changed:
      log_.warning(fmt::format("Detected different `run_spec` for key {} between two consecutive "
                               "calls to `update_graph`; the first one is kept", key));
      break;
    case Note::Kind::unknown_key_desired:
      log_.warning(fmt::format("A client desires key {} but key is unknown.", key));
      break;
    case Note::Kind::no_valid_worker:
      break;
    case Note::Kind::shuffle_ended:
      log_.warning(fmt::format("Shuffle {} deactivated due to stimulus '{}'",
                               protocol::key_text(note.key), stimulus_));
      break;
    case Note::Kind::shuffle_restarted:
      log_.warning(fmt::format("Shuffle of {} restarted due to stimulus '{}'",
                               protocol::key_text(note.key), stimulus_));
      break;
    case Note::Kind::shuffle_failed: publish_shuffle_failure(protocol::key_text(note.key)); break;
  }
}

void ActionWriter::publish_shuffle_failure(std::string_view shuffle) {
  topics_.publish({"p2p"}, [&](protocol::MessageWriter& out) {
    out.map(3);
    out.field("action");
    out.str("p2p-failed");
    out.field("shuffle");
    out.str(shuffle);
    out.field("stimulus");
    out.str(stimulus_);
  });
}

}  // namespace scheduler
