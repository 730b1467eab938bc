#include "worker/shell/scheduler_link.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

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

void text(MessageWriter& writer, std::string_view name, std::string_view value) {
  writer.str(name);
  writer.str(value);
}

void raw_or_empty_map(MessageWriter& writer, const Slice& map) {
  map.empty() ? writer.map(0) : writer.raw(map.view());
}

}  // namespace

OutMessage SchedulerLink::registration() {
  MessageWriter writer;
  writer.map(18);
  text(writer, "op", "register-worker");
  writer.str("reply");
  writer.boolean(false);
  text(writer, "address", address_);
  text(writer, "status", "init");
  writer.str("nthreads");
  writer.uinteger(options_.nthreads);
  writer.str("name");
  options_.name.empty() ? writer.str(address_) : writer.raw(options_.name.view());
  writer.str("now");
  writer.real(loop_.now().wall);
  writer.str("resources");
  writer.map(static_cast<std::uint32_t>(options_.resources.size()));
  for (const auto& [name, amount] : options_.resources) {
    writer.str(name);
    writer.real(amount);
  }
  writer.str("memory_limit");
  options_.memory_limit ? writer.uinteger(options_.memory_limit) : writer.nil();
  text(writer, "local_directory", options_.local_directory);
  writer.str("services");
  writer.map(0);
  writer.str("nanny");
  options_.nanny_address.empty() ? writer.nil() : writer.str(options_.nanny_address);
  writer.str("pid");
  writer.integer(::getpid());
  writer.str("versions");
  raw_or_empty_map(writer, options_.versions);
  writer.str("metrics");
  write_metrics(writer, sources_, gauge_.read(loop_.now()), loop_.now());
  writer.str("extra");
  raw_or_empty_map(writer, options_.extra);
  text(writer, "stimulus_id", "worker-connect-" + std::to_string(loop_.now().wall));
  text(writer, "server_id", options_.id);
  return writer.finish();
}

void SchedulerLink::refused(std::string reason) {
  ServiceEvent event;
  event.kind = ServiceEvent::Kind::refused;
  event.text = std::move(reason);
  service_.push(std::move(event));
}

Async<void> SchedulerLink::enroll() {
  protocol::DialOptions dial;
  dial.timeout_ms = static_cast<std::uint64_t>(options_.connect_timeout_seconds * 1000);
  auto dialled = co_await protocol::dial(loop_, options_.scheduler_address, dial);
  if (!dialled) {
    refused("cannot connect to " + options_.scheduler_address + ": " + dialled.error().text());
    co_return;
  }
  connection_ = dialled->connection;
  connection_->send(registration());
  Result<Frames> answer = co_await connection_->read();
  if (!answer) {
    refused("the scheduler closed the connection: " + answer.error().text());
    co_return;
  }
  Message message;
  if (auto status = message.reset(*answer); !status) {
    refused(status.error().text());
    co_return;
  }
  if (!message.root().find("status").equals("OK")) {
    refused(std::string(message.root().find("message").as_str().value_or(
        message.root().find("exception_text").as_str().value_or("registration refused"))));
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

OutMessage SchedulerLink::heartbeat_message() {
  MessageWriter writer;
  writer.map(6);
  text(writer, "op", "heartbeat_worker");
  text(writer, "address", address_);
  writer.str("now");
  writer.real(loop_.now().wall);
  writer.str("metrics");
  write_metrics(writer, sources_, gauge_.read(loop_.now()), loop_.now());
  writer.str("executing");
  writer.map(0);
  writer.str("extensions");
  raw_or_empty_map(writer, extensions_);
  return writer.finish();
}

Async<void> SchedulerLink::heartbeat() {
  if (beating_ || closed_) co_return;
  beating_ = true;
  // g++ 12 destroys a braced temporary in a co_await expression twice: it gets a name.
  protocol::RpcPool::Call call{options_.scheduler_address, heartbeat_message(),
                               protocol::Duration::seconds(kBeatTimeout), true};
  Result<Frames> answer = co_await pool_.call(std::move(call));
  beating_ = false;
  if (!answer || closed_) co_return;  // the stream decides whether the scheduler is gone
  Message message;
  if (!message.reset(std::move(*answer))) co_return;
  if (message.root().find("status").equals("missing")) {
    on_lost_("worker-heartbeat: the scheduler does not know this worker");
    co_return;
  }
  if (const auto interval = message.root().find("heartbeat-interval").as_double()) {
    if (*interval != interval_) beat_every(*interval);
  }
}

void SchedulerLink::beat_every(double seconds) {
  interval_ = seconds;
  const auto ms = static_cast<std::uint64_t>(std::max(seconds, 0.05) * 1000);
  beat_.start(ms, ms, [this] { spawn(heartbeat()); });
}

Slice SchedulerLink::metrics() {
  MessageWriter writer;
  write_metrics(writer, sources_, gauge_.read(loop_.now()), loop_.now());
  return writer.take_payload()->header;
}

void SchedulerLink::close() {
  closed_ = true;
  beat_.stop();
  keep_alive_.stop();
  if (!connection_) return;
  write(stream_.op(), protocol::CloseStream{});
  connection_->flush();
  stream_.detach();
  connection_->close();
}

}  // namespace worker
