//! Who holds what, and what each peer should send.
#include "worker/core/peer_table.h"

#include <utility>

namespace worker {

std::string_view address_host(std::string_view address) {
  const std::size_t scheme = address.find("://");
  if (scheme != std::string_view::npos) address.remove_prefix(scheme + 3);
  return address.substr(0, address.rfind(':'));
}

PeerTable::PeerTable(std::string own_address, TaskTable& tasks)
    : own_address_(std::move(own_address)), tasks_(tasks) {}

bool PeerTable::has(PeerId id) const {
  return id.valid() && id.value < peers_.size() && !peers_[id.value].address.empty();
}

std::optional<PeerId> PeerTable::find(std::string_view address) const {
  const auto it = by_address_.find(address);
  if (it == by_address_.end()) return std::nullopt;
  return it->second;
}

PeerId PeerTable::intern(std::string_view address) {
  if (const auto it = by_address_.find(address); it != by_address_.end()) return it->second;
  PeerId id(slots());
  if (free_.empty()) {
    peers_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Peer& peer = (*this)[id];
  peer.address = address;
  peer.remote = address_host(address) != address_host(own_address_);
  by_address_.emplace(address, id);
  return id;
}

void PeerTable::set_who_has(TaskId id, std::span<const std::string_view> addresses) {
  const std::uint64_t fresh = ++serial_;
  const std::uint64_t known = ++serial_;
  listed_.clear();
  for (std::string_view address : addresses) {
    if (address == own_address_ || address.empty()) continue;
    const PeerId peer = intern(address);
    if ((*this)[peer].seen == fresh) continue;
    (*this)[peer].seen = fresh;
    listed_.push_back(peer);
  }
  Task& task = tasks_[id];
  for (std::size_t i = task.who_has.size(); i-- > 0;) {
    Peer& peer = (*this)[task.who_has[i].peer];
    if (peer.seen == fresh) {
      peer.seen = known;
    } else {
      drop_holder(task, i);
    }
  }
  for (PeerId peer : listed_) {
    if ((*this)[peer].seen == fresh) add_holder(id, peer);
  }
}

void PeerTable::add_holder(TaskId id, PeerId peer_id) {
  Task& task = tasks_[id];
  Peer& peer = (*this)[peer_id];
  Holder holder{peer_id, static_cast<std::uint32_t>(peer.has_what.size()), false};
  peer.has_what.push_back(id);
  if (task.state == TaskState::fetch) need(task, id, holder);
  task.who_has.push_back(holder);
  update_candidate(peer_id);
}

void PeerTable::drop_holder(Task& task, std::size_t index) {
  Holder& holder = task.who_has[index];
  if (holder.needed) need_not(holder);
  Peer& peer = (*this)[holder.peer];
  const TaskId moved = peer.has_what.back();
  peer.has_what[holder.place] = moved;
  peer.has_what.pop_back();
  for (Holder& other : tasks_[moved].who_has) {
    if (other.peer == holder.peer) other.place = holder.place;
  }
  task.who_has[index] = task.who_has.back();
  task.who_has.pop_back();
}

void PeerTable::remove_holder(TaskId id, PeerId peer) {
  Task& task = tasks_[id];
  for (std::size_t i = 0; i < task.who_has.size(); ++i) {
    if (task.who_has[i].peer == peer) {
      drop_holder(task, i);
      return;
    }
  }
}

void PeerTable::remove_all_holders(TaskId id) {
  Task& task = tasks_[id];
  while (!task.who_has.empty()) drop_holder(task, task.who_has.size() - 1);
}

void PeerTable::remove_peer(PeerId id, std::vector<TaskId>& lost) {
  Peer& peer = (*this)[id];
  for (TaskId task_id : peer.has_what) {
    Task& task = tasks_[task_id];
    for (std::size_t i = 0; i < task.who_has.size(); ++i) {
      if (task.who_has[i].peer != id) continue;
      if (task.who_has[i].needed) lost.push_back(task_id);
      task.who_has[i] = task.who_has.back();
      task.who_has.pop_back();
      break;
    }
  }
  peer.has_what.clear();
  peer.data_needed.clear();
  peer.needed = 0;
  update_candidate(id);
}

void PeerTable::need(Task& task, TaskId id, Holder& holder) {
  Peer& peer = (*this)[holder.peer];
  holder.needed = true;
  ++peer.needed;
  peer.data_needed.push(task.priority, tasks_.ref(id));
}

void PeerTable::need(TaskId id) {
  Task& task = tasks_[id];
  for (Holder& holder : task.who_has) {
    if (holder.needed) continue;
    need(task, id, holder);
    update_candidate(holder.peer);
  }
}

void PeerTable::need_not(Holder& holder) {
  Peer& peer = (*this)[holder.peer];
  holder.needed = false;
  if (--peer.needed == 0) {
    peer.data_needed.clear();
    update_candidate(holder.peer);
  }
}

void PeerTable::need_not(TaskId id) {
  for (Holder& holder : tasks_[id].who_has) {
    if (holder.needed) need_not(holder);
  }
}

TaskId PeerTable::first_needed(PeerId id) {
  const auto is_in = [&](TaskRef ref) {
    if (!tasks_.is(ref)) return false;
    for (const Holder& holder : tasks_[ref.id].who_has) {
      if (holder.peer == id) return holder.needed;
    }
    return false;
  };
  return (*this)[id].data_needed.top(is_in).id;
}

void PeerTable::set_busy(PeerId id, bool busy) {
  (*this)[id].busy = busy;
  update_candidate(id);
}

void PeerTable::set_in_flight(PeerId id, bool in_flight) {
  (*this)[id].in_flight = in_flight;
  update_candidate(id);
}

void PeerTable::update_candidate(PeerId id) {
  Peer& peer = (*this)[id];
  const bool is = peer.candidate_place != Peer::kNowhere;
  const bool should_be = peer.needed > 0 && !peer.busy && !peer.in_flight;
  if (is == should_be) return;
  if (should_be) {
    peer.candidate_place = static_cast<std::uint32_t>(candidates_.size());
    candidates_.push_back(id);
    return;
  }
  const PeerId moved = candidates_.back();
  candidates_[peer.candidate_place] = moved;
  (*this)[moved].candidate_place = peer.candidate_place;
  candidates_.pop_back();
  peer.candidate_place = Peer::kNowhere;
}

void PeerTable::free_if_idle(PeerId id) {
  Peer& peer = (*this)[id];
  if (!peer.has_what.empty() || peer.busy || peer.in_flight) return;
  by_address_.erase(peer.address);
  peer.address.clear();
  free_.push_back(id);
}

}  // namespace worker
