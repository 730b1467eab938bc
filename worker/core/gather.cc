//! Transfers: which peer is asked next, for which keys, and how the end of a transfer is digested.
//!
//! Limits are stock's: one transfer per peer; many small ones at a time, few large ones; a message
//! of bounded size; but always at least one, whatever its size, so that nothing waits for ever.
//!
//! Answers to: WorkerState._ensure_communicating, _select_workers_for_gather,
//! _select_keys_for_gather, _gather_dep_done_common.
#include <algorithm>
#include <tuple>

#include "protocol/base/rng.h"
#include "worker/core/state.h"

namespace worker {
namespace {

struct Choice {
  Priority priority;  //!< of its most urgent task
  bool remote;
  std::uint32_t needed;
  std::uint64_t chance;
  PeerId peer;
};

//! Orders a heap whose front is the peer to ask first.
struct AskedLater {
  const State& s;
  bool operator()(const Choice& a, const Choice& b) const {
    if (b.priority < a.priority) return true;
    if (a.priority < b.priority) return false;
    if (a.remote != b.remote) return a.remote;
    if (a.needed != b.needed) return a.needed < b.needed;
    if (a.chance != b.chance) return a.chance > b.chance;
    return s.peers[a.peer].address > s.peers[b.peer].address;
  }
};

bool throttled(const State& s) {
  const Config& c = s.config;
  return (s.transfer_incoming_count >= c.transfer_incoming_count_limit &&
          s.transfer_incoming_bytes >= c.transfer_incoming_bytes_throttle_threshold) ||
         s.transfer_incoming_bytes >= c.transfer_incoming_bytes_limit;
}

bool exceeds_limits(const State& s, const Task& task, std::uint64_t message_bytes) {
  if (s.transfer_incoming_bytes == 0 && message_bytes == 0) return false;
  const std::uint64_t under_way = s.transfer_incoming_bytes + message_bytes;
  const std::uint64_t size = s.size_of(task);
  const auto fits = [size](std::uint64_t limit, std::uint64_t used) {
    return used <= limit && size <= limit - used;
  };
  if (!fits(s.config.transfer_incoming_bytes_limit, under_way)) return true;
  return message_bytes != 0 && !fits(s.config.transfer_message_bytes_limit, message_bytes);
}

Choice choice(State& s, PeerId id, std::uint64_t chance) {
  const Peer& peer = s.peers[id];
  return Choice{s.tasks[s.peers.first_needed(id)].priority, peer.remote, peer.needed, chance, id};
}

std::vector<Choice> choices(State& s) {
  std::vector<Choice> out;
  out.reserve(s.peers.candidates().size());
  // Equal peers share the load: each step and each peer draws its own number.
  ++s.draws;
  for (PeerId id : s.peers.candidates()) {
    const std::uint64_t seed = s.config.seed + (s.draws << 32) + id.value;
    out.push_back(choice(s, id, s.config.seed == 0 ? 0 : protocol::Rng(seed).next()));
  }
  return out;
}

GatherDep select_keys(State& s, PeerId id) {
  GatherDep gather{id, {}, 0};
  while (s.peers[id].needed > 0) {
    const TaskId first = s.peers.first_needed(id);
    if (exceeds_limits(s, s.tasks[first], gather.total_nbytes)) break;
    s.peers.need_not(first);
    gather.to_gather.push_back(first);
    gather.total_nbytes += s.size_of(s.tasks[first]);
  }
  return gather;
}

void start_transfer(State& s, GatherDep gather) {
  Peer& peer = s.peers[gather.peer];
  for (TaskId id : gather.to_gather) {
    peer.gathering.push_back(s.tasks.ref(id));
    s.recommend({.task = id, .finish = TaskState::flight, .peer = gather.peer});
  }
  peer.gathering_nbytes = gather.total_nbytes;
  s.peers.set_in_flight(gather.peer, true);
  ++s.transfer_incoming_count;
  ++s.transfer_incoming_count_total;
  s.transfer_incoming_bytes += gather.total_nbytes;
  s.emit(std::move(gather));
}

}  // namespace

void ensure_communicating(State& s) {
  if (!s.running || s.peers.candidates().empty() || throttled(s)) return;
  std::vector<Choice> heap = choices(s);
  const AskedLater later{s};
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Choice next = heap.back();
    heap.pop_back();
    const Peer& peer = s.peers[next.peer];
    if (peer.needed == 0) continue;
    if (peer.needed != next.needed) {
      // A peer chosen before it also held some of these tasks.
      heap.push_back(choice(s, next.peer, next.chance));
      std::push_heap(heap.begin(), heap.end(), later);
      continue;
    }
    GatherDep gather = select_keys(s, next.peer);
    if (gather.to_gather.empty()) return;
    start_transfer(s, std::move(gather));
    if (throttled(s)) return;
  }
}

namespace {

//! Ends the transfer and calls `visit` for each task it was for, least urgent first, so that the
//! most urgent is settled first.
template <class Visit>
bool end_transfer(State& s, PeerId id, const Visit& visit) {
  if (!s.peers.has(id) || !s.peers[id].in_flight) {
    s.note(Note::Kind::unknown_transfer, KeyView{});
    return false;
  }
  Peer& peer = s.peers[id];
  --s.transfer_incoming_count;
  s.transfer_incoming_bytes -= peer.gathering_nbytes;
  s.peers.set_in_flight(id, false);
  for (auto it = peer.gathering.rbegin(); it != peer.gathering.rend(); ++it) {
    if (!s.tasks.is(*it)) continue;
    Task& task = s.tasks[it->id];
    // Scattered here meanwhile: it no longer waits for this transfer.
    if (task.activity != Activity::flight || task.coming_from != id) continue;
    task.done = true;
    task.coming_from = PeerId{};
    visit(it->id, task);
  }
  peer.gathering.clear();
  return true;
}

//! Everything the peer held is taken for lost.
void lose_peer(State& s, PeerId id) {
  std::vector<TaskId> lost;
  s.peers.remove_peer(id, lost);
  for (TaskId task : lost) {
    if (s.tasks[task].who_has.empty()) s.recommend(task, TaskState::missing);
  }
  s.peers.free_if_idle(id);
}

}  // namespace

void on_event(State& s, const GatherDepSuccess& e) {
  for (const Gathered& gathered : e.data) {
    const auto id = s.tasks.find(gathered.key);
    const std::uint32_t offer =
        s.offer(id.value_or(TaskId{}), gathered.value, gathered.nbytes);
    if (id) s.tasks[*id].offer = offer;
  }
  end_transfer(s, e.peer, [&](TaskId id, Task& task) {
    if (task.offer != Task::kNowhere) {
      s.recommend({.task = id, .finish = TaskState::memory, .run = task.run, .offer = task.offer});
    } else {
      s.peers.remove_holder(id, e.peer);
      s.recommend(id, TaskState::fetch);
    }
  });
  for (const Offer& offer : s.offers) {
    if (offer.task.valid()) s.tasks[offer.task].offer = Task::kNowhere;
  }
}

void on_event(State& s, const GatherDepBusy& e) {
  SendRequestRefreshWhoHas refresh;
  const bool known = end_transfer(s, e.peer, [&](TaskId id, Task& task) {
    s.recommend(id, TaskState::fetch);
    const bool other = std::any_of(task.who_has.begin(), task.who_has.end(), [&](const Holder& h) {
      return h.peer != e.peer && !s.peers[h.peer].busy;
    });
    if (!other) refresh.tasks.push_back(id);
  });
  if (!known) return;
  s.peers.set_busy(e.peer, true);
  s.emit(RetryBusyWorkerLater{e.peer});
  // Every known holder is busy; perhaps the scheduler knows others.
  if (!refresh.tasks.empty()) s.emit(std::move(refresh));
}

void on_event(State& s, const GatherDepNetworkFailure& e) {
  const bool known =
      end_transfer(s, e.peer, [&](TaskId id, Task&) { s.recommend(id, TaskState::fetch); });
  if (known) lose_peer(s, e.peer);
}

void on_event(State& s, const GatherDepFailure& e) {
  end_transfer(s, e.peer, [&](TaskId id, Task& task) {
    s.recommend({.task = id, .finish = TaskState::error, .run = task.run});
  });
}

void on_event(State& s, const RemoveWorker& e) {
  if (const auto id = s.peers.find(e.address)) lose_peer(s, *id);
}

void on_event(State& s, const RetryBusyWorker& e) {
  if (s.peers.has(e.peer)) s.peers.set_busy(e.peer, false);
}

}  // namespace worker
