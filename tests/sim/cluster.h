//! A whole cluster in one thread: the real scheduler core, models of stock workers and of clients,
//! a network that keeps order per connection only, and one clock that jumps from event to event.
//!
//! Everything that happens is drawn from one seed. First fate and the clients act up; then the
//! faults stop and all must come right: every wanted task done or erred, every value true, and
//! after the clients have let go, every table empty.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "scheduler/core/core.h"
#include "scheduler/core/state.h"
#include "tests/sim/stock_worker.h"
#include "tests/sim/universe.h"

namespace sim {

using protocol::ClientId;
using protocol::Duration;
using protocol::Rng;
using protocol::SubmissionId;

class Cluster : private WorkerHost {
 public:
  Cluster(std::uint64_t seed, bool verbose);

  //! Runs the seed; the first thing that went wrong, or empty.
  std::string run();
  std::uint64_t hash() const { return hash_; }    //!< of all actions
  std::uint64_t events() const { return events_; }
  std::uint64_t held() const { return held_; }        //!< queued tasks that were handed ahead
  std::uint64_t chained() const { return chained_; }  //!< waiting tasks that were
  std::uint64_t delays() const { return core_->state().memory_counts.delayed; }

 private:
  enum class Future : std::uint8_t { pending, finished, erred, cancelled };
  struct WorkerNode {
    std::unique_ptr<StockWorker> model;
    int port = 0;
    bool alive = true;       //!< the process
    bool known = false;      //!< the scheduler has it
    bool paused = false;
    bool cut = false;        //!< what it said last never arrives
    double up_free = 0;      //!< when the connection to the scheduler has delivered all it took
    double down_free = 0;
  };
  struct ClientNode {
    std::string name;
    bool here = true;
    std::map<KeyNo, Future> futures;
    std::vector<std::function<void()>> waiting;  //!< messages behind an update-graph
    std::set<std::pair<KeyNo, WorkerId>> unheard;  //!< scattered, not yet told to the scheduler
    int graphs = 0;                              //!< update-graphs not yet committed
    double up_free = 0;
  };

  // ---- time and network (cluster.cc) ----
  void at(double time, std::function<void()> what);
  void later(double delay, std::function<void()> what) { at(now_ + delay, std::move(what)); }
  double latency() { return 0.0001 * static_cast<double>(1 + rng_.below(rng_.chance(0.05) ? 5000 : 50)); }
  void run_until(double time);
  void beat(WorkerId id);
  void settle();  //!< until nothing happens any more but heartbeats

  // ---- scheduler (glue.cc) ----
  void step(const scheduler::Event& event);
  void print_event(const scheduler::Event& event) const;
  void deliver(const scheduler::Action& action);
  void to_worker(WorkerId worker, ToWorker message);
  void to_client(ClientId client, std::function<void(ClientNode&)> what);
  void from_worker(WorkerId worker, const FromWorker& message);
  KeyNo key_of(scheduler::TaskId task) const;
  std::set<WorkerId> holders(scheduler::TaskId task) const;
  scheduler::KeyView view(KeyNo key) const { return universe_.specs[key].key; }

  // ---- WorkerHost ----
  void send(WorkerId from, FromWorker message) override;
  void run_for(WorkerId where, KeyNo key, double seconds) override;
  void fetch(WorkerId to, WorkerId from, KeyNo key) override;
  std::uint32_t runs_so_far(KeyNo key) override { return runs_[key]++; }
  bool misplaced(WorkerId at, KeyNo key) override;
  void die(WorkerId who) override;
  void complain(const std::string& what) override;

  // ---- fate and clients (fate.cc) ----
  void add_worker(bool complete);
  void act();
  void submit(ClientId client);
  void send_graph(ClientId client, std::vector<KeyNo> wants, std::set<KeyNo> defined);
  void send_records(SubmissionId graph, const std::vector<KeyNo>& slice,
                    const std::map<KeyNo, std::uint32_t>& numbers);
  void send_barriers(SubmissionId graph, const std::map<KeyNo, std::uint32_t>& numbers);
  void ask_shuffle(WorkerId where, KeyNo key);
  void say(ClientId client, std::function<void()> message);
  void arrive(ClientId client, std::function<void()> message);
  void graph_done(ClientId client);
  void client_acts(ClientId client);
  void fate_acts();
  void move_replicas();
  void restart();
  void release_some(ClientId client, bool all);
  void cancel_some(ClientId client);
  void scatter_some(ClientId client);
  void lose_client(ClientId client);
  void stray();
  WorkerId some_worker();
  ClientId some_client();

  // ---- judgement (checks.cc) ----
  void check_step();
  void check_alive();
  void check_empty();
  void dump() const;

  Rng rng_;
  bool verbose_;
  Options options_;
  Universe universe_;
  std::unique_ptr<scheduler::Core> core_;
  std::map<WorkerId, WorkerNode> workers_;
  std::map<ClientId, ClientNode> clients_;
  std::map<KeyNo, std::uint32_t> runs_;
  struct Timed {
    double time;
    std::uint64_t order;
    std::function<void()> what;
    bool operator<(const Timed& other) const {
      return std::pair(time, order) > std::pair(other.time, other.order);
    }
  };
  std::priority_queue<Timed> agenda_;
  double now_ = 1000;
  std::uint64_t order_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t hash_ = 0;
  std::uint64_t held_ = 0, chained_ = 0;
  std::uint64_t activity_ = 0;     //!< grows with everything but heartbeats and ticks
  std::uint32_t next_worker_ = 0, next_client_ = 0, next_graph_ = 0;
  int next_port_ = 4000;
  WorkerId special_;               //!< the worker of that name
  ClientId fire_and_forget_;
  bool healing_ = false;
  bool ending_ = false;
  std::string failure_;
};

}  // namespace sim
