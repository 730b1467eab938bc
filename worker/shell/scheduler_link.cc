#include "worker/shell/scheduler_link.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "protocol/wire/messages_register.h"
#include "protocol/wire/messages_worker.h"

namespace worker {

using protocol::Async;
using protocol::Frames;
using protocol::Message;
using protocol::MessageWriter;
using protocol::OutMessage;
using protocol::Result;

namespace {

constexpr std::uint64_t kKeepAliveMs = 60'000;
constexpr double kBeatTimeout = 60;  // a heartbeat nobody answers must not hold up the next

PayloadRef inline_map(const Slice& map) {
  if (map.empty()) return nullptr;
  auto payload = std::make_shared<protocol::Payload>();
  payload->header = map;
  return payload;
}

}  // namespace

OutMessage SchedulerLink::registration() {
  const std::string stimulus = "worker-connect-" + std::to_string(loop_.now().wall);
  const Key own_name = protocol::string_key(address_);
  protocol::RegisterWorker message;
  message.address = address_;
  message.nthreads = options_.nthreads;
  message.name = options_.name.empty() ? own_name.view() : protocol::KeyView{options_.name.view()};
  message.now = loop_.now().wall;
  message.resources.assign(options_.resources.begin(), options_.resources.end());
  message.services.assign(options_.services.begin(), options_.services.end());
  message.memory_limit = options_.memory.limit;
  message.local_directory = options_.local_directory;
  message.nanny = options_.nanny_address;
  message.pid = ::getpid();
  message.versions = inline_map(options_.versions);
  message.extra = inline_map(options_.extra);
  message.stimulus_id = stimulus;
  message.server_id = options_.id;
  message.measured = gauge_.read(loop_.now());
  MessageWriter writer;
  write(writer, message);
  return writer.finish();
}

void SchedulerLink::not_registered(ServiceEvent::Kind kind, std::string text) {
  connection_ = nullptr;
  ServiceEvent event;
  event.kind = kind;
  event.text = std::move(text);
  service_.push(std::move(event));
}

Async<void> SchedulerLink::enroll() {
  using Kind = ServiceEvent::Kind;
  protocol::DialOptions dial;
  dial.timeout_ms = static_cast<std::uint64_t>(options_.connect_timeout_seconds * 1000);
  dial.begun = [this](const protocol::Connection::Ref& begun) {
    dialling_ = begun;
    if (closed_) give_up_dialling();
  };
  auto dialled = co_await protocol::dial(loop_, options_.scheduler_address, dial);
  dialling_ = nullptr;
  if (closed_) co_return;
  if (!dialled) {
    not_registered(Kind::unreachable, dialled.error().text());
    co_return;
  }
  connection_ = dialled->connection;
  driver_.speak_densely(dialled->hello.rask > 0);
  connection_->send(registration());
  Result<Frames> answer = co_await connection_->read();
  if (!answer) {
    not_registered(Kind::unreachable, answer.error().text());
    co_return;
  }
  Message message;
  if (auto status = message.reset(*answer); !status) {
    not_registered(Kind::refused, status.error().text());
    co_return;
  }
  if (!message.root().find("status").equals("OK")) {
    connection_->close();
    not_registered(Kind::refused,
                   std::string(message.root().find("message").as_str().value_or(
                       message.root().find("exception_text").as_str().value_or("no reason"))));
    co_return;
  }
  interval_ = message.root().find("heartbeat-interval").as_double().value_or(
      options_.heartbeat_seconds);
  stream_.attach(connection_);
  ServiceEvent event;
  event.kind = ServiceEvent::Kind::registered;
  event.message = message.frames();
  service_.push(std::move(event));
}

void SchedulerLink::run() {
  if (!connection_) return;
  send_status("running", "worker-status-change-" + std::to_string(loop_.now().wall));
  beat_every(interval_);
  keep_alive_.start(kKeepAliveMs, kKeepAliveMs,
                    [this] { write(stream_.op(), protocol::KeepAlive{}); });
  spawn(read_stream());
}

void SchedulerLink::send_status(std::string_view status, std::string_view stimulus) {
  write(stream_.op(), protocol::WorkerStatusChange{status, stimulus});
}

Async<void> SchedulerLink::read_stream() {
  std::string reason = "scheduler-close";
  Message message;
  while (true) {
    Result<Frames> frames = co_await connection_->read();
    if (!frames) {
      reason = "worker-handle-scheduler-connection-broken";
      break;
    }
    auto status = message.reset(std::move(*frames));
    if (status) status = in_.on_message(message);
    if (!status) {
      reason = "scheduler stream: " + status.error().text();
      break;
    }
  }
  if (!closed_) on_lost_(reason);
}

protocol::WorkerMetrics SchedulerLink::measure() {
  protocol::WorkerMetrics out = gauge_.read(loop_.now());
  out.digests = inline_map(std::exchange(offer_.digests, {}));
  out.extra = inline_map(offer_.metrics);
  out.net_read_bps = offer_.net_read_bps;
  out.net_write_bps = offer_.net_write_bps;
  out.disk_read_bps = offer_.disk_read_bps;
  out.disk_write_bps = offer_.disk_write_bps;
  return out;
}

OutMessage SchedulerLink::heartbeat_message() {
  protocol::HeartbeatWorker message;
  message.address = address_;
  message.now = loop_.now().wall;
  message.executing = driver_.executing();
  message.extensions = inline_map(std::exchange(offer_.extensions, {}));
  message.measured = measure();
  MessageWriter writer;
  write(writer, message);
  return writer.finish();
}

Async<void> SchedulerLink::heartbeat() {
  if (beating_ || closed_) co_return;
  beating_ = true;
  const double sent = loop_.now().wall;
  // g++ 12 destroys a braced temporary in a co_await expression twice: it gets a name.
  protocol::RpcPool::Call call{options_.scheduler_address, heartbeat_message(),
                               protocol::Duration::seconds(kBeatTimeout), true};
  fetcher_.clear_rates();
  Result<Frames> answer = co_await pool_.call(std::move(call));
  beating_ = false;
  if (!answer || closed_) co_return;  // the stream decides whether the scheduler is gone
  Message message;
  protocol::HeartbeatReply reply;
  if (message.reset(std::move(*answer)) && read(message, reply)) on_answer(sent, reply);
}

void SchedulerLink::on_answer(double sent, const protocol::HeartbeatReply& reply) {
  if (reply.missing) return on_lost_("worker-heartbeat-missing");
  if (reply.heartbeat_interval_seconds != interval_) beat_every(reply.heartbeat_interval_seconds);
  ServiceEvent event;
  event.kind = ServiceEvent::Kind::heartbeat;
  event.seconds = reply.time - (sent + loop_.now().wall) / 2;
  driver_.set_clock_ahead(event.seconds);
  service_.push(std::move(event));
}

void SchedulerLink::beat_every(double seconds) {
  interval_ = seconds;
  const auto ms = static_cast<std::uint64_t>(std::max(seconds, 0.05) * 1000);
  beat_.start(ms, ms, [this] { spawn(heartbeat()); });
}

void SchedulerLink::give_up_dialling() {
  if (dialling_) dialling_->abort({protocol::Fault::closed, "this side ends"});
}

void SchedulerLink::close() {
  closed_ = true;
  give_up_dialling();
  beat_.stop();
  keep_alive_.stop();
  if (!connection_) return;
  write(stream_.op(), protocol::CloseStream{});
  connection_->flush();
  stream_.detach();
  connection_->close();
}

}  // namespace worker
