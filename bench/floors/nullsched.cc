//! F1, the client's floor: a scheduler that schedules nothing.
//!
//! It greets a stock client, answers every `update-graph` at once with `key-in-memory` for the keys
//! the client asked for, and gives a constant (or what was scattered under that key) when they are
//! gathered. No graph is opened, no task is kept. What a client program costs against it is what
//! the stock client costs alone: no scheduler and no worker can make that program faster.
//!
//! usage: bench_nullsched [REPORT_MAX]
//! Prints its address, as stock does, and runs until it is ended. A graph that asks for more than
//! REPORT_MAX keys is taken in silence, as by a scheduler that has no workers.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unordered_map>

#include "bench/peer.h"

namespace {

using bench::Message;
using bench::MessageWriter;
using bench::Peer;
using bench::Value;

// pickle.dumps(int, 4) and pickle.dumps(1, 4), as a stock worker would have sent them.
constexpr std::string_view kIntClass("\x80\x04\x95\x14\x00\x00\x00\x00\x00\x00\x00\x8c\x08"
                                     "builtins\x94\x8c\x03int\x94\x93\x94.",
                                     31);
constexpr std::string_view kOne("\x80\x04K\x01.", 5);
constexpr std::uint32_t kReportsPerMessage = 4096;  // as a busy scheduler would group them

protocol::Payload constant_one() {
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
  return {protocol::Payload::Kind::serialized, packed->header,
          {protocol::Slice::of_static(kOne)}};
}

class NullScheduler {
 public:
  explicit NullScheduler(std::size_t report_max) : report_max_(report_max) {}

  void serve() {
    const std::uint16_t port = peers_.listen([this](Peer& peer) {
      peer.on_message = [this](Peer& p, const Message& m) { on_rpc(p, m); };
    });
    address_ = "tcp://127.0.0.1:" + std::to_string(port);
    std::printf("Scheduler at: %s\n", address_.c_str());  // the line stock prints
    std::fflush(stdout);
    peers_.run();
  }

 private:
  void on_rpc(Peer& peer, const Message& message) {
    const Value root = message.root();
    const auto op = root.find("op").as_str().value_or("");
    if (op == "register-client") {
      MessageWriter start;
      start.array(1);
      start.map(1);
      start.field("op");
      start.str("stream-start");
      peer.send(start.finish());
      peer.on_message = [this](Peer& p, const Message& m) { on_stream(p, m); };
      return;
    }
    if (!root.find("reply").as_bool().value_or(true)) {
      if (op == "close") peer.close();
      return;
    }
    MessageWriter reply;
    if (op == "identity") {
      write_identity(reply);
    } else if (op == "gather") {
      write_gathered(reply, root.find("keys"));
    } else if (op == "scatter") {
      keep(message, root.find("data"));
      reply.array(static_cast<std::uint32_t>(root.find("data").size()));
      for (const auto entry : root.find("data").entries()) reply.raw(entry.key.raw());
    } else if (op == "who_has") {
      reply.map(0);
    } else {
      reply.nil();
    }
    peer.send(reply.finish());
  }

  void on_stream(Peer& peer, const Message& message) {
    for (const Value op : message.root().elements()) {
      const auto name = op.find("op").as_str().value_or("");
      if (name == "update-graph" || name == "client-desires-keys") {
        report_in_memory(peer, op.find("keys"));
      } else if (name == "client-releases-keys") {
        if (kept_.empty()) continue;
        for (const Value key : op.find("keys").elements()) kept_.erase(std::string(key.raw()));
      } else if (name == "close-client" || name == "close-stream") {
        peer.close();
      }
    }
  }

  void report_in_memory(Peer& peer, Value keys) {
    if (keys.elements().size() > report_max_) return;
    protocol::StreamBatch batch;
    for (const Value key : keys.elements()) {
      MessageWriter& out = batch.next();
      out.map(3);
      out.field("op");
      out.str("key-in-memory");
      out.field("key");
      out.raw(key.raw());
      out.field("type");
      out.bin(kIntClass);
      if (batch.size() == kReportsPerMessage) peer.send(batch.close());
    }
    if (!batch.empty()) peer.send(batch.close());
  }

  void write_identity(MessageWriter& reply) {
    reply.map(9);
    reply.field("type");
    reply.str("Scheduler");
    reply.field("id");
    reply.str("Scheduler-null");
    reply.field("address");
    reply.str(address_);
    reply.field("services");
    reply.map(0);
    reply.field("started");
    reply.real(bench::wall_now());
    for (const char* count : {"n_workers", "total_threads", "total_memory"}) {
      reply.str(count);
      reply.integer(0);
    }
    reply.field("workers");
    reply.map(0);
  }

  void write_gathered(MessageWriter& reply, Value keys) {
    reply.map(2);
    reply.field("status");
    reply.str("OK");
    reply.field("data");
    reply.map(static_cast<std::uint32_t>(keys.elements().size()));
    for (const Value key : keys.elements()) {
      reply.raw(key.raw());
      const auto found = kept_.find(std::string(key.raw()));
      if (found != kept_.end()) {
        reply.payload(found->second);
      } else {
        reply.payload(one_);
      }
    }
  }

  void keep(const Message& message, Value data) {
    for (const auto entry : data.entries()) {
      auto payload = message.payload(entry.value);
      if (payload) kept_[std::string(entry.key.raw())] = *payload;
    }
  }

  std::size_t report_max_;
  bench::Peers peers_;
  std::string address_;
  protocol::Payload one_ = constant_one();
  std::unordered_map<std::string, protocol::PayloadRef> kept_;  // scattered values by key
};

}  // namespace

int main(int argc, char** argv) {
  const std::size_t all = static_cast<std::size_t>(-1);
  NullScheduler(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : all).serve();
  return 0;
}
