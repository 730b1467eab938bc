//! Between the core and the models: actions become messages, messages become events.
#include <cstdio>
#include <sstream>

#include "scheduler/core/shuffle.h"
#include "tests/scheduler/print_action.h"
#include "tests/sim/cluster.h"

namespace sim {

using namespace scheduler;

KeyNo Cluster::key_of(TaskId task) const { return universe_.find(core_->task(task).key()); }

std::set<WorkerId> Cluster::holders(TaskId task) const {
  std::set<WorkerId> found;
  for (const Replica& replica : core_->task(task).who_has) found.insert(replica.worker);
  return found;
}

void Cluster::print_event(const Event& event) const {
  std::printf("%.4f event %zu", now_, event.index());
  std::visit([](const auto& e) {
    if constexpr (requires { e.client.value; }) std::printf(" c%u", e.client.value);
    if constexpr (requires { e.worker.value; }) std::printf(" w%u", e.worker.value);
    if constexpr (requires { e.submission.value; }) std::printf(" graph %u", e.submission.value);
    if constexpr (requires { e.key.bytes; }) {
      std::printf(" %s", protocol::key_text(e.key).c_str());
    }
    if constexpr (requires { e.keys.begin()->bytes; }) {
      for (const KeyView key : e.keys) std::printf(" %s", protocol::key_text(key).c_str());
    }
  }, event);
  std::printf("\n");
}

void Cluster::step(const Event& event) {
  if (!failure_.empty()) return;
  ++events_;
  if (verbose_) print_event(event);
  Actions out;
  core_->step(event, "sim", Now{Duration::seconds(now_), now_}, out);
  check_step();
  for (const Action& action : out) {
    std::ostringstream text;
    scheduler::operator<<(text, action);
    for (const char c : text.str()) hash_ = mix(hash_, static_cast<std::uint64_t>(c));
    if (verbose_) {
      std::visit([&](const auto& a) {
        if constexpr (requires { a.task; }) text << " = " << protocol::key_text(core_->task(a.task).key());
      }, action);
      std::printf("%.4f   -> %s\n", now_, text.str().c_str());
    }
    deliver(action);
  }
}

void Cluster::to_worker(WorkerId worker, ToWorker message) {
  if (!core_->has_worker(worker)) return complain("an action names a worker that is gone");
  ++activity_;
  WorkerNode& node = workers_.at(worker);
  node.down_free = std::max(node.down_free, now_ + latency());
  at(node.down_free, [this, worker, message = std::move(message)] {
    WorkerNode& there = workers_.at(worker);
    if (there.alive) there.model->receive(message);
  });
}

void Cluster::to_client(ClientId client, std::function<void(ClientNode&)> what) {
  ++activity_;
  const auto found = clients_.find(client);
  if (found != clients_.end() && found->second.here) what(found->second);
}

void Cluster::deliver(const Action& action) {
  if (const auto* a = std::get_if<SendCompute>(&action)) {
    const Task& task = core_->task(a->task);
    if (task.ahead_on.valid()) ++(task.state == TaskState::queued ? held_ : chained_);
    Compute message{key_of(a->task), a->run, {}, {}, task.actor};
    if (task.resources() != nullptr) message.resources = *task.resources();
    for (const Edge& edge : task.dependencies) {
      message.who_has[key_of(edge.task)] = holders(edge.task);
    }
    to_worker(a->worker, message);
  } else if (const auto* free = std::get_if<SendFree>(&action)) {
    to_worker(free->worker, Free{key_of(free->task)});
  } else if (const auto* unknown = std::get_if<SendFreeUnknown>(&action)) {
    to_worker(unknown->worker, Free{universe_.find(unknown->key)});
  } else if (const auto* remove = std::get_if<SendRemoveReplica>(&action)) {
    to_worker(remove->worker, RemoveReplica{universe_.find(remove->key)});
  } else if (const auto* acquire = std::get_if<SendAcquireReplica>(&action)) {
    to_worker(acquire->worker, Acquire{key_of(acquire->task), holders(acquire->task)});
  } else if (const auto* refresh = std::get_if<SendRefreshWhoHas>(&action)) {
    Refresh message;
    for (const TaskId task : refresh->tasks) message.who_has[key_of(task)] = holders(task);
    to_worker(refresh->worker, message);
    --activity_;  // part of the heartbeat
  } else if (const auto* steal = std::get_if<SendStealRequest>(&action)) {
    to_worker(steal->worker, Steal{key_of(steal->task), steal->theft});
  } else if (const auto* gone = std::get_if<AnnounceWorkerGone>(&action)) {
    for (const WorkerId worker : core_->workers()) to_worker(worker, PeerGone{gone->gone});
  } else if (const auto* memory = std::get_if<ReportInMemory>(&action)) {
    const KeyNo key = key_of(memory->task);
    to_client(memory->client, [key](ClientNode& c) {
      const auto found = c.futures.find(key);
      if (found != c.futures.end() && found->second == Future::pending) {
        found->second = Future::finished;
      }
    });
  } else if (const auto* erred = std::get_if<ReportErred>(&action)) {
    const KeyNo key = key_of(erred->task);
    if (core_->task(erred->task).error() == nullptr) complain("an error without a reason");
    to_client(erred->client, [key](ClientNode& c) {
      if (c.futures.contains(key)) c.futures[key] = Future::erred;
    });
  } else if (const auto* lost = std::get_if<ReportLost>(&action)) {
    const KeyNo key = key_of(lost->task);
    to_client(lost->client, [key](ClientNode& c) {
      if (c.futures.contains(key)) c.futures[key] = Future::pending;
    });
  } else if (const auto* retried = std::get_if<ReportRetried>(&action)) {
    const KeyNo key = key_of(retried->task);
    to_client(retried->client, [key](ClientNode& c) {
      if (c.futures.contains(key)) c.futures[key] = Future::pending;
    });
  } else if (const auto* cancelled = std::get_if<ReportCancelled>(&action)) {
    to_client(cancelled->client, [this, cancelled](ClientNode& c) {
      for (const Key& name : cancelled->keys) {
        const KeyNo key = universe_.find(name);
        if (c.futures.contains(key)) c.futures[key] = Future::cancelled;
      }
    });
  } else if (std::holds_alternative<ReportRestart>(action)) {
    for (auto& [id, client] : clients_) {
      for (auto& [key, future] : client.futures) future = Future::cancelled;
    }
  } else if (std::holds_alternative<WantsTick>(action)) {
    later(0.005, [this] { step(Tick{}); });
  } else if (std::holds_alternative<WantsTurn>(action)) {
    ++activity_;
    const auto budget = static_cast<std::uint32_t>(1 + rng_.below(200));
    later(0.0001, [this, budget] { step(Turn{budget}); });
  }
}

// ---- what workers say ---------------------------------------------------------------------------

void Cluster::send(WorkerId from, FromWorker message) {
  if (!std::holds_alternative<AskWhoHas>(message)) ++activity_;
  WorkerNode& node = workers_.at(from);
  node.up_free = std::max(node.up_free, now_ + latency());
  const bool twice = options_.doubles && !healing_ && rng_.chance(0.1);
  at(node.up_free, [this, from, message = std::move(message), twice] {
    if (workers_.at(from).cut) return;
    from_worker(from, message);
    if (twice) from_worker(from, message);
  });
}

namespace {

//! Turns a worker's message into an event and passes it on while its views are good.
struct Translate {
  const Universe& universe;
  WorkerId worker;
  std::function<void(const Event&)> pass;

  KeyView key(KeyNo number) const { return universe.specs[number].key; }
  void operator()(const Finished& m) const {
    TaskFinished done;
    done.worker = worker;
    done.key = key(m.key);
    done.run = m.run;
    done.nbytes = 1000 * (1 + m.key % 7);
    done.type_name = "int";
    const StartStop span{StartStop::Kind::compute, 0, universe.specs[m.key].behaviour.seconds};
    done.startstops = {&span, 1};
    pass(done);
  }
  void operator()(const Erred& m) const {
    TaskErred erred;
    erred.worker = worker;
    erred.key = key(m.key);
    erred.run = m.run;
    erred.exception = std::make_shared<protocol::Payload>();
    pass(erred);
  }
  void operator()(const Added& m) const {
    const KeyView name = key(m.key);
    pass(ReplicasAdded{worker, {&name, 1}});
  }
  void operator()(const Dropped& m) const { pass(ReplicaDropped{worker, key(m.key)}); }
  void operator()(const AskWhoHas& m) const {
    std::vector<KeyView> names;
    for (const KeyNo number : m.keys) names.push_back(key(number));
    pass(WhoHasRequested{worker, names});
  }
  void operator()(const Seceded& m) const {
    pass(TaskSeceded{worker, key(m.key), m.run, m.seconds});
  }
  void operator()(const Rescheduled& m) const { pass(TaskRescheduled{worker, key(m.key)}); }
  void operator()(const StealAnswer& m) const {
    pass(StealAnswered{worker, key(m.key), m.theft, m.state});
  }
};

}  // namespace

void Cluster::from_worker(WorkerId worker, const FromWorker& message) {
  std::visit(Translate{universe_, worker,
                       [&](const Event& event) {
                         if (verbose_) {
                           std::printf("%.4f w%u says #%zu\n", now_, worker.value, message.index());
                         }
                         step(event);
                       }},
             message);
}

//! Transfers ask for the run of their shuffle; some barriers find at first that theirs differ.
void Cluster::ask_shuffle(WorkerId where, KeyNo key) {
  if (!options_.shuffles) return;
  if (const ShuffleSpec* below = universe_.shuffle_below(key)) {
    step(ShuffleStarted{below->id, view(key), where});
  }
  const ShuffleSpecRef& own = universe_.specs[key].shuffle;
  const ShuffleRun* run = own ? find_run(core_->state(), own->id) : nullptr;
  if (run == nullptr) return;
  step(ShuffleJoined{own->id, where});
  if (runs_[key] == 0 && key % 8 == 3) step(ShuffleRestarted{own->id, run->number});
}

bool Cluster::misplaced(WorkerId where, KeyNo key) {
  const ShuffleSpec* shuffle = options_.shuffles ? universe_.shuffle_above(key) : nullptr;
  const ShuffleRun* run = shuffle ? find_run(core_->state(), shuffle->id) : nullptr;
  // A worker without the resource could never run it.
  if (run == nullptr || !universe_.specs[key].annotations.resources.empty()) return false;
  const WorkerId owner = run->worker_for[key % run->worker_for.size()];
  if (owner == where) return false;
  step(ShuffleTaskPinned{shuffle->id, run->number, view(key), owner});
  return true;
}

void Cluster::run_for(WorkerId where, KeyNo key, double seconds) {
  ++activity_;
  ask_shuffle(where, key);
  later(seconds * (0.5 + 0.01 * static_cast<double>(rng_.below(100))), [this, where, key] {
    ++activity_;
    WorkerNode& node = workers_.at(where);
    if (node.alive) node.model->executed(key);
  });
}

void Cluster::fetch(WorkerId to, WorkerId from, KeyNo key) {
  later(latency(), [this, to, from, key] {
    ++activity_;
    const auto peer = workers_.find(from);
    const bool reached = peer != workers_.end() && peer->second.alive;
    const std::uint64_t* found = reached ? peer->second.model->value(key) : nullptr;
    const bool has = found != nullptr;
    const std::uint64_t value = has ? *found : 0;
    later(latency(), [this, to, from, key, reached, has, value] {
      WorkerNode& node = workers_.at(to);
      if (node.alive) node.model->fetched(key, from, reached, has ? &value : nullptr);
    });
  });
}

}  // namespace sim
