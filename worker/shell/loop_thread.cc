#include "worker/shell/loop_thread.h"

#include <utility>

#include "protocol/net/socket.h"

namespace worker {

using protocol::Address;
using protocol::Done;
using protocol::Status;

namespace {

constexpr std::uint64_t kFindMissingMs = 1000;
constexpr std::uint32_t kHandshakesPerHost = 1024;  // a machine may run hundreds of workers

Config core_config(const Options& options) {
  Config config;
  config.nthreads = options.nthreads;
  config.resources = options.resources;
  config.transfer_incoming_count_limit = options.outgoing_connections;
  config.transfer_message_bytes_limit = options.message_bytes_limit;
  if (options.memory.limit > 0 && options.memory_transfer > 0) {
    config.transfer_incoming_bytes_limit = static_cast<std::uint64_t>(
        static_cast<double>(options.memory.limit) * options.memory_transfer);
  }
  config.address = options.contact_address;
  return config;
}

}  // namespace

LoopThread::Parts::Parts(LoopThread& home)
    : pool(home.loop, {}),
      driver(home.loop, core_config(home.options), home.options.story_lines,
             {home.store, home.jobs, home.packs, home.service, stream},
             {[this](PeerId peer, std::string to, std::vector<Key> keys) {
                fetcher.fetch(peer, std::move(to), std::move(keys));
              },
              [this] { spiller.value_added(); },
              [&home](const std::string& text) { home.tell(ServiceEvent::Kind::log, text); }}),
      packer(home.loop, home.store, home.packs),
      fetcher(home.loop, pool, driver, home.address),
      server(home.loop, driver, home.store, packer, home.service, home.options),
      in(driver, {[&home](std::string_view status, std::string_view stimulus) {
                    home.set_status(status, stimulus);
                  },
                  [this](const std::string& gone) { pool.forget(gone); },
                  [&home](std::string reason) { home.lost(std::move(reason)); },
                  [&home](const protocol::Message& message, protocol::Value op) {
                    home.on_stream_op(message, op);
                  }}),
      link(home.loop, home.options, pool, stream, in, driver, fetcher,
           Gauge({driver.core(), home.store, fetcher, server}), home.service,
           [&home](std::string reason) { home.lost(std::move(reason)); }),
      spiller(home.loop, home.store, packer, home.options,
              {[&home](double used, bool high) { home.on_memory(used, high); },
               [&home](const std::string& text) { home.tell(ServiceEvent::Kind::log, text); }}),
      find_missing(home.loop) {}

Status LoopThread::open(std::uint16_t port) {
  protocol::Listener::Options where;
  where.host = options.listen_host;
  where.port = port;
  where.handshakes_per_host_max = kHandshakesPerHost;
  auto opened = protocol::Listener::open(
      loop, std::move(where),
      [this](protocol::Connection::Ref connection, const protocol::Hello&) {
        if (parts) parts->server.accept(std::move(connection));
      },
      [this](const Address& peer, const protocol::Error& reason) {
        tell(ServiceEvent::Kind::log, "refused " + peer.text() + ": " + reason.text());
      });
  if (!opened) return opened.error();
  listener = std::move(*opened);
  Address own = listener->address();
  if (!options.contact_host.empty()) own.host = options.contact_host;
  address = options.contact_address.empty() ? own.text() : options.contact_address;
  options.contact_address = address;
  parts = std::make_unique<Parts>(*this);
  return Done{};
}

void LoopThread::run() {
  status = "running";
  parts->link.run();
  parts->spiller.start();
  parts->find_missing.start(kFindMissingMs, kFindMissingMs,
                            [this] { parts->driver.step(FindMissing{}, "find-missing"); });
}

void LoopThread::tell(ServiceEvent::Kind kind, std::string text) {
  ServiceEvent event;
  event.kind = kind;
  event.text = std::move(text);
  service.push(std::move(event));
}

void LoopThread::set_status(std::string_view wanted, std::string_view stimulus) {
  if (status == "closing") return;
  const bool ran = status == "running";
  status = wanted;
  parts->link.send_status(status, stimulus);
  parts->server.set_paused(status == "paused");
  if (ran && status != "running") parts->driver.step(Pause{}, stimulus);
  if (!ran && status == "running") parts->driver.step(Unpause{}, stimulus);
  tell(ServiceEvent::Kind::status, status);
}

//! As in stock, only a running worker is paused and only a paused one is resumed.
void LoopThread::on_memory(double used, bool high) {
  if (status != (high ? "running" : "paused")) return;
  tell(ServiceEvent::Kind::log,
       "Worker is at " + std::to_string(static_cast<int>(used * 100)) + "% memory usage. " +
           (high ? "Pausing worker." : "Resuming worker."));
  set_status(high ? "paused" : "running", high ? "memory-pause" : "memory-resume");
}

void LoopThread::on_stream_op(const protocol::Message& message, protocol::Value op) {
  protocol::MessageWriter writer;
  if (!writer.value(message, op)) return;
  const PayloadRef payload = writer.take_payload();
  ServiceEvent event;
  event.kind = ServiceEvent::Kind::stream;
  event.message.push_back(payload->header);
  for (const Slice& frame : payload->frames) event.message.push_back(frame);
  service.push(std::move(event));
}

bool LoopThread::runs_low() {
  const std::uint64_t ready = parts->driver.core().count(TaskState::ready);
  const bool low = 2 * ready <= ready_told_;
  if (low || ready > ready_told_) ready_told_ = ready;
  return low;
}

void LoopThread::lost(std::string reason) {
  if (status != "closing") tell(ServiceEvent::Kind::close, std::move(reason));
}

void LoopThread::shut() {
  listener.reset();
  if (parts) {
    parts->find_missing.stop();
    parts->spiller.stop();
    parts->link.close();
    parts->server.close();
    parts->packer.end();
    parts->pool.end();
  }
  // The goodbye leaves at the end of this turn; then there is nothing to stay for.
  loop.defer([this] { loop.defer([this] { loop.stop(); }); });
}

}  // namespace worker
