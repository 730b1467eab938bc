//! Puts the parts together on one loop thread, and lets other threads in by posting to it.
#include "worker/shell/runtime.h"

#include <unistd.h>
#include <uv.h>

#include <atomic>
#include <future>
#include <thread>
#include <utility>

#include "protocol/net/listener.h"
#include "protocol/net/socket.h"
#include "worker/shell/driver.h"
#include "worker/shell/fetcher.h"
#include "worker/shell/packer.h"
#include "worker/shell/peer_server.h"
#include "worker/shell/queues.h"
#include "worker/shell/scheduler_link.h"
#include "worker/shell/service_queue.h"
#include "worker/shell/spiller.h"
#include "worker/shell/store.h"
#include "worker/shell/stream_in.h"
#include "worker/shell/topology.h"

namespace worker {

using protocol::Address;
using protocol::Done;
using protocol::Frames;
using protocol::Status;

namespace {

constexpr std::uint64_t kFindMissingMs = 1000;
constexpr std::uint64_t kKeepPackedBelow = 1u << 20;

std::uint64_t frame_bytes(const protocol::Payload& payload) {
  std::uint64_t bytes = 0;
  for (const Slice& frame : payload.frames) bytes += frame.size();
  return bytes;
}

Config core_config(const Options& options) {
  Config config;
  config.nthreads = options.nthreads;
  config.resources = options.resources;
  config.transfer_incoming_count_limit = options.outgoing_connections;
  config.transfer_message_bytes_limit = options.message_bytes_limit;
  if (options.memory_limit > 0 && options.memory_transfer > 0) {
    config.transfer_incoming_bytes_limit = static_cast<std::uint64_t>(
        static_cast<double>(options.memory_limit) * options.memory_transfer);
  }
  config.address = options.contact_address;
  return config;
}

}  // namespace

//! Everything that lives on the loop thread. Queues and the store are shared with Python's threads.
class Runtime::Loop {
 public:
  explicit Loop(Options given) : options(std::move(given)) {}

  Options options;
  Store store;
  WaitQueue<PendingJob> jobs;
  WaitQueue<PackRequest> packs;
  ServiceQueue service;
  Topology topology;
  std::atomic<std::uint32_t> executors = 0;  //!< bound so far
  std::string address;
  std::thread thread;
  protocol::Loop loop;

  //! Made once the address is known, because the core must know it.
  struct Parts {
    explicit Parts(Loop& home);

    protocol::RpcPool pool;
    protocol::StreamSender stream;
    Driver driver;
    Packer packer;
    Fetcher fetcher;
    PeerServer server;
    StreamIn in;
    SchedulerLink link;
    Spiller spiller;
    protocol::Timer find_missing;
  };
  std::unique_ptr<protocol::Listener> listener;
  std::unique_ptr<Parts> parts;
  std::string status = "init";

  Status open();
  void set_status(std::string_view wanted, std::string_view stimulus);
  void lost(std::string reason);
  void shut();
  void log(const std::string& text);
  void tell(ServiceEvent::Kind kind, std::string text);
  template <class Work>
  auto ask(Work work);
};

Runtime::Loop::Parts::Parts(Loop& home)
    : pool(home.loop, {}),
      driver(home.loop, core_config(home.options), home.store, home.jobs, home.service, stream,
             {[this](PeerId peer, std::string to, std::vector<Key> keys) {
                fetcher.fetch(peer, std::move(to), std::move(keys));
              },
              [this] { spiller.value_added(); },
              [&home](const std::string& text) { home.log(text); }}),
      packer(home.loop, home.store, home.packs),
      fetcher(home.loop, pool, driver),
      server(home.loop, driver, home.store, packer, home.service, home.options),
      in(driver, {[&home](std::string_view status, std::string_view stimulus) {
                    home.set_status(status, stimulus);
                  },
                  [this](const std::string& gone) { pool.forget(gone); },
                  [&home](std::string reason) { home.lost(std::move(reason)); },
                  [&home](const protocol::Message& message, protocol::Value op) {
                    ServiceEvent event;
                    event.kind = ServiceEvent::Kind::stream;
                    protocol::MessageWriter writer;
                    if (!writer.value(message, op)) return;
                    const PayloadRef payload = writer.take_payload();
                    event.message.push_back(payload->header);
                    for (const Slice& frame : payload->frames) event.message.push_back(frame);
                    home.service.push(std::move(event));
                  }}),
      link(home.loop, home.options, home.topology.describe(home.options.pin), pool, stream, in,
           driver,
           {driver.core(), home.store, fetcher, server},
           home.service, [&home](std::string reason) { home.lost(std::move(reason)); }),
      spiller(home.loop, home.store, packer, home.options,
              {[&home] { home.set_status("paused", "memory-pause"); },
               [&home] { home.set_status("running", "memory-resume"); },
               [&home](const std::string& text) { home.log(text); }}),
      find_missing(home.loop) {}

//! Runs `work` on the loop thread and waits for its result.
template <class Work>
auto Runtime::Loop::ask(Work work) {
  using Answer = decltype(work());
  auto promise = std::make_shared<std::promise<Answer>>();
  std::future<Answer> answer = promise->get_future();
  loop.post([promise, work = std::move(work)] {
    if constexpr (std::is_void_v<Answer>) {
      work();
      promise->set_value();
    } else {
      promise->set_value(work());
    }
  });
  return answer.get();
}

Status Runtime::Loop::open() {
  protocol::Listener::Options where;
  where.host = options.listen_host;
  where.port = options.listen_port;
  auto opened = protocol::Listener::open(
      loop, std::move(where),
      [this](protocol::Connection::Ref connection, const protocol::Hello&) {
        if (parts) parts->server.accept(std::move(connection));
      },
      [this](const Address& peer, const protocol::Error& reason) {
        log("refused " + peer.text() + ": " + reason.text());
      });
  if (!opened) return opened.error();
  listener = std::move(*opened);
  Address own = listener->address();
  if (own.host.empty() || own.host == "0.0.0.0") own.host = protocol::local_ip();
  address = options.contact_address.empty() ? own.text() : options.contact_address;
  options.contact_address = address;
  parts = std::make_unique<Parts>(*this);
  parts->fetcher.set_address(address);
  parts->server.set_address(address);
  return Done{};
}

void Runtime::Loop::tell(ServiceEvent::Kind kind, std::string text) {
  ServiceEvent event;
  event.kind = kind;
  event.text = std::move(text);
  service.push(std::move(event));
}

void Runtime::Loop::log(const std::string& text) { tell(ServiceEvent::Kind::log, text); }

//! Takes on a status, tells the scheduler, and starts or stops taking on work.
void Runtime::Loop::set_status(std::string_view wanted, std::string_view stimulus) {
  if (status == "closing") return;
  const bool ran = status == "running";
  status = wanted;
  parts->link.send_status(status, stimulus);
  parts->server.set_paused(status == "paused");
  if (ran && status != "running") parts->driver.step(Pause{}, stimulus);
  if (!ran && status == "running") parts->driver.step(Unpause{}, stimulus);
  tell(ServiceEvent::Kind::status, status);
}

void Runtime::Loop::lost(std::string reason) {
  if (status != "closing") tell(ServiceEvent::Kind::close, std::move(reason));
}

void Runtime::Loop::shut() {
  listener.reset();
  if (parts) {
    parts->find_missing.stop();
    parts->spiller.stop();
    parts->link.close();
    parts->server.close();
    parts->pool.close();
  }
  // The goodbye leaves at the end of this turn; then there is nothing to stay for.
  loop.defer([this] { loop.defer([this] { loop.stop(); }); });
}

Runtime::Runtime(Options options) : loop_(std::make_unique<Loop>(std::move(options))) {}

Runtime::~Runtime() {
  if (loop_) stop();
}

Status Runtime::listen() {
  const Status status = loop_->open();
  if (!status) return status;
  loop_->thread = std::thread([home = loop_.get()] { home->loop.run(); });
  return status;
}

void Runtime::start() {
  loop_->loop.post([home = loop_.get()] { home->parts->link.start(home->address); });
}

void Runtime::run() {
  loop_->loop.post([home = loop_.get()] {
    home->status = "running";
    home->parts->link.run();
    home->parts->spiller.start();
    home->parts->find_missing.start(kFindMissingMs, kFindMissingMs, [home] {
      home->parts->driver.step(FindMissing{}, "find-missing");
    });
  });
}

void Runtime::announce_closing() {
  loop_->loop.post([home = loop_.get()] {
    home->set_status("closing", "worker-close");
    home->jobs.close();
  });
}

void Runtime::stop() {
  loop_->jobs.close();
  loop_->packs.close();
  if (!loop_->thread.joinable()) return;
  loop_->loop.post([home = loop_.get()] { home->shut(); });
  loop_->thread.join();
}

void Runtime::after_fork_in_child() {
  // The loop's thread does not exist here, so nothing may run it down; only its sockets go.
  uv_walk(loop_->loop.uv(), [](uv_handle_t* handle, void*) {
    uv_os_fd_t fd;
    if (uv_fileno(handle, &fd) == 0) ::close(fd);
  }, nullptr);
  loop_.release();  // NOLINT: leaked on purpose, the parent owns what it points to
}

// ---- executors ----------------------------------------------------------------------------------

Status Runtime::pin_executor() {
  return loop_->topology.pin(loop_->options.pin, loop_->executors++);
}

std::optional<Job> Runtime::next_job() {
  while (auto pending = loop_->jobs.pop()) {
    bool whole = true;
    for (std::size_t i = 0; i < pending->spilled.size(); ++i) {
      Input& input = pending->job.inputs[i];
      if (input.value.live || input.value.packed) continue;
      auto read = pending->spilled[i] ? pending->spilled[i]->read()
                                      : protocol::Result<PayloadRef>(
                                            protocol::Error{protocol::Fault::closed, "gone"});
      if (read) {
        input.value.packed = *read;
      } else {
        whole = false;
        failed(pending->job, Failed{protocol::str_payload(read.error().text()),
                                    protocol::nil_payload(), read.error().text(), "", 0, 0, 0});
        break;
      }
    }
    if (whole) return std::move(pending->job);
  }
  return std::nullopt;
}

void Runtime::interrupt_executor() { loop_->jobs.interrupt(); }

void Runtime::finished(const Job& job, Finished result) {
  loop_->loop.post([home = loop_.get(), job, result = std::move(result)] {
    home->parts->driver.finished(job, result);
  });
}

void Runtime::failed(const Job& job, Failed failure) {
  loop_->loop.post([home = loop_.get(), job, failure = std::move(failure)] {
    home->parts->driver.failed(job, failure);
  });
}

void Runtime::rescheduled(const Job& job) {
  loop_->loop.post([home = loop_.get(), job] { home->parts->driver.rescheduled(job); });
}

void Runtime::seceded(const Key& key, double compute_seconds) {
  loop_->loop.post([home = loop_.get(), key, compute_seconds] {
    home->parts->driver.seceded(key, compute_seconds);
  });
}

void Runtime::set_live(ValueId value, LiveRef live) {
  loop_->store.set_live(value, std::move(live));
}

// ---- pack thread ----------------------------------------------------------------------------------

std::optional<PackRequest> Runtime::next_pack() {
  if (auto request = loop_->packs.pop()) return request;
  if (loop_->packs.closed()) return std::nullopt;
  return PackRequest{};
}

void Runtime::wake_pack() { loop_->packs.interrupt(); }

void Runtime::packed(ValueId value, PayloadRef bytes) {
  if (frame_bytes(*bytes) <= kKeepPackedBelow) loop_->store.set_packed(value, bytes);
  loop_->loop.post([home = loop_.get(), value, bytes = std::move(bytes)] {
    home->parts->packer.packed(value, bytes);
  });
}

void Runtime::pack_failed(ValueId value, std::string text) {
  loop_->loop.post([home = loop_.get(), value, text = std::move(text)] {
    home->parts->packer.failed(value, text);
  });
}

// ---- service loop -----------------------------------------------------------------------------

int Runtime::service_fd() const { return loop_->service.fd(); }

std::vector<ServiceEvent> Runtime::take_service_events() { return loop_->service.take(); }

void Runtime::reply(std::uint64_t token, std::vector<Slice> frames) {
  loop_->loop.post([home = loop_.get(), token, frames = std::move(frames)] {
    home->parts->server.reply(token, frames, false);
  });
}

void Runtime::reply_and_close(std::uint64_t token, std::vector<Slice> frames) {
  loop_->loop.post([home = loop_.get(), token, frames = std::move(frames)] {
    home->parts->server.reply(token, frames, true);
  });
}

void Runtime::send_to_scheduler(std::vector<Slice> frames) {
  loop_->loop.post([home = loop_.get(), frames = std::move(frames)] {
    protocol::Message message;
    if (!message.reset(frames)) return;
    // Python made these frames a moment ago: a marker that lies about them would be our own bug.
    if (!home->parts->stream.op().value(message, message.root())) {
      home->log("a message to the scheduler could not be sent");
    }
  });
}

void Runtime::claim_op(std::string op) {
  loop_->loop.post([home = loop_.get(), op = std::move(op)] { home->parts->server.claim_op(op); });
}

void Runtime::set_heartbeat_extensions(Slice bytes) {
  auto map = std::make_shared<protocol::Payload>();
  map->header = std::move(bytes);
  loop_->loop.post([home = loop_.get(), map = PayloadRef(std::move(map))] {
    home->parts->link.set_extensions(map);
  });
}

// ---- data ---------------------------------------------------------------------------------------

std::vector<Key> Runtime::keys() const { return loop_->store.keys(); }

std::optional<Value> Runtime::value(const Key& key) const {
  auto held = loop_->store.find(key);
  if (!held) return std::nullopt;
  if (!held->value.live && !held->value.packed && held->spilled) {
    auto read = held->spilled->read();
    if (!read) return std::nullopt;
    held->value.packed = *read;
  }
  return std::move(held->value);
}

void Runtime::put(const Key& key, Value value) {
  loop_->ask([home = loop_.get(), key, value = std::move(value)] {
    home->parts->driver.put(key, value);
  });
}

Slice Runtime::metrics() const {
  return loop_->ask([home = loop_.get()] { return home->parts->link.metrics(); });
}

std::vector<std::pair<std::string, std::uint64_t>> Runtime::counts() const {
  return loop_->ask([home = loop_.get()] {
    const Core& core = home->parts->driver.core();
    std::vector<std::pair<std::string, std::uint64_t>> out;
    for (std::size_t i = 0; i < kTaskStates; ++i) {
      const auto state = static_cast<TaskState>(i);
      out.emplace_back(task_state_name(state), core.count(state));
    }
    return out;
  });
}

std::string Runtime::address() const { return loop_->address; }

}  // namespace worker
