//! Peers by id and by address, and which of them hold what.
//!
//! Holding is kept on both sides (Task::who_has, Peer::has_what) and changes only here, together
//! with the queue of what a peer should send us. A peer that has something queued, no transfer
//! under way and no pause is a candidate: nothing else need be looked at when transfers start.
//!
//! Answers to: WorkerState.has_what, data_needed, busy_workers, in_flight_workers.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_map.h>
#include <absl/hash/hash.h>

#include "worker/core/peer.h"
#include "worker/core/task_table.h"

namespace worker {

struct AddressHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view address) const { return absl::HashOf(address); }
};

class PeerTable {
 public:
  PeerTable(std::string own_address, TaskTable& tasks);

  Peer& operator[](PeerId id) { return peers_[id.value]; }
  const Peer& operator[](PeerId id) const { return peers_[id.value]; }
  bool has(PeerId id) const;
  std::uint32_t slots() const { return static_cast<std::uint32_t>(peers_.size()); }
  std::optional<PeerId> find(std::string_view address) const;
  const std::string& own_address() const { return own_address_; }
  const std::vector<PeerId>& candidates() const { return candidates_; }

  //! Replaces the holders of a task; our own address and doubles are left out. A task in `fetch`
  //! is queued with its new holders at once.
  void set_who_has(TaskId id, std::span<const std::string_view> addresses);
  void remove_holder(TaskId id, PeerId peer);
  void remove_all_holders(TaskId id);
  //! The peer holds nothing any more. `lost` gets the tasks that stood in its queue.
  void remove_peer(PeerId id, std::vector<TaskId>& lost);

  //! Queues the task with each of its holders / takes it out of all queues.
  void need(TaskId id);
  void need_not(TaskId id);
  //! The most urgent task the peer should send; it must have one.
  TaskId first_needed(PeerId id);

  void set_busy(PeerId id, bool busy);
  void set_in_flight(PeerId id, bool in_flight);
  //! Frees the slot of a peer that nothing refers to.
  void free_if_idle(PeerId id);

 private:
  PeerId intern(std::string_view address);
  void add_holder(TaskId id, PeerId peer);
  void drop_holder(Task& task, std::size_t index);
  void need(Task& task, TaskId id, Holder& holder);
  void need_not(Holder& holder);
  void update_candidate(PeerId id);

  std::string own_address_;
  TaskTable& tasks_;
  std::deque<Peer> peers_;
  std::vector<PeerId> free_;
  absl::flat_hash_map<std::string, PeerId, AddressHash, std::equal_to<>> by_address_;
  std::vector<PeerId> candidates_;
  std::vector<PeerId> listed_;  //!< scratch of set_who_has
  std::uint64_t serial_ = 0;
};

//! The host part of an address, e.g. "127.0.0.1" of "tcp://127.0.0.1:4000".
std::string_view address_host(std::string_view address);

}  // namespace worker
