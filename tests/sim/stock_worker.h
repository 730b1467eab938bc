//! A model of a stock Dask worker: what it does with each message, states and oddities included.
//!
//! Kept from the real machine because the scheduler must live with it: a running task cannot be
//! stopped, only cancelled; asked again it goes on with the old attempt and answers with the old
//! run id; a compute for a task it has in memory is answered at once; a fetch that fails leaves
//! the key missing until the scheduler names other holders.
//!
//! Answers to: distributed/worker_state_machine.py, WorkerState.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "protocol/base/rng.h"
#include "scheduler/core/actions.h"
#include "tests/sim/universe.h"

namespace sim {

using protocol::RunId;
using protocol::WorkerId;
using scheduler::VictimState;

// ---- scheduler -> worker ----
struct Compute {
  KeyNo key;
  RunId run;
  scheduler::Resources resources;
  std::map<KeyNo, std::set<WorkerId>> who_has;
  bool actor = false;
};
struct Free { KeyNo key; };
struct RemoveReplica { KeyNo key; };
struct Acquire { KeyNo key; std::set<WorkerId> who_has; };
struct Refresh { std::map<KeyNo, std::set<WorkerId>> who_has; };
struct Steal { KeyNo key; std::uint64_t theft; };
struct PeerGone { WorkerId worker; };
using ToWorker = std::variant<Compute, Free, RemoveReplica, Acquire, Refresh, Steal, PeerGone>;

// ---- worker -> scheduler ----
struct Finished { KeyNo key; RunId run; };
struct Erred { KeyNo key; RunId run; };
struct Added { KeyNo key; };
struct Dropped { KeyNo key; };
struct AskWhoHas { std::vector<KeyNo> keys; };
struct Seceded { KeyNo key; RunId run; double seconds; };
struct Rescheduled { KeyNo key; };
struct StealAnswer { KeyNo key; std::uint64_t theft; VictimState state; };
using FromWorker =
    std::variant<Finished, Erred, Added, Dropped, AskWhoHas, Seceded, Rescheduled, StealAnswer>;

//! What a worker asks of the world around it.
struct WorkerHost {
  virtual ~WorkerHost() = default;
  virtual void send(WorkerId from, FromWorker message) = 0;
  virtual void run_for(WorkerId at, KeyNo key, double seconds) = 0;  //!< then executed()
  virtual void fetch(WorkerId to, WorkerId from, KeyNo key) = 0;     //!< then fetched()
  virtual std::uint32_t runs_so_far(KeyNo key) = 0;                  //!< counts this one
  //! An output of a P2P shuffle that ran where it does not belong.
  virtual bool misplaced(WorkerId at, KeyNo key) = 0;
  virtual void die(WorkerId who) = 0;
  virtual void complain(const std::string& what) = 0;
};

class StockWorker {
 public:
  enum class S : std::uint8_t { released, waiting, ready, executing, long_running, memory, error,
                                fetch, flight, missing, cancelled, resumed };
  struct Task {
    S state = S::released;
    S previous = S::released;  //!< of cancelled and resumed
    S next = S::released;      //!< of resumed
    RunId run;
    RunId started;             //!< the run in force when execution began
    scheduler::Resources resources;
    std::set<KeyNo> inputs;
    std::set<KeyNo> dependents;
    std::set<WorkerId> who_has;
    WorkerId coming_from;
    std::uint64_t value = 0;   //!< what the execution under way will give
    bool broken = false;       //!< an input was gone when it began
  };

  StockWorker(WorkerId id, int threads, scheduler::Resources resources, const Universe& universe,
              WorkerHost& host)
      : id_(id), threads_(threads), available_(std::move(resources)), universe_(universe),
        host_(host) {}

  //! It may be handed tasks ahead. Inputs that it is making itself it waits for, as stock does.
  void set_rask(bool rask) { rask_ = rask; }
  void receive(const ToWorker& message);
  void executed(KeyNo key);
  //! The answer to a fetch: the value, or nothing; `reached`: the peer answered at all.
  void fetched(KeyNo key, WorkerId from, bool reached, const std::uint64_t* value);
  void find_missing();  //!< every heartbeat
  void pause(bool paused);
  void scatter(KeyNo key, std::uint64_t value);
  //! The worker loses a value of its own accord, as when it cannot be unspilled.
  void lose_value(KeyNo key);

  const std::uint64_t* value(KeyNo key) const;
  const std::map<KeyNo, std::uint64_t>& data() const { return data_; }
  const std::map<KeyNo, Task>& tasks() const { return tasks_; }
  WorkerId id() const { return id_; }

 private:
  void on(const Compute& message);
  void on(const Free& message);
  void on(const RemoveReplica& message);
  void on(const Acquire& message);
  void on(const Refresh& message);
  void on(const Steal& message);
  void on(const PeerGone& message);

  Task* find(KeyNo key);
  void to_waiting(KeyNo key);
  void to_fetch(KeyNo key);
  void to_memory(KeyNo key, std::uint64_t value);
  void release(KeyNo key);         //!< as far as its state permits
  void purge(KeyNo key);           //!< out of all lists; forgotten if nothing depends on it
  void forget_peer(WorkerId peer);
  void begin(KeyNo key);
  void advance();                  //!< starts what can be started
  bool reserve(const scheduler::Resources& wanted, double sign);

  WorkerId id_;
  int threads_;
  int busy_ = 0;
  bool paused_ = false;
  bool rask_ = false;
  scheduler::Resources available_;
  const Universe& universe_;
  WorkerHost& host_;
  std::map<KeyNo, Task> tasks_;
  std::map<KeyNo, std::uint64_t> data_;
  std::set<KeyNo> running_;        //!< executing or long-running, cancelled or not
};

}  // namespace sim
