//! One small function per op; see translate_in.h.
#include "scheduler/shell/translate_in.h"

#include <charconv>
#include <utility>

#include "protocol/wire/messages_dense.h"
#include "scheduler/shell/server.h"

namespace scheduler {
namespace {

using protocol::Done;
using protocol::Error;
using protocol::Fault;
using protocol::Message;
using protocol::Op;
using protocol::Status;
using protocol::Value;

constexpr std::size_t kMostTypes = 4096;  //!< that one worker may number; it stops there itself

constexpr std::pair<std::string_view, WorkerStatus> kStatuses[] = {
    {"init", WorkerStatus::init},
    {"running", WorkerStatus::running},
    {"paused", WorkerStatus::paused},
    {"closing_gracefully", WorkerStatus::closing_gracefully},
    {"closing", WorkerStatus::closing},
    {"closed", WorkerStatus::closed},
};

constexpr std::pair<std::string_view, VictimState> kVictimStates[] = {
    {"", VictimState::none},
    {"released", VictimState::released},
    {"waiting", VictimState::waiting},
    {"ready", VictimState::ready},
    {"constrained", VictimState::constrained},
    {"executing", VictimState::executing},
    {"long-running", VictimState::long_running},
    {"memory", VictimState::memory},
    {"cancelled", VictimState::cancelled},
    {"resumed", VictimState::resumed},
};

StartStop::Kind kind_of(protocol::StartStop::Action action) {
  // Both lists name the same things in the same order.
  return static_cast<StartStop::Kind>(action);
}

//! The id that translate_out wrote into the stimulus; any other text is nobody's theft.
std::uint64_t theft_of(std::string_view stimulus) {
  constexpr std::string_view prefix = "steal-";
  std::uint64_t id = ~std::uint64_t{0};
  if (stimulus.starts_with(prefix)) {
    stimulus.remove_prefix(prefix.size());
    std::from_chars(stimulus.data(), stimulus.data() + stimulus.size(), id);
  }
  return id;
}

}  // namespace

std::string_view status_name(WorkerStatus status) {
  for (const auto& [name, value] : kStatuses) {
    if (value == status) return name;
  }
  return "undefined";
}

std::optional<WorkerStatus> parse_status(std::string_view name) {
  for (const auto& [known, value] : kStatuses) {
    if (known == name) return value;
  }
  return std::nullopt;
}

Status WorkerReader::act(const Message& message, Value op, Op kind) {
  switch (kind) {
    case Op::task_finished: return on_task_finished(message, op);
    case Op::rask_finished: return on_dense_finished(message, op);
    case Op::task_erred: return on_task_erred(message, op);
    case Op::release_worker_data: return on_release_worker_data(message, op);
    case Op::add_keys: return on_add_keys(message, op);
    case Op::request_refresh_who_has: return on_request_refresh(message, op);
    case Op::steal_response: return on_steal_response(message, op);
    case Op::long_running: return on_long_running(message, op);
    case Op::reschedule: return on_reschedule(message, op);
    case Op::worker_status_change: return on_status_change(message, op);
    case Op::log_event: return on_log_event(message, op);
    case Op::keep_alive: return Done{};
    default:
      return Error{Fault::unknown_op, "'" + sample(op.find("op").as_str().value_or("")) +
                                          "' is not an op of a worker's stream"};
  }
}

std::span<const StartStop> WorkerReader::spans(const std::vector<protocol::StartStop>& from) {
  spans_.clear();
  for (const auto& span : from) spans_.push_back({kind_of(span.action), span.start, span.stop});
  return spans_;
}

Status WorkerReader::on_task_finished(const Message& message, Value op) {
  if (auto read = protocol::read(message, op, finished_); !read) return read;
  TaskFinished event;
  event.worker = worker_;
  event.key = finished_.key;
  event.run = RunId(finished_.run_id);
  event.nbytes = finished_.nbytes;
  // The core hands it on to clients after this message is gone.
  event.type = Slice::copy_of(finished_.type);
  event.type_name = finished_.type_name;
  event.startstops = spans(finished_.startstops);
  server_.step(event, finished_.stimulus_id);
  return Done{};
}

Status WorkerReader::on_dense_finished(const Message& message, Value op) {
  protocol::DenseFinished in;
  if (auto read = protocol::read(message, op, in); !read) return read;
  if (!in.type_name.empty() && in.type == types_.size() + 1 && in.type <= kMostTypes) {
    types_.push_back({Slice::copy_of(in.type_pickle), std::string(in.type_name)});
  }
  if (in.type == 0 || in.type > types_.size()) {
    return Error{Fault::bad_type, "rask-finished: a class without a number"};
  }
  const NumberedType& type = types_[in.type - 1];
  const StartStop span{StartStop::Kind::compute, in.start, in.stop};
  TaskFinished event;
  event.worker = worker_;
  event.key = in.key;
  event.run = RunId(in.run_id);
  event.nbytes = in.nbytes;
  event.type = type.pickle;
  event.type_name = type.name;
  event.startstops = {&span, 1};
  server_.step(event, in.stimulus_id);
  return Done{};
}

Status WorkerReader::on_task_erred(const Message& message, Value op) {
  if (auto read = protocol::read(message, op, erred_); !read) return read;
  TaskErred event;
  event.worker = worker_;
  event.key = erred_.key;
  event.run = RunId(erred_.run_id);
  event.exception = erred_.exception;
  event.traceback = erred_.traceback;
  event.exception_text = erred_.exception_text;
  event.traceback_text = erred_.traceback_text;
  event.startstops = spans(erred_.startstops);
  server_.step(event, erred_.stimulus_id);
  return Done{};
}

Status WorkerReader::on_release_worker_data(const Message& message, Value op) {
  protocol::ReleaseWorkerData in;
  if (auto read = protocol::read(message, op, in); !read) return read;
  server_.step(ReplicaDropped{worker_, in.key}, in.stimulus_id);
  return Done{};
}

Status WorkerReader::on_add_keys(const Message& message, Value op) {
  protocol::AddKeys in;
  if (auto read = protocol::read(message, op, in); !read) return read;
  server_.step(ReplicasAdded{worker_, in.keys}, in.stimulus_id);
  return Done{};
}

Status WorkerReader::on_request_refresh(const Message& message, Value op) {
  protocol::RequestRefreshWhoHas in;
  if (auto read = protocol::read(message, op, in); !read) return read;
  server_.step(WhoHasRequested{worker_, in.keys}, in.stimulus_id);
  return Done{};
}

Status WorkerReader::on_steal_response(const Message& message, Value op) {
  protocol::StealResponse in;
  if (auto read = protocol::read(message, op, in); !read) return read;
  VictimState state = VictimState::other;
  for (const auto& [name, value] : kVictimStates) {
    if (name == in.state) state = value;
  }
  server_.step(StealAnswered{worker_, in.key, theft_of(in.stimulus_id), state}, in.stimulus_id);
  return Done{};
}

Status WorkerReader::on_long_running(const Message& message, Value op) {
  protocol::LongRunning in;
  if (auto read = protocol::read(message, op, in); !read) return read;
  server_.step(TaskSeceded{worker_, in.key, RunId(in.run_id), in.compute_seconds}, in.stimulus_id);
  return Done{};
}

Status WorkerReader::on_reschedule(const Message& message, Value op) {
  protocol::Reschedule in;
  if (auto read = protocol::read(message, op, in); !read) return read;
  server_.step(TaskRescheduled{worker_, in.key}, in.stimulus_id);
  return Done{};
}

Status WorkerReader::on_status_change(const Message& message, Value op) {
  protocol::WorkerStatusChange in;
  if (auto read = protocol::read(message, op, in); !read) return read;
  const auto status = parse_status(in.status);
  if (!status) {
    return Error{Fault::bad_type, "worker-status-change: status '" + sample(in.status) + "'"};
  }
  if (WorkerPeer* worker = server_.peers.find(worker_)) {
    server_.set_worker_status(*worker, *status, in.stimulus_id);
  }
  return Done{};
}

Status WorkerReader::on_log_event(const Message& message, Value op) {
  protocol::LogEvent in;
  if (auto read = protocol::read(message, op, in); !read) return read;
  WorkerPeer* worker = server_.peers.find(worker_);
  if (worker == nullptr) return Done{};
  const bool about_itself = in.topics.size() == 1 && in.topics[0] == worker->address;
  PayloadRef event = in.msg;
  if (!about_itself) {
    auto named = with_worker(message, op.find("msg"), worker->address);
    if (!named) return named.error();
    event = *named;
  }
  for (const std::string_view topic : in.topics) server_.topics.publish(topic, event);
  return Done{};
}

}  // namespace scheduler
