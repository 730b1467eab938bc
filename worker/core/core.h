//! The worker's brain. Feed it one event and the time; it appends what the outside world must do.
//!
//! It decides what to fetch from whom, what to run next, what to keep and what to tell the
//! scheduler. It never blocks, never reads a clock, never fails, never sees a value: same events,
//! same actions, always. The read side is for the shell (encoding actions, serving data,
//! heartbeats) and for tests.
//!
//! Answers to: distributed/worker_state_machine.py, WorkerState.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/base/time.h"
#include "worker/core/actions.h"
#include "worker/core/events.h"
#include "worker/core/peer.h"
#include "worker/core/task.h"

namespace worker {

using protocol::Duration;
using protocol::Now;

//! Dask's configuration as far as the core uses it; defaults are stock's.
struct Config {
  std::string address{};  //!< our own, as peers and the scheduler write it
  std::uint32_t nthreads = 1;
  std::vector<std::pair<std::string, double>> resources{};
  std::uint32_t transfer_incoming_count_limit = 50;
  std::uint64_t transfer_incoming_bytes_throttle_threshold = 10'000'000;
  std::uint64_t transfer_incoming_bytes_limit = kNoLimit;  //!< stock: 10 % of the memory limit
  std::uint64_t transfer_message_bytes_limit = 50'000'000;
  std::uint64_t default_data_size = 1024;  //!< of a key whose size nobody told
  //! Chance in choosing between equal peers. 0: none, the lower address wins.
  std::uint64_t seed = 1;

  static constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();
};

struct ResourceLevel {
  std::string name;
  double total = 0;
  double available = 0;
};

struct State;  //!< tables and queues; worker/core/state.h

class Core {
 public:
  explicit Core(Config config);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  //! `stimulus` names the cause for stories (Dask's stimulus_id).
  void step(const Event& event, std::string_view stimulus, Now now, Actions& out);

  //! Whether to report each transition (for worker plugins); off at first.
  void observe_transitions(bool on);

  // ---- read side ------------------------------------------------------------------------------
  std::optional<TaskId> find(KeyView key) const;
  const Task& task(TaskId id) const;
  const Peer& peer(PeerId id) const;
  std::optional<PeerId> find_peer(std::string_view address) const;

  bool running() const;                             //!< false: paused
  std::uint64_t nbytes() const;                     //!< of all values in memory or spilled
  std::uint32_t count(TaskState state) const;
  std::uint32_t executing_count() const;            //!< threads in use; without long-running
  std::uint32_t transfer_incoming_count() const;
  std::uint64_t transfer_incoming_bytes() const;
  std::uint64_t transfer_incoming_count_total() const;
  std::uint64_t executed_count() const;             //!< ever, also failed and cancelled
  //! Every known task, in order of id. O(tasks).
  std::vector<TaskId> tasks() const;
  const std::vector<ResourceLevel>& resources() const;
  const State& state() const;

  //! Every broken invariant as a sentence; empty is well. O(everything): tests and debugging only.
  std::vector<std::string> validate() const;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace worker
