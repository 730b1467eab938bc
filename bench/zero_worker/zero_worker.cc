//! See zero_worker.h.
#include "bench/zero_worker/zero_worker.h"

#include <unistd.h>

#include <cstdio>

namespace bench {

namespace {

// pickle.dumps(int, 4) and pickle.dumps(1, 4).
constexpr std::string_view kIntClass("\x80\x04\x95\x14\x00\x00\x00\x00\x00\x00\x00\x8c\x08"
                                     "builtins\x94\x8c\x03int\x94\x93\x94.",
                                     31);
constexpr std::string_view kOne("\x80\x04K\x01.", 5);
constexpr int kResultBytes = 28;  // sizeof(1) in Python

void write_one(MessageWriter& out) {
  MessageWriter header;
  header.map(4);
  header.field("serializer");
  header.str("pickle");
  header.field("writeable");
  header.array(0);
  header.field("compression");
  header.array(1);
  header.nil();
  header.field("num-sub-frames");
  header.integer(1);
  const auto packed = header.take_payload();
  out.payload(protocol::Payload{protocol::Payload::Kind::serialized, packed->header,
                                {protocol::Slice::of_static(kOne)}});
}

void write_status_ok(MessageWriter& out) {
  out.field("status");
  out.str("OK");
}

}  // namespace

ZeroWorker::ZeroWorker(Peers& peers, const ZeroOptions& options, ZeroCounts& counts, int number)
    : peers_(peers), options_(options), counts_(counts), name_("zero-" + std::to_string(number)) {
  const std::uint16_t port = peers_.listen([this](Peer& peer) {
    peer.on_message = [this](Peer& p, const Message& m) { on_rpc(p, m); };
  });
  address_ = "tcp://127.0.0.1:" + std::to_string(port);
  stream_ = &peers_.connect(options_.scheduler_port);
  stream_->on_message = [this](Peer&, const Message& m) {
    registered_ ? on_stream(m) : on_registered(m);
  };
  stream_->on_closed = [this](Peer&) {
    stream_ = nullptr;
    ++counts_.lost;
  };
  send_registration();
}

void ZeroWorker::write_metrics(MessageWriter& out) const {
  out.map(4);
  out.field("bandwidth");
  out.map(3);
  out.field("total");
  out.integer(100'000'000);
  out.field("workers");
  out.map(0);
  out.field("types");
  out.map(0);
  out.field("memory");
  out.integer(100'000'000);
  out.field("spilled_bytes");
  out.map(2);
  out.field("memory");
  out.integer(0);
  out.field("disk");
  out.integer(0);
  out.field("digests_total_since_heartbeat");
  out.map(0);
}

void ZeroWorker::send_registration() {
  MessageWriter w;
  w.map(18);
  w.field("op");
  w.str("register-worker");
  w.field("reply");
  w.boolean(false);
  w.field("address");
  w.str(address_);
  w.field("status");
  w.str("init");
  w.field("nthreads");
  w.integer(options_.nthreads);
  w.field("name");
  w.str(name_);
  w.field("now");
  w.real(wall_now());
  w.field("resources");
  w.map(0);
  w.field("memory_limit");
  w.integer(8'000'000'000);
  w.field("local_directory");
  w.str("/tmp");
  w.field("services");
  w.map(0);
  w.field("nanny");
  w.nil();
  w.field("pid");
  w.integer(getpid());
  w.field("versions");
  w.raw(options_.versions);
  w.field("metrics");
  write_metrics(w);
  w.field("extra");
  w.map(0);
  w.field("stimulus_id");
  w.str("worker-connect-" + name_);
  w.field("server_id");
  w.str("Worker-" + name_ + "-" + std::to_string(getpid()));
  stream_->send(w.finish());
}

void ZeroWorker::on_registered(const Message& reply) {
  if (!reply.root().find("status").equals("OK")) {
    std::fprintf(stderr, "%s was not registered\n", name_.c_str());
    stream_->close();
    return;
  }
  registered_ = true;
  ++counts_.registered;
  MessageWriter w;
  w.array(1);
  w.map(3);
  w.field("op");
  w.str("worker-status-change");
  w.field("status");
  w.str("running");
  w.field("stimulus_id");
  w.str("worker-status-change");
  stream_->send(w.finish());
}

void ZeroWorker::on_stream(const Message& message) {
  std::uint64_t tasks = 0;
  for (const Value op : message.root().elements()) {
    const auto name = op.find("op").as_str().value_or("");
    if (name == "compute-task") {
      write_finished(batch_.next(), op);
      ++tasks;
    } else if (name == "steal-request") {
      write_steal_response(batch_.next(), op);
    } else if (name == "close" || name == "close-stream") {
      stream_->close();
      return;
    }
  }
  if (tasks > 0) {
    counts_.tasks += tasks;
    ++counts_.batches;
    counts_.batch_max = tasks > counts_.batch_max ? tasks : counts_.batch_max;
  }
  if (!batch_.empty()) stream_->send(batch_.close());
}

void ZeroWorker::write_finished(MessageWriter& out, Value task) {
  const double now = wall_now();
  out.map(11);
  out.field("op");
  out.str("task-finished");
  out.field("key");
  out.raw(task.find("key").raw());
  out.field("run_id");
  out.raw(task.find("run_id").raw());
  out.field("stimulus_id");
  out.str("task-finished-" + name_);
  out.field("nbytes");
  out.integer(kResultBytes);
  out.field("type");
  out.bin(kIntClass);
  out.field("typename");
  out.str("int");
  out.field("metadata");
  out.map(0);
  out.field("thread");
  out.integer(140'000'000'000'000);
  out.field("startstops");
  out.array(1);
  out.map(3);
  out.field("action");
  out.str("compute");
  out.field("start");
  out.real(now - 1e-6);
  out.field("stop");
  out.real(now);
  write_status_ok(out);
}

void ZeroWorker::write_steal_response(MessageWriter& out, Value request) {
  out.map(4);
  out.field("op");
  out.str("steal-response");
  out.field("key");
  out.raw(request.find("key").raw());
  out.field("state");
  out.str("memory");
  out.field("stimulus_id");
  out.raw(request.find("stimulus_id").raw());
}

void ZeroWorker::heartbeat() {
  if (!registered_ || heartbeat_unanswered_ || stream_ == nullptr) return;
  if (rpc_ == nullptr) {
    rpc_ = &peers_.connect(options_.scheduler_port);
    rpc_->on_message = [this](Peer&, const Message& reply) {
      heartbeat_unanswered_ = false;
      if (reply.root().find("status").equals("missing")) die();
    };
    rpc_->on_closed = [this](Peer&) { rpc_ = nullptr; };
  }
  heartbeat_unanswered_ = true;
  MessageWriter w;
  w.map(7);
  w.field("op");
  w.str("heartbeat_worker");
  w.field("reply");
  w.boolean(true);
  w.field("address");
  w.str(address_);
  w.field("now");
  w.real(wall_now());
  w.field("metrics");
  write_metrics(w);
  w.field("executing");
  w.map(0);
  w.field("extensions");
  w.map(0);
  rpc_->send(w.finish());
}

void ZeroWorker::die() {
  if (stream_ != nullptr) stream_->close();
  if (rpc_ != nullptr) rpc_->close();
}

void ZeroWorker::on_rpc(Peer& peer, const Message& message) {
  const Value root = message.root();
  const auto op = root.find("op").as_str().value_or("");
  if (!root.is_map() || !root.find("reply").as_bool().value_or(true)) {
    if (op == "close") peer.close();
    return;  // also the bare "OK" that ends a get_data
  }
  MessageWriter reply;
  if (op == "get_data") {
    const auto keys = root.find("keys").elements();
    reply.map(2);
    write_status_ok(reply);
    reply.field("data");
    reply.map(static_cast<std::uint32_t>(keys.size()));
    for (const Value key : keys) {
      reply.raw(key.raw());
      write_one(reply);
    }
  } else if (op == "update_data") {
    const auto data = root.find("data").entries();
    reply.map(2);
    write_status_ok(reply);
    reply.field("nbytes");
    reply.map(static_cast<std::uint32_t>(data.size()));
    for (const auto entry : data) {
      reply.raw(entry.key.raw());
      reply.integer(kResultBytes);
    }
  } else if (op == "gather") {
    reply.map(1);
    write_status_ok(reply);
  } else {
    reply.nil();
  }
  peer.send(reply.finish());
}

}  // namespace bench
