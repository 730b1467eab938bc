//! What must hold between steps. Tests call it after every step.
//!
//! Answers to: WorkerState.validate_state and validate_task, plus the counts kept beside the tables.
#include <map>
#include <set>
#include <string>

#include "worker/core/state.h"

namespace worker {
namespace {

using enum TaskState;

class Validator {
 public:
  explicit Validator(const State& s) : s_(s) {}

  std::vector<std::string> run() {
    for (std::uint32_t i = 0; i < s_.tasks.slots(); ++i) {
      if (s_.tasks.has(TaskId(i))) check_task(TaskId(i));
    }
    check_peers();
    check_counts();
    check_resources();
    return std::move(broken_);
  }

 private:
  void require(bool holds, const char* what) {
    if (!holds) broken_.push_back(where_ + what);
  }

  void check_task(TaskId id) {
    const Task& task = s_.tasks[id];
    where_ = protocol::key_text(task.key) + " (" + std::string(task_state_name(task.state)) + "): ";
    ++counts_[static_cast<std::size_t>(task.state)];
    require(s_.tasks.find(task.key) == id, "is not what its key finds");
    require(task.recommendation == Task::kNowhere, "has a recommendation between steps");
    require(task.offer == Task::kNowhere, "has an offer between steps");
    require(!task.done, "has an outcome nobody digested");
    require(task.value.valid() == (task.state == memory), "holds a value exactly in memory");
    require((task.missing_place != Task::kNowhere) == (task.state == missing),
            "is listed as missing exactly when missing");
    require(task.in_queue == (task.state == ready || task.state == constrained),
            "stands in a queue exactly when ready or constrained");
    check_activity(task);
    check_edges(id, task);
    check_holders(id, task);
    check_wants(task);
    if (task.state == memory) nbytes_ += task.nbytes;
    if (task.activity == Activity::executing) ++executing_;
    if (runs(task)) {
      for (const auto& [index, amount] : task.resources) taken_[index] += amount;
    }
  }

  static bool runs(const Task& task) {
    return task.activity == Activity::executing || task.activity == Activity::long_running;
  }

  void check_activity(const Task& task) {
    switch (task.state) {
      case executing:
        return require(task.activity == Activity::executing, "does not execute");
      case long_running:
        return require(task.activity == Activity::long_running, "is not long-running");
      case flight:
        return require(task.activity == Activity::flight, "is not in flight");
      case cancelled: case resumed:
        return require(task.activity != Activity::none, "is cancelled while nothing goes on");
      default:
        return require(task.activity == Activity::none, "is active in a quiet state");
    }
  }

  void check_edges(TaskId id, const Task& task) {
    std::uint32_t waiting_for = 0;
    for (EdgeId at : task.dependencies) {
      const Edge& edge = s_.tasks[at];
      require(edge.dependent == id, "owns an edge of somebody else");
      require(s_.tasks.has(edge.dependency), "depends on a forgotten task");
      if (!edge.waiting) continue;
      ++waiting_for;
      require(edge.waiter, "waits without being a waiter");
      const TaskState state = s_.tasks[edge.dependency].state;
      require(state != memory && state != released,
              "waits for what nobody fetches or computes");
    }
    require(waiting_for == task.waiting_for_data, "miscounts what it waits for");
    std::uint32_t dependents = 0;
    std::uint32_t waiters = 0;
    EdgeId last;
    for (EdgeId at = task.first_dependent; at.valid(); at = s_.tasks[at].next) {
      require(s_.tasks[at].dependency == id && s_.tasks[at].previous == last, "has a torn list");
      require(s_.tasks.has(s_.tasks[at].dependent), "is needed by a forgotten task");
      ++dependents;
      if (s_.tasks[at].waiter) ++waiters;
      last = at;
    }
    require(last == task.last_dependent, "has a torn list");
    require(dependents == task.dependents, "miscounts its dependents");
    require(waiters == task.waiters, "miscounts its waiters");
  }

  void check_holders(TaskId id, const Task& task) {
    std::set<PeerId> peers;
    for (const Holder& holder : task.who_has) {
      require(peers.insert(holder.peer).second, "lists a holder twice");
      require(s_.peers.has(holder.peer), "is held by a peer that is gone");
      const Peer& peer = s_.peers[holder.peer];
      require(holder.place < peer.has_what.size() && peer.has_what[holder.place] == id,
              "is not where its holder lists it");
      require(holder.needed == (task.state == fetch), "is queued exactly when in fetch");
      if (holder.needed) ++needed_[holder.peer];
    }
  }

  void check_wants(const Task& task) {
    if (task.state == waiting) require(task.waiting_for_data > 0, "waits for nothing");
    if (task.state == fetch) require(!task.who_has.empty(), "has nobody to be fetched from");
    if (task.state == missing) require(task.who_has.empty(), "is missing but held");
    if (task.state == ready) require(task.resources.empty(), "needs resources");
    if (task.state == constrained) require(!task.resources.empty(), "needs no resources");
    if (task.state == ready || task.state == constrained || runs(task)) {
      require(task.waiting_for_data == 0, "waits for data");
    }
    if (task.state == fetch || task.state == missing) {
      require(!task.actor, "is an actor that is to be fetched");
    }
    if (task.activity == Activity::flight) {
      require(task.coming_from.valid() && s_.peers[task.coming_from].in_flight,
              "comes from nowhere");
    }
  }

  void check_peers() {
    std::uint32_t in_flight = 0;
    std::uint64_t bytes = 0;
    for (std::uint32_t i = 0; i < s_.peers.slots(); ++i) {
      const PeerId id(i);
      if (!s_.peers.has(id)) continue;
      const Peer& peer = s_.peers[id];
      where_ = peer.address + ": ";
      require(peer.address != s_.peers.own_address(), "is ourselves");
      require(s_.peers.find(peer.address) == id, "is not what its address finds");
      require(peer.needed == needed_[id], "miscounts what it should send");
      const bool candidate = peer.needed > 0 && !peer.busy && !peer.in_flight;
      require(candidate == (peer.candidate_place != Peer::kNowhere), "is wrongly a candidate");
      require(!candidate || s_.peers.candidates()[peer.candidate_place] == id, "is misplaced");
      require(peer.in_flight || peer.gathering.empty(), "gathers without a transfer");
      if (peer.in_flight) {
        ++in_flight;
        bytes += peer.gathering_nbytes;
      }
    }
    where_ = "transfers: ";
    require(in_flight == s_.transfer_incoming_count, "miscounted");
    require(bytes == s_.transfer_incoming_bytes, "bytes miscounted");
  }

  void check_counts() {
    where_ = "counts: ";
    for (std::size_t i = 0; i < kTaskStates; ++i) {
      require(counts_[i] == s_.counts[i], "a state is miscounted");
    }
    require(s_.counts[static_cast<std::size_t>(ready)] == s_.ready_count, "ready queue");
    require(s_.counts[static_cast<std::size_t>(constrained)] == s_.constrained_count,
            "constrained queue");
    require(s_.counts[static_cast<std::size_t>(missing)] == s_.missing.size(), "missing list");
    require(executing_ == s_.executing_count, "executing");
    require(s_.executing_count <= s_.config.nthreads, "more run than there are threads");
    require(nbytes_ == s_.nbytes, "bytes in memory");
    require(s_.recommendations.empty() && s_.offers.empty(), "a step left something behind");
  }

  void check_resources() {
    where_ = "resources: ";
    for (std::size_t i = 0; i < s_.resources.size(); ++i) {
      const ResourceLevel& level = s_.resources[i];
      const double off = level.total - level.available - taken_[static_cast<std::uint16_t>(i)];
      require(off < 1e-9 && off > -1e-9, "taken and available do not add up");
    }
  }

  const State& s_;
  std::vector<std::string> broken_;
  std::string where_;
  std::array<std::uint32_t, kTaskStates> counts_{};
  std::map<PeerId, std::uint32_t> needed_;
  std::map<std::uint16_t, double> taken_;
  std::uint64_t nbytes_ = 0;
  std::uint32_t executing_ = 0;
};

}  // namespace

std::vector<std::string> validate(const State& s) { return Validator(s).run(); }

}  // namespace worker
