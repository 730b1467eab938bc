//! What clients and fate do: submit, change their minds, leave; lose, pause and add workers.
#include <algorithm>
#include <cstdio>

#include "tests/sim/cluster.h"

namespace sim {

using namespace scheduler;

// ---- workers ------------------------------------------------------------------------------------

void Cluster::add_worker(bool complete) {
  const WorkerId id(next_worker_++);
  WorkerNode& node = workers_[id];
  // Sometimes at the address of one that is gone: the same place, another incarnation.
  node.port = next_port_++;
  for (const auto& [other, past] : workers_) {
    const std::string address = "tcp://10.0.0.1:" + std::to_string(past.port);
    const bool taken = std::any_of(workers_.begin(), workers_.end(), [&](const auto& entry) {
      return entry.first != other && entry.first != id && entry.second.port == past.port;
    });
    if (past.alive || taken || past.port == 3999 || core_->find_worker(address) || rng_.chance(0.5)) continue;
    node.port = past.port;
    break;
  }
  WorkerAdded added;
  added.worker = id;
  added.address = "tcp://10.0.0.1:" + std::to_string(node.port);
  added.host = "10.0.0.1";
  // Restrictions are to addresses, so this one must come back where it was.
  const bool special = complete && !special_.valid() &&
                       !core_->find_worker("tcp://10.0.0.1:3999");
  if (special) {
    special_ = id;
    node.port = 3999;
    added.address = "tcp://10.0.0.1:3999";
  }
  added.name = protocol::string_key(special ? "special" : "w" + std::to_string(id.value));
  added.nthreads = 1 + static_cast<std::uint32_t>(rng_.below(3));
  if (options_.memory) added.memory_limit = 12'000 + 6'000 * (id.value % 4);
  if (complete || rng_.chance(0.3)) added.resources = {{"GPU", 1.0}};
  WorkerHost& host = *this;
  node.model = std::make_unique<StockWorker>(id, static_cast<int>(added.nthreads),
                                             added.resources, universe_, host);
  added.rask = options_.rask == 1 || (options_.rask == 2 && rng_.chance(0.5));
  node.model->set_rask(added.rask);
  node.known = true;
  step(added);
  node.up_free = now_ + latency();
  at(node.up_free, [this, id] { step(WorkerStatusChanged{id, WorkerStatus::running}); });
}

void Cluster::die(WorkerId who) {
  WorkerNode& node = workers_.at(who);
  if (!node.alive) return;
  node.alive = false;
  node.cut = rng_.chance(0.5);
  if (special_ == who) special_ = WorkerId();
  ++activity_;
  if (verbose_) std::printf("%.4f w%u dies\n", now_, who.value);
  const bool comes_back = rng_.chance(0.7);
  double lost = std::max(node.up_free, now_ + latency());
  for (std::uint64_t n = rng_.chance(0.4) ? rng_.below(8) : 0; n > 0; --n, lost += latency()) {
    at(lost, [this, who] { step(scheduler::WorkerFading{who, false}); });
  }
  at(lost, [this, who, comes_back] {
    ++activity_;
    step(WorkerLost{who, false});
    // Somebody restarts it, at the latest when the faults are over.
    if (healing_ || comes_back) later(latency(), [this] { add_worker(true); });
  });
}

WorkerId Cluster::some_worker() {
  std::vector<WorkerId> alive;
  for (const auto& [id, node] : workers_) {
    if (node.alive && core_->has_worker(id)) alive.push_back(id);
  }
  return alive.empty() ? WorkerId() : alive[rng_.below(alive.size())];
}

ClientId Cluster::some_client() {
  std::vector<ClientId> here;
  for (const auto& [id, node] : clients_) {
    if (node.here) here.push_back(id);
  }
  return here.empty() ? ClientId() : here[rng_.below(here.size())];
}

// ---- clients ------------------------------------------------------------------------------------

void Cluster::say(ClientId client, std::function<void()> message) {
  ++activity_;
  ClientNode& node = clients_.at(client);
  node.up_free = std::max(node.up_free, now_ + latency());
  at(node.up_free, [this, client, message = std::move(message)] { arrive(client, message); });
}

//! Later messages of a client wait until its graph is in.
void Cluster::arrive(ClientId client, std::function<void()> message) {
  ++activity_;
  ClientNode& node = clients_.at(client);
  if (!node.here) return;
  if (node.graphs > 0) {
    node.waiting.push_back(std::move(message));
  } else {
    message();
  }
}

void Cluster::graph_done(ClientId client) {
  ClientNode& node = clients_.at(client);
  node.graphs = 0;
  while (!node.waiting.empty() && node.graphs == 0 && node.here) {
    const std::function<void()> message = node.waiting.front();
    node.waiting.erase(node.waiting.begin());
    message();
  }
}

void Cluster::submit(ClientId client) {
  ClientNode& node = clients_.at(client);
  std::vector<KeyNo> wants;
  std::set<KeyNo> defined;
  const std::size_t count = 1 + rng_.below(6);
  for (std::size_t i = 0; i < count; ++i) {
    const auto key = static_cast<KeyNo>(rng_.below(universe_.specs.size()));
    if (!universe_.specs[key].scattered) wants.push_back(key);
  }
  std::sort(wants.begin(), wants.end());
  wants.erase(std::unique(wants.begin(), wants.end()), wants.end());
  std::vector<KeyNo> stack = wants;
  while (!stack.empty()) {
    const KeyNo key = stack.back();
    stack.pop_back();
    if (!defined.insert(key).second) continue;
    for (const KeyNo input : universe_.specs[key].inputs) {
      const bool by_future = node.futures.contains(input) && rng_.chance(0.3);
      if (!universe_.specs[input].scattered && !by_future) stack.push_back(input);
    }
  }
  if (wants.empty()) return;
  for (const KeyNo key : wants) {
    const auto found = node.futures.find(key);
    if (found == node.futures.end() || found->second == Future::cancelled) {
      node.futures[key] = Future::pending;
    }
  }
  say(client, [this, client, wants, defined] { send_graph(client, wants, defined); });
  if (rng_.chance(0.1)) {  // fire and forget
    const KeyNo key = wants.front();
    say(client, [this, key] {
      const KeyView name = view(key);
      step(KeysDesired{fire_and_forget_, {&name, 1}});
    });
  }
}

void Cluster::send_records(SubmissionId graph, const std::vector<KeyNo>& slice,
                           const std::map<KeyNo, std::uint32_t>& numbers) {
  std::vector<std::vector<std::uint32_t>> inputs(slice.size());
  GraphRecords records{graph, {}};
  for (std::size_t i = 0; i < slice.size(); ++i) {
    const Spec& spec = universe_.specs[slice[i]];
    for (const KeyNo input : spec.inputs) inputs[i].push_back(numbers.at(input));
    GraphTask task;
    task.key = numbers.at(slice[i]);
    task.dependencies = inputs[i];
    task.spec = SpecRef::of({});
    task.annotations = std::make_shared<Annotations>(spec.annotations);
    task.priority = slice[i];
    task.data_producer = spec.data_producer;
    task.actor = spec.actor;
    records.tasks.push_back(task);
  }
  step(records);
}

void Cluster::send_barriers(SubmissionId graph, const std::map<KeyNo, std::uint32_t>& numbers) {
  GraphBarriers barriers{graph, {}};
  for (const auto& [key, number] : numbers) {
    if (universe_.specs[key].shuffle) {
      barriers.barriers.push_back({number, universe_.specs[key].shuffle});
    }
  }
  if (!barriers.barriers.empty()) step(barriers);
}

//! The graph process answers in slices, with anything else in between.
void Cluster::send_graph(ClientId client, std::vector<KeyNo> wants, std::set<KeyNo> defined) {
  const SubmissionId graph(next_graph_++);
  clients_.at(client).graphs = 1;
  GraphOpened opened{graph, client, rng_.chance(0.5) ? 60.0 : 0.0, false, {}, rng_.chance(0.4)};
  step(opened);
  auto numbers = std::make_shared<std::map<KeyNo, std::uint32_t>>();
  const auto number = [numbers](KeyNo key) {
    return numbers->try_emplace(key, static_cast<std::uint32_t>(numbers->size())).first->second;
  };
  std::vector<KeyNo> keys(defined.begin(), defined.end()), outside;
  for (const KeyNo key : keys) number(key);
  for (const KeyNo key : keys) {
    for (const KeyNo input : universe_.specs[key].inputs) {
      if (!numbers->contains(input)) outside.push_back(input);
      number(input);
    }
  }
  const auto send_keys = [this, graph](const std::vector<KeyNo>& list, bool is_outside) {
    std::vector<KeyView> names;
    for (const KeyNo key : list) names.push_back(view(key));
    step(GraphKeys{graph, names, is_outside, {}});
  };
  const auto send_wants = [this, graph, wants] {
    std::vector<KeyView> names;
    for (const KeyNo key : wants) names.push_back(view(key));
    step(GraphWants{graph, names});
  };
  double when = now_;
  const auto next = [&] { return when += rng_.chance(0.5) ? 0 : latency(); };
  const bool wants_first = opened.append || rng_.chance(0.3);
  if (wants_first) at(next(), send_wants);
  at(next(), [=, this] {
    send_keys(keys, false);
    send_keys(outside, true);
    send_barriers(graph, *numbers);
  });
  if (rng_.chance(0.3)) {  // records need not come in order of priority
    for (std::size_t i = keys.size(); i > 1; --i) std::swap(keys[i - 1], keys[rng_.below(i)]);
  }
  for (std::size_t first = 0; first < keys.size();) {
    const std::size_t count = std::min(keys.size() - first, 1 + rng_.below(20));
    const std::vector<KeyNo> slice(keys.begin() + static_cast<std::ptrdiff_t>(first),
                                   keys.begin() + static_cast<std::ptrdiff_t>(first + count));
    first += count;
    at(next(), [this, graph, slice, numbers] { send_records(graph, slice, *numbers); });
  }
  if (!wants_first) at(next(), send_wants);
  const bool broken = !healing_ && rng_.chance(0.05);  // the graph process died
  at(next(), [this, graph, client, wants, broken] {
    ++activity_;
    if (broken) {
      step(GraphDropped{graph});
      for (const KeyNo key : wants) {
        auto& futures = clients_.at(client).futures;
        if (futures.contains(key)) futures[key] = Future::erred;
      }
    } else {
      step(GraphCommitted{graph});
    }
    graph_done(client);
  });
}

void Cluster::release_some(ClientId client, bool all) {
  ClientNode& node = clients_.at(client);
  std::vector<KeyNo> keys;
  for (const auto& [key, future] : node.futures) {
    if (all || rng_.chance(0.4)) keys.push_back(key);
  }
  if (all) {  // also what it wants without having a future for it
    for (KeyNo key = 0; key < universe_.specs.size(); ++key) {
      if (!node.futures.contains(key)) keys.push_back(key);
    }
  }
  for (const KeyNo key : keys) node.futures.erase(key);
  say(client, [this, client, keys] {
    std::vector<KeyView> names;
    for (const KeyNo key : keys) names.push_back(view(key));
    step(KeysReleased{client, names});
  });
}

void Cluster::cancel_some(ClientId client) {
  const bool force = rng_.chance(0.4);
  const bool retry = options_.retries && rng_.chance(0.5);
  std::vector<KeyNo> keys;
  for (const auto& [key, future] : clients_.at(client).futures) {
    if (rng_.chance(0.2)) keys.push_back(key);
  }
  say(client, [this, client, keys, force, retry] {
    std::vector<KeyView> names;
    for (const KeyNo key : keys) names.push_back(view(key));
    if (retry) {
      step(KeysRetried{client, names});
    } else {
      step(KeysCancelled{client, names, force, "", ""});
    }
  });
}

void Cluster::scatter_some(ClientId client) {
  std::vector<KeyNo> data;
  for (KeyNo key = 0; key < universe_.specs.size(); ++key) {
    if (universe_.specs[key].scattered) data.push_back(key);
  }
  const WorkerId worker = some_worker();
  if (data.empty() || !worker.valid()) return;
  const KeyNo key = data[rng_.below(data.size())];
  clients_.at(client).futures.try_emplace(key, Future::pending);
  workers_.at(worker).model->scatter(key, universe_.specs[key].value);
  // The data reached the worker on another connection; the shell lets the scheduler hear of it in
  // its turn among the client's and the worker's messages: no earlier release may overtake it.
  clients_.at(client).up_free =
      std::max(clients_.at(client).up_free, workers_.at(worker).up_free);
  clients_.at(client).unheard.emplace(key, worker);
  say(client, [this, client, key, worker] {
    clients_.at(client).unheard.erase({key, worker});
    const WorkerNode& node = workers_.at(worker);
    const bool there = node.alive && node.model->value(key) != nullptr;
    const std::vector<WorkerId> holders = there ? std::vector{worker} : std::vector<WorkerId>();
    step(DataScattered{client, {ScatteredKey{view(key), 100, holders, {}}}});
  });
}

void Cluster::lose_client(ClientId client) {
  ClientNode& node = clients_.at(client);
  node.here = false;
  node.futures.clear();
  node.waiting.clear();
  step(ClientRemoved{client});
  for (const auto& [key, worker] : node.unheard) {  // nobody is left to want it: taken back
    const auto task = core_->find(view(key));
    const bool counted = task && core_->task(*task).on(worker);
    if (core_->has_worker(worker) && !counted) to_worker(worker, Free{key});
  }
  const ClientId id(next_client_++);
  clients_[id].name = "client-" + std::to_string(id.value);
  step(ClientAdded{id, clients_[id].name});
}

// ---- fate ---------------------------------------------------------------------------------------

//! Messages that are late, made up, or from workers long gone.
void Cluster::stray() {
  const auto key = static_cast<KeyNo>(rng_.below(universe_.specs.size()));
  const WorkerId worker(static_cast<std::uint32_t>(rng_.below(next_worker_ + 2)));
  const KeyView name = view(key);
  switch (rng_.below(6)) {
    case 0: {
      TaskFinished done;
      done.worker = worker;
      done.key = name;
      done.run = RunId(rng_.below(50) + 1'000'000);
      return step(done);
    }
    case 1: {
      TaskErred erred;
      erred.worker = worker;
      erred.key = name;
      erred.run = RunId(rng_.below(50) + 1'000'000);
      return step(erred);
    }
    case 2: return step(StealAnswered{worker, name, rng_.below(10) + 100000, VictimState::ready});
    case 3: return step(TaskSeceded{worker, name, RunId(1'000'000), 1.0});
    case 4: return step(WorkerLost{WorkerId(next_worker_ + 7), false});
    default: return step(KeyReported{some_client(), name});
  }
}

void Cluster::move_replicas() {
  const auto key = static_cast<KeyNo>(rng_.below(universe_.specs.size()));
  const WorkerId worker = some_worker();
  if (!worker.valid()) return;
  const KeyView name = view(key);
  if (rng_.chance(0.6)) {
    step(ReplicasWanted{worker, {&name, 1}});
  } else {
    step(ReplicasUnwanted{worker, {&name, 1}});
  }
}

void Cluster::restart() {
  step(Restarted{});
  for (auto& [id, node] : workers_) {
    if (!node.alive) continue;
    node.alive = false;
    node.cut = true;
    if (special_ == id) special_ = WorkerId();
    step(WorkerLost{id, true});
  }
  for (int i = 0; i < options_.workers; ++i) add_worker(i == 0);
}

void Cluster::client_acts(ClientId client) {
  const std::uint64_t choice = rng_.below(100);
  if (choice < 55) return submit(client);
  if (choice < 70) return release_some(client, false);
  if (choice < 80 && options_.cancels) return cancel_some(client);
  if (choice < 90 && options_.scatters) return scatter_some(client);
  if (choice < 93 && options_.client_losses) return lose_client(client);
}

void Cluster::fate_acts() {
  const std::uint64_t choice = rng_.below(100);
  const WorkerId worker = some_worker();
  if (choice < 25 && options_.losses && worker.valid()) return die(worker);
  if (choice < 35 && options_.losses) return add_worker(rng_.chance(0.5));
  if (choice < 50 && options_.pauses && worker.valid()) {
    WorkerNode& node = workers_.at(worker);
    node.paused = !node.paused;
    node.model->pause(node.paused);
    node.up_free = std::max(node.up_free, now_ + latency());
    const auto status = node.paused ? WorkerStatus::paused : WorkerStatus::running;
    return at(node.up_free, [this, worker, status] { step(WorkerStatusChanged{worker, status}); });
  }
  if (choice < 60 && options_.dropped_data && worker.valid()) {
    return workers_.at(worker).model->lose_value(
        static_cast<KeyNo>(rng_.below(universe_.specs.size())));
  }
  if (choice < 75 && options_.strays) return stray();
  if (choice < 90) return move_replicas();
  if (choice < 92 && options_.restarts) return restart();
  if (choice < 95 && options_.rask > 0) {
    return step(ConfigChanged{rng_.chance(0.5) ? Automatic::off : Automatic::batch, {}});
  }
}

void Cluster::act() {
  ++activity_;
  const ClientId client = some_client();
  if (rng_.chance(0.7) && client.valid()) {
    client_acts(client);
  } else {
    fate_acts();
  }
}

}  // namespace sim
