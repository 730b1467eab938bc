//! Start, step, timers and end of the scheduler process; see server.h.
#include "scheduler/shell/server.h"

#include <fmt/format.h>
#include <malloc.h>
#include <uv.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "protocol/base/check.h"
#include "protocol/wire/messages_client.h"
#include "protocol/wire/messages_worker.h"
#include "protocol/wire/pickles.h"
#include "scheduler/core/state.h"
#include "scheduler/shell/restart.h"
#include "scheduler/shell/rpc.h"

namespace scheduler {
namespace {

constexpr std::uint64_t kSoonMs = 5;  //!< until a tick that the core asks for

std::string new_id() {
  unsigned char bytes[16];
  uv_random(nullptr, nullptr, bytes, sizeof bytes, 0, nullptr);
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3f) | 0x80);
  std::string out = "Scheduler-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    out += fmt::format("{:02x}", bytes[i]);
  }
  return out;
}

protocol::DialOptions dial_options(const Settings& settings) {
  protocol::DialOptions out;
  // As stock: values relayed between Python versions then hold no out-of-band buffers.
  out.hello.pickle_protocol = 4;
  out.timeout_ms = static_cast<std::uint64_t>(settings.connect_timeout * 1000);
  out.tcp_timeout_seconds = settings.tcp_timeout;
  return out;
}

}  // namespace

Server::Server(protocol::Loop& the_loop, Log& the_log, Settings the_settings, std::string python)
    : loop(the_loop),
      log(the_log),
      settings(std::move(the_settings)),
      core(settings.core),
      topics(settings.events_kept,
             [this](ClientId client, std::string_view topic, const TopicEvent& event) {
               ClientPeer* peer = peers.find(client);
               if (peer == nullptr || !peer->connection) return;
               protocol::write(peer->stream.op(),
                               protocol::TopicEvent{topic, event.time, event.message});
             }),
      pool(loop, dial_options(settings)),
      graphs(*this, std::move(python)),
      id(new_id()),
      started(wall_time()),
      action_writer_(core, peers, topics, log),
      soon_(loop) {
  plugins.worker.set("shuffle", protocol::pickle_shuffle_worker_plugin());
  client_named("fire-and-forget");
}

Server::~Server() = default;

protocol::Status Server::start(const std::string& host, std::uint16_t port) {
  protocol::Listener::Options options;
  options.host = host;
  options.port = port;
  options.backlog = settings.backlog;
  options.tcp_timeout_seconds = settings.tcp_timeout;
  auto opened = protocol::Listener::open(
      loop, options,
      [this](protocol::Connection::Ref connection, const protocol::Hello& hello) {
        accept(std::move(connection), hello);
      },
      [this](const protocol::Address& peer, const protocol::Error& reason) {
        refuse(peer, reason);
      });
  if (!opened) return opened.error();
  listener_ = std::move(*opened);
  protocol::Address contact = listener_->address();
  if (contact.host == "0.0.0.0" || contact.host == "::") contact.host = protocol::local_ip();
  address = settings.contact_address.empty() ? contact.text() : settings.contact_address;
  log.info(fmt::format("  Scheduler at: {:>25}", address));
  log.info("Registering Worker plugin shuffle");
  graphs.start();
  start_timers();
  return protocol::Done{};
}

void Server::accept(protocol::Connection::Ref connection, const protocol::Hello& hello) {
  if (closing_) {
    connection->close();
  } else {
    spawn(serve(*this, std::move(connection), hello));
  }
}

void Server::refuse(const protocol::Address& peer, const protocol::Error& reason) {
  // Port scanners and health checks connect and leave; a flood of them must not fill the log.
  if (reason.where == "by the peer") return;
  ++refused_;
  if (refused_ <= 100 || refused_ % 1000 == 0) {
    log.warning(fmt::format("Refused connection from {}: {} ({} so far)", peer.text(),
                            sample(reason.text(), 200), refused_));
  }
}

// ---- the core -----------------------------------------------------------------------------------

std::string Server::stimulus(std::string_view what) {
  return fmt::format("{}-{}", what, wall_time());
}

void Server::step(const Event& event, std::string_view stimulus) {
  CHECK_ALWAYS(!stepping_);
  stepping_ = true;
  actions_.clear();
  const Now began = loop.now();
  core.step(event, stimulus, began, actions_);
  const bool more = action_writer_.write(actions_, stimulus);
  loop.name_work(stimulus, began.mono);
  stepping_ = false;
  if (action_writer_.tick_wanted() && !soon_.active()) {
    soon_.start(kSoonMs, 0, [this] { tick(); });
  }
  if (more && !turn_asked_) {
    turn_asked_ = true;
    loop.defer([this] {
      turn_asked_ = false;
      step(Turn{}, Server::stimulus("turn"));
    });
  }
}

// ---- timers -------------------------------------------------------------------------------------

namespace {

//! When a large graph has gone, what it took goes back to the system. Its keys lie scattered among
//! what is still in use, so the allocator would keep them.
class MemoryReturn {
 public:
  void look(std::size_t tasks) {
    const bool settled = std::exchange(before_, tasks) == tasks;
    most_ = std::max(most_, tasks);
    const std::size_t gone = most_ - tasks;
    if (!settled || gone < kMany || gone < most_ / 4) return;
    most_ = tasks;
    malloc_trim(0);
  }

 private:
  static constexpr std::size_t kMany = 5'000;  //!< fewer are not worth a walk over the heap
  std::size_t before_ = 0;
  std::size_t most_ = 0;  //!< since memory was returned
};

}  // namespace

void Server::start_timers() {
  const auto every = [this](std::uint64_t ms, void (Server::*check)()) {
    timers_.push_back(std::make_unique<protocol::Timer>(loop));
    timers_.back()->start(ms, ms, [this, check] { (this->*check)(); });
  };
  every(100, &Server::tick);
  every(1000, &Server::check_workers);
  every(250, &Server::check_idle);
  every(250, &Server::report_retried);
  every(250, &Server::expire_leases);
  every(10'000, &Server::clean_topics);
  timers_.push_back(std::make_unique<protocol::Timer>(loop));
  timers_.back()->start(100, 100, [this, memory = std::make_shared<MemoryReturn>()] {
    const protocol::Duration began = loop.now().mono;
    memory->look(core.state().tasks.size());
    loop.name_work("giving memory back", began);
  });
  // Each new record is worth a line, if it is one by far.
  loop.on_long_turn([this, record = protocol::Duration::ms(50)](auto length) mutable {
    if (length.wall.ns < record.ns + record.ns / 2) return;
    record = length.wall;
    log.write(Log::Level::info, Log::kCore,
              fmt::format(
                  "Event loop was unresponsive in Scheduler for {:.2f}s, {:.2f}s of them at work, "
                  "{:.2f}s for {}.",
                  length.wall.as_seconds(), length.cpu.as_seconds(), length.most.wall.as_seconds(),
                  length.most.text()));
  });
}

void Server::expire_leases() { semaphores.expire(wall_time()); }

void Server::tick() { step(Tick{}, "tick"); }

void Server::check_workers() {
  const protocol::Duration now = loop.now().mono;
  const double floor = 10 * heartbeat_interval(peers.workers().size());
  std::vector<WorkerId> silent;
  for (const auto& [worker_id, worker] : peers.workers()) {
    const double ttl = worker->rask ? settings.rask_worker_ttl : settings.worker_ttl;
    const double quiet = (now - worker->last_seen_mono).as_seconds();
    if (ttl <= 0 || quiet <= std::max(ttl, floor)) continue;
    silent.push_back(worker_id);
    log.warning(fmt::format("Worker failed to heartbeat for {:.0f}s; {}: {}", quiet,
                            worker->nanny.empty() ? "removing" : "attempting restart",
                            worker->address));
  }
  if (!silent.empty()) restart_silent_workers(*this, silent);
  action_writer_.forget_blobs();
}

double Server::idle_since() {
  const State& state = core.state();
  bool busy = graphs.open() > 0 || state.queued() > 0 || !state.unrunnable.empty();
  for (const WorkerId worker : core.workers())
    busy = busy || !core.worker(worker).processing.empty();
  if (busy || state.story.transitions() != idle_at_transitions_) {
    idle_at_transitions_ = state.story.transitions();
    idle_since_ = 0;
  } else if (idle_since_ == 0) {
    idle_since_ = wall_time();
  }
  return idle_since_;
}

void Server::check_idle() {
  const double since = idle_since();
  if (settings.idle_timeout <= 0 || since == 0 || closing_) return;
  if (wall_time() > since + settings.idle_timeout) {
    log.info(fmt::format("Scheduler closing after being idle for {:.2f} s", settings.idle_timeout));
    close("idle-timeout-exceeded");
  }
}

void Server::clean_topic_later(const std::string& topic) {
  stale_topics_.emplace_back(wall_time() + settings.events_cleanup_delay, topic);
}

void Server::clean_topics() {
  while (!stale_topics_.empty() && stale_topics_.front().first < wall_time()) {
    const std::string& topic = stale_topics_.front().second;
    if (!peers.find_worker(topic) && !peers.find_client(topic)) topics.truncate(topic);
    stale_topics_.pop_front();
  }
}

// ---- the end ------------------------------------------------------------------------------------

void Server::close(std::string_view reason) {
  if (closing_) return;
  closing_ = true;
  log.info(fmt::format("Closing scheduler. Reason: {}", reason));
  timers_.clear();
  listener_.reset();
  say_goodbye();
  pool.close();
  graphs.close();
  // Let what was said be written, then stop; a peer that does not read is not waited for.
  timers_.push_back(std::make_unique<protocol::Timer>(loop));
  timers_.back()->start(100, 0, [this] { loop.stop(); });
}

//! Workers end when their stream does. They are not told to close: Ctrl-C and `docker compose down`
//! reach them too, and a stock worker that is told to and then gets the signal hangs for ever,
//! since the signal cancels the close that its second close waits for.
void Server::say_goodbye() {
  log.info("Scheduler closing all comms");
  for (const auto& [worker_id, worker] : peers.workers()) {
    protocol::write(worker->stream.op(), protocol::CloseStream{});
    worker->connection->close();
  }
  for (const auto& [client_id, client] : peers.clients()) {
    if (client->connection) client->connection->close();
  }
}

}  // namespace scheduler
