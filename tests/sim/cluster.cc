#include "tests/sim/cluster.h"

#include <cstdio>

namespace sim {

namespace {

scheduler::Config draw_config(Rng& rng, const Options& options) {
  scheduler::Config config;
  if (!options.queueing) config.worker_saturation = 1e300;
  config.story_length = 1000;
  // A seed waits five seconds for news before it is judged.
  config.memory_too_large_grace = Duration::ms(1000);
  config.memory_patience = Duration::ms(300);
  config.seed = rng.next();
  if (rng.chance(0.4)) config.transitions_at_once = 1 + static_cast<std::uint32_t>(rng.below(12));
  // Enough for several of the simulated tasks, which are longer than those worth it in real life.
  if (options.rask > 0) config.prefetch = Duration::ms(options.rask == 1 ? 400 : 80);
  return config;
}

constexpr double kTick = 0.5;

}  // namespace

Cluster::Cluster(std::uint64_t seed, bool verbose) : rng_(seed * 1000003), verbose_(verbose) {
  options_ = draw_options(rng_);
  universe_ = draw_universe(rng_, options_);
  core_ = std::make_unique<scheduler::Core>(draw_config(rng_, options_));
}

void Cluster::at(double time, std::function<void()> what) {
  agenda_.push(Timed{time, order_++, std::move(what)});
}

void Cluster::run_until(double time) {
  while (!agenda_.empty() && agenda_.top().time <= time && failure_.empty()) {
    const Timed next = agenda_.top();
    agenda_.pop();
    now_ = std::max(now_, next.time);
    next.what();
  }
  now_ = std::max(now_, time);
}

//! A worker that holds much has spilled some of it.
void Cluster::beat(WorkerId id) {
  scheduler::WorkerHeartbeat heartbeat;
  heartbeat.worker = id;
  heartbeat.memory_rss = core_->worker(id).nbytes;
  heartbeat.spilled_memory = heartbeat.spilled_bytes = rng_.below(1 + core_->worker(id).nbytes / 2);
  step(heartbeat);
}

void Cluster::settle() {
  // Quiet for five seconds of heartbeats and ticks means nothing will happen any more.
  for (int round = 0; round < 400 && failure_.empty(); ++round) {
    const std::uint64_t before = activity_;
    run_until(now_ + 5);
    if (activity_ == before) return;
  }
  complain("it never comes to rest");
}

std::string Cluster::run() {
  std::function<void()> tick = [&] {
    step(scheduler::Tick{});
    for (auto& [id, node] : workers_) {
      if (node.alive && node.known) node.model->find_missing();
      if (options_.memory && core_->has_worker(id)) beat(id);
    }
    later(kTick, tick);
  };
  later(kTick, tick);
  fire_and_forget_ = ClientId(next_client_++);
  step(scheduler::ClientAdded{fire_and_forget_, "fire-and-forget"});
  for (int i = 0; i < options_.clients; ++i) {
    const ClientId id(next_client_++);
    clients_[id].name = "client-" + std::to_string(id.value);
    step(scheduler::ClientAdded{id, clients_[id].name});
  }
  for (int i = 0; i < options_.workers; ++i) add_worker(i == 0);
  double when = now_;
  for (int i = 0; i < options_.actions; ++i) {
    when += 0.001 * static_cast<double>(rng_.below(rng_.chance(0.2) ? 800 : 60));
    at(when, [this] { act(); });
  }
  run_until(when + 1);

  healing_ = true;
  add_worker(true);
  for (auto& [id, node] : workers_) {
    if (!node.alive || !node.paused) continue;
    node.paused = false;
    node.model->pause(false);
    const WorkerId worker = id;
    later(latency(), [this, worker] {
      step(scheduler::WorkerStatusChanged{worker, scheduler::WorkerStatus::running});
    });
  }
  run_until(now_ + 1);
  if (!special_.valid()) add_worker(true);
  settle();
  check_alive();
  ending_ = true;
  for (auto& [id, client] : clients_) {
    if (client.here) release_some(id, true);
  }
  settle();
  check_empty();
  return failure_;
}

void Cluster::complain(const std::string& what) {
  if (!failure_.empty()) return;
  failure_ = what;
  if (!verbose_) return;
  std::printf("%.4f FAILURE %s\n", now_, what.c_str());
  dump();
}

}  // namespace sim
