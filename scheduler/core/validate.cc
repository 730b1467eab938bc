#include "scheduler/core/validate.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <cmath>

#include "scheduler/core/admission.h"

namespace scheduler {

namespace {

using S = TaskState;

bool in_play(S state) {
  return state == S::staged || state == S::waiting || state == S::queued ||
         state == S::processing || state == S::no_worker;
}

class Checker {
 public:
  explicit Checker(const State& state) : state_(state) {
    put_off_.insert(state.put_off.begin(), state.put_off.end());
  }

  std::vector<std::string> run() {
    state_.tasks.for_each([this](TaskId id, const Task& task) {
      subject_ = "task " + protocol::key_text(task.key()) + " (" +
                 (task.state == S::staged ? "staged" : std::string(state_name(task.state))) + ")";
      check_edges(id, task);
      check_state(id, task);
      check_both_ends(id, task);
      count(id, task);
    });
    for (const WorkerId id : state_.living) {
      subject_ = "worker " + state_.worker(id).address;
      check_worker(state_.worker(id));
    }
    subject_ = "scheduler";
    check_sums();
    check_pins();
    check_shuffles();
    return std::move(broken_);
  }

 private:
  void expect(bool holds, const char* rule) {
    if (!holds && broken_.size() < 20) broken_.push_back(subject_ + ": " + rule);
  }
  //! A task that is put off, and whatever it shares an edge with, is bound by fewer rules.
  bool put_off(TaskId id) const { return !put_off_.empty() && put_off_.contains(id); }
  const Task& task(TaskId id) const { return state_.tasks[id]; }

  void check_edges(TaskId id, const Task& t) {
    std::uint32_t waiting_on = 0, waiters = 0;
    for (std::size_t i = 0; i < t.dependencies.size(); ++i) {
      const Edge& edge = t.dependencies[i];
      waiting_on += edge.flag;
      expect(state_.tasks.alive(edge.task), "depends on a task that is gone");
      const Task& input = task(edge.task);
      expect(edge.place < input.dependents.size() && input.dependents[edge.place].task == id &&
                 input.dependents[edge.place].place == i,
             "an edge to a dependency does not match its other end");
      if (!edge.flag) continue;
      const bool loose = put_off(id) || put_off(edge.task);
      expect(loose || input.who_has.empty(), "waits for a task that is in memory");
      expect(loose || in_play(input.state), "waits for a task that is not on its way");
    }
    for (std::size_t i = 0; i < t.dependents.size(); ++i) {
      const Edge& edge = t.dependents[i];
      waiters += edge.flag;
      expect(state_.tasks.alive(edge.task), "a dependent is gone");
      const Task& dependent = task(edge.task);
      expect(edge.place < dependent.dependencies.size() &&
                 dependent.dependencies[edge.place].task == id,
             "an edge to a dependent does not match its other end");
      const bool loose = put_off(edge.task);
      expect(loose || !edge.flag || in_play(dependent.state), "a waiter is not in play");
      if (t.state == S::memory) {
        expect(loose || edge.flag == in_play(dependent.state),
               "in memory: waiters are the ones in play");
      }
    }
    expect(waiting_on == t.waiting_on, "waiting_on is not the number of flagged dependencies");
    expect(waiters == t.waiters, "waiters is not the number of flagged dependents");
  }

  //! Ready to run: inputs are in memory and know that this task needs them.
  void check_ready(TaskId id, const Task& t) {
    expect(t.waiting_on == 0, "ready but waiting");
    expect(!t.has_lost_dependencies, "ready but an input is lost for good");
    expect(t.error() == nullptr, "ready but has an error");
    for (const Edge& edge : t.dependencies) {
      const Task& input = task(edge.task);
      if (input.state == S::erred && put_off(id)) continue;  // it will be told
      expect(!input.who_has.empty(), "ready but an input is not in memory");
      expect(input.dependents[edge.place].flag, "ready but an input does not know its waiter");
    }
  }

  void check_state(TaskId id, const Task& t) {
    expect((t.state == S::processing) == t.processing_on.valid(), "processing_on iff processing");
    expect((t.state == S::memory) == !t.who_has.empty(), "has replicas iff in memory");
    expect((t.state == S::erred) <= (t.error() != nullptr), "erred without an error");
    expect(t.state == S::erred || t.error() == nullptr, "has an error but is not erred");
    expect(t.recommended == S::staged, "a recommendation was left over");
    expect(!t.compute_pending, "a compute was not sent");
    switch (t.state) {
      case S::staged: expect(t.waiting_on == 0, "staged but waiting"); break;
      case S::released:
        expect(t.waiting_on == 0, "released but waiting");
        for (const Edge& edge : t.dependents) {
          expect(!edge.flag || task(edge.task).state == S::staged || put_off(id) ||
                     put_off(edge.task),
                 "released but waited for");
        }
        break;
      case S::waiting:
        expect(t.waiting_on > 0 || put_off(id), "waiting for nothing");
        expect(bool(t.spec), "waiting without a run spec");
        for (const Edge& edge : t.dependencies) {
          const Task& input = task(edge.task);
          const bool loose = put_off(id) || put_off(edge.task);
          expect(loose || input.who_has.empty() == static_cast<bool>(edge.flag),
                 "waits for a dependency iff it is not in memory");
          expect(loose || input.dependents[edge.place].flag, "an input does not know its waiter");
        }
        break;
      case S::queued:
        check_ready(id, t);
        if (bounded(state_, t)) {
          expect(state_.lanes.contains(id, t), "a bounded task is queued but in no lane");
          ++delayed_;
        } else {
          expect(!t.restricted(), "queued with restrictions");
          ++queued_;
        }
        break;
      case S::no_worker: {
        check_ready(id, t);
        const auto found = state_.unrunnable.find(t.processing_place);
        expect(found != state_.unrunnable.end() && found->second.task == id, "not in unrunnable");
        ++unrunnable_;
        break;
      }
      case S::processing:
        check_ready(id, t);
        expect(bool(t.spec), "processing without a run spec");
        break;
      case S::memory:
        expect(t.needed() || !t.spec || put_off(id), "in memory but not needed");
        break;
      case S::erred:
      case S::forgotten: break;
    }
    if (t.state == S::released || t.state == S::erred) {
      expect(t.needed() || !t.dependents.empty() || put_off(id), "nobody refers to it");
    }
    if (t.state != S::staged && t.state != S::released && t.state != S::erred &&
        t.state != S::memory) {
      expect(t.needed() || put_off(id), "in play but nobody needs it");
    }
  }

  //! Tasks handed ahead: in the right list of the right worker, and only there.
  void check_ahead(TaskId id, const Task& t) {
    if (!t.ahead_on.valid()) return;
    expect(t.state == S::queued || t.state == S::waiting, "ahead but neither queued nor waiting");
    expect(state_.has_worker(t.ahead_on), "ahead on a worker that is gone");
    if (!state_.has_worker(t.ahead_on)) return;
    const Worker& worker = state_.worker(t.ahead_on);
    const auto& list = t.state == S::queued ? worker.held : worker.chained;
    expect(worker.rask, "ahead on a stock worker");
    expect(std::count(list.begin(), list.end(), id) == 1, "its worker does not list it as ahead");
    for (const Edge& edge : t.dependencies) {
      const Task& input = task(edge.task);
      expect(input.on(worker.id) || input.processing_on == worker.id || input.ahead_on == worker.id,
             "ahead without its inputs");
    }
  }

  void check_both_ends(TaskId id, const Task& t) {
    check_ahead(id, t);
    if (t.processing_on.valid()) {
      expect(state_.has_worker(t.processing_on), "processing on a worker that is gone");
      if (state_.has_worker(t.processing_on)) {
        const Worker& worker = state_.worker(t.processing_on);
        expect(t.processing_place < worker.processing.size() &&
                   worker.processing[t.processing_place] == id,
               "its worker does not list it as processing");
        if (t.steal_level >= 0) {
          const auto& level = worker.stealable[static_cast<std::size_t>(t.steal_level)];
          expect(t.steal_place < level.size() && level[t.steal_place] == id, "not in its level");
        }
      }
    }
    expect(t.processing_on.valid() || (t.steal_level < 0 && !t.long_running),
           "stealable or seceded without being processed");
    for (const Replica& replica : t.who_has) {
      expect(state_.has_worker(replica.worker), "a replica on a worker that is gone");
      if (!state_.has_worker(replica.worker)) continue;
      const Worker& worker = state_.worker(replica.worker);
      expect(replica.place < worker.has_what.size() && worker.has_what[replica.place] == id,
             "a holder does not list it");
      expect(!worker.needs_what.contains(id), "a holder is counted as fetching it");
    }
    for (const Want& want : t.who_wants) {
      const Client* client = state_.client(want.client);
      expect(client != nullptr && want.place < client->wants.size() &&
                 client->wants[want.place] == id,
             "a client that wants it does not list it");
    }
    expect(state_.replicated.contains(id) == (t.who_has.size() > 1), "replicated iff > 1 replica");
    if (t.actor && t.state == S::memory) {
      expect(std::any_of(t.who_has.begin(), t.who_has.end(),
                         [&](const Replica& r) { return lists_actor(r.worker, id); }),
             "an actor that no worker lists");
    }
  }

  bool lists_actor(WorkerId worker, TaskId id) const {
    const auto& actors = state_.worker(worker).actors;
    return std::find(actors.begin(), actors.end(), id) != actors.end();
  }

  void count(TaskId id, const Task& t) {
    ++in_state_[t.group][static_cast<std::size_t>(t.state)];
    wants_ += t.who_wants.size();
    if (!settled(t.state)) pending_ += t.who_wants.size();
    pins_[id] += t.pins;
    expect(state_.groups.contains(t.group->name), "belongs to a group that is gone");
  }

  void check_worker(const Worker& w) {
    std::uint64_t nbytes = 0, network = 0;
    std::uint32_t long_running = 0;
    absl::flat_hash_map<const TaskPrefix*, std::uint32_t> load;
    Resources used = w.used_resources;
    for (auto& [name, amount] : used) amount = 0;
    for (const TaskId id : w.has_what) {
      expect(state_.tasks.alive(id) && task(id).on(w.id), "holds a task that says otherwise");
      nbytes += state_.size_of(task(id));
    }
    for (const TaskId id : w.processing) {
      const Task& t = task(id);
      expect(t.processing_on == w.id, "processes a task that says otherwise");
      long_running += t.long_running;
      if (!t.long_running) ++load[t.group->prefix];
      if (t.resources() == nullptr) continue;
      for (const auto& [name, amount] : *t.resources()) {
        for (auto& [known, sum] : used) sum += known == name ? amount : 0;
      }
    }
    held_ += w.held.size();
    chained_ += w.chained.size();
    for (const std::deque<TaskId>* list : {&w.held, &w.chained}) {
      for (const TaskId id : *list) expect(task(id).ahead_on == w.id, "lists a task ahead elsewhere");
    }
    check_bounded(w);
    Wide compute = 0;
    expect(load.size() == w.load.size(), "load counts prefixes that are not processed");
    for (const auto& [prefix, entry] : w.load) {
      compute += static_cast<Wide>(entry.count) * entry.estimate_ns;
      const auto found = load.find(prefix);
      expect(found != load.end() && found->second == entry.count, "load differs from processing");
    }
    for (const auto& [id, fetch] : w.needs_what) {
      network += fetch.nbytes;
      expect(fetch.tasks > 0 && state_.tasks.alive(id), "fetches what nobody needs");
    }
    for (std::size_t i = 0; i < used.size(); ++i) {
      expect(std::abs(used[i].second - w.used_resources[i].second) < 1e-6, "used_resources differ");
    }
    expect(nbytes == w.nbytes, "nbytes is not the sum of has_what");
    expect(network == w.network_bytes, "network_bytes is not the sum of needs_what");
    expect(long_running == w.long_running, "long_running differs from processing");
    expect(compute == w.compute_ns, "compute_ns is not the sum of its load");
    check_membership(w);
    network_ += network;
  }

  //! What is reserved is the sum over these, so each must be there once.
  void check_bounded(const Worker& w) {
    std::size_t count = 0;
    for (const TaskId id : w.processing) count += bounded(state_, task(id));
    expect(count == w.bounded.size(), "bounded tasks differ from processing");
    for (std::size_t i = 0; i < w.bounded.size(); ++i) {
      expect(state_.tasks.alive(w.bounded[i]) && task(w.bounded[i]).processing_on == w.id,
             "reserves for a task that it does not process");
      expect(std::count(w.bounded.begin(), w.bounded.end(), w.bounded[i]) == 1,
             "reserves for a task twice");
    }
    expect(memory_use(state_, w).total() < 1ull << 62, "reserves less than nothing");
  }

  //! Tasks wait only for good reasons.
  void check_waits() {
    if (!state_.queue.empty()) {
      const Task& front = task(state_.queue.front());
      state_.open.for_each([&](std::uint32_t rank) {
        expect(!may_start(state_, front, state_.worker(state_.by_rank[rank])),
               "a task queues beside a free slot");
      });
    }
    std::size_t waiting = 0;
    std::size_t unrestricted = 0;
    for (const auto& [number, lane] : state_.lanes.all()) {
      waiting += lane.tasks.size();
      std::uint64_t bytes = 0;
      for (const Lane::Entry& entry : lane.tasks) bytes += task(entry.task).annotations->memory;
      expect(bytes == lane.bytes, "a lane's bytes are not the sum of its tasks'");
      unrestricted += !lane.restrictions;
    }
    expect(waiting == state_.lanes.size() && waiting == delayed_, "lanes differ from queued tasks");
    expect(unrestricted <= 2, "two lanes for the same restrictions");
  }

  void check_membership(const Worker& w) {
    expect(w.rank < state_.by_rank.size() && state_.by_rank[w.rank] == w.id, "rank is wrong");
    expect(state_.running.has(w.rank) == w.running(), "in running iff it runs");
    expect(state_.idle.has(w.rank) == w.idle && state_.saturated.has(w.rank) == w.saturated &&
               state_.open.has(w.rank) == w.has_slot,
           "sets of workers differ from its flags");
    expect(w.running() || (!w.idle && !w.saturated && !w.has_slot), "does not run but is offered");
    expect(!(w.idle && w.saturated), "idle and saturated");
    const bool free = w.running() && state_.slots(w) > 0;
    expect(w.has_slot == free, "has_slot iff slots are left");
    expect(state_.hungry.has(w.rank) == w.hungry, "hungry differs from its flag");
    expect(!w.hungry || (w.rask && w.running()), "hungry but cannot be fed");
  }

  void check_sums() {
    expect(queued_ == state_.queue.size() + state_.held, "queue size is not the number of queued tasks");
    expect(held_ == state_.held && chained_ == state_.chained, "sums of tasks ahead differ");
    for (const auto& [id, recall] : state_.recalls) {
      expect(state_.tasks.alive(id) && task(id).state == S::queued &&
                 task(id).ahead_on == recall.worker,
             "a recall of a task that is not held");
    }
    expect(unrunnable_ == state_.unrunnable.size(), "unrunnable is not the no-worker tasks");
    check_waits();
    expect(network_ == state_.total_network_bytes, "total_network_bytes differs");
    Wide compute = 0;
    for (const auto& [name, prefix] : state_.prefixes) {
      compute += static_cast<Wide>(prefix->processing) * prefix->estimate_ns;
    }
    expect(compute == state_.total_compute_ns, "total_compute_ns differs");
    std::uint64_t threads = 0, wants = 0, pending = 0;
    for (const WorkerId id : state_.living) threads += state_.worker(id).nthreads;
    for (const auto& client : state_.clients) {
      wants += client ? client->wants.size() : 0;
      pending += client ? client->pending : 0;
    }
    expect(threads == state_.total_nthreads, "total_nthreads differs");
    expect(wants == wants_, "clients want tasks that do not know it");
    expect(pending == pending_, "clients wait for other numbers of tasks");
    for (const auto& [name, group] : state_.groups) {
      StateCounts counted = in_state_[group.get()];
      const auto gone = static_cast<std::size_t>(S::forgotten);
      counted[gone] = group->states[gone];
      expect(counted == group->states, "a group's states differ from its tasks");
    }
    for (const auto& [id, theft] : state_.thefts.in_flight) {
      expect(state_.tasks.alive(id) && task(id).processing_on == theft.victim,
             "a theft of a task that the victim does not have");
    }
    expect(state_.recommendations.empty() && state_.computes.empty(), "the step left work behind");
  }

  void check_pins() {
    for (const auto& [id, graph] : state_.submissions) {
      const std::size_t done = graph.phase == Submission::Phase::unpinning ? graph.cursor : 0;
      for (std::size_t i = done; i < graph.pinned.size(); ++i) --pins_[graph.pinned[i]];
    }
    for (const auto& [id, rest] : pins_) expect(rest == 0, "pins differ from open submissions");
  }

  void check_shuffles() {
    expect(state_.shuffles.over.empty(), "a shuffle that is over was not ended");
    expect(state_.shuffles.runs.size() == state_.shuffles.by_id.size(), "runs without a name");
    for (const auto& [number, run] : state_.shuffles.runs) {
      expect(state_.tasks.alive(run.barrier) && task(run.barrier).extra &&
                 task(run.barrier).extra->shuffle == run.spec,
             "a shuffle runs without its barrier");
      for (const WorkerId id : run.participants) {
        expect(state_.has_worker(id), "a shuffle runs with a lost worker");
      }
    }
  }

  const State& state_;
  absl::flat_hash_set<TaskId> put_off_;  //!< see later.h
  std::string subject_;
  std::vector<std::string> broken_;
  absl::flat_hash_map<const TaskGroup*, StateCounts> in_state_;
  absl::flat_hash_map<TaskId, std::int64_t> pins_;
  std::size_t held_ = 0, chained_ = 0;
  std::size_t queued_ = 0, unrunnable_ = 0, wants_ = 0, pending_ = 0, delayed_ = 0;
  std::uint64_t network_ = 0;
};

}  // namespace

std::vector<std::string> broken_invariants(const State& state) { return Checker(state).run(); }

}  // namespace scheduler
