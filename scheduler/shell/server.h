//! The scheduler process: everything the sessions and handlers share, and the one way to the core.
//!
//! One loop thread. Bytes become messages, messages become events, `step` feeds them to the core
//! and writes the resulting actions into the peers' streams; streams are flushed when the turn
//! ends. Whatever changes tasks goes through `step`, nothing else does.
//!
//! Answers to: distributed/scheduler.py, Scheduler (its server half).
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "protocol/base/rng.h"
#include "protocol/net/async.h"
#include "protocol/net/listener.h"
#include "protocol/net/loop.h"
#include "protocol/net/rpc_pool.h"
#include "scheduler/core/core.h"
#include "scheduler/shell/graph_intake.h"
#include "scheduler/shell/log.h"
#include "scheduler/shell/metadata.h"
#include "scheduler/shell/peers.h"
#include "scheduler/shell/plugins.h"
#include "scheduler/shell/semaphores.h"
#include "scheduler/shell/settings.h"
#include "scheduler/shell/topics.h"
#include "scheduler/shell/translate_out.h"
#include "scheduler/shell/watchers.h"

namespace scheduler {

class Server {
 public:
  Server(protocol::Loop& loop, Log& log, Settings settings, std::string python);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  //! Opens the port and starts the timers and the first graph process.
  protocol::Status start(const std::string& host, std::uint16_t port);
  //! Says goodbye to everyone, then stops the loop. Only the first call counts.
  void close(std::string_view reason);
  bool closing() const { return closing_; }

  //! One event into the core, its actions out to the peers. Not from inside another step.
  void step(const Event& event, std::string_view stimulus);
  //! "what-<seconds>": Dask's stimulus ids.
  static std::string stimulus(std::string_view what);

  // ---- workers (server_peers.cc) --------------------------------------------------------------
  //! A worker by its address, in any spelling, or by its name.
  WorkerPeer* find_worker(protocol::Value address_or_name);
  WorkerPeer* find_worker(std::string_view address);
  //! Takes a worker out; with `tell_to_close` it is told to shut down.
  void remove_worker(WorkerId id, std::string_view stimulus, bool expected, bool tell_to_close);
  //! The worker's stream has ended: removes it, over several turns if much was on it.
  protocol::Async<void> lose_worker(WorkerId id, std::string stimulus);
  //! Asks a worker to shut down, no more.
  void close_worker(WorkerPeer& worker);
  void set_worker_status(WorkerPeer& worker, WorkerStatus status, std::string_view stimulus);
  //! Seconds between heartbeats for so many peers.
  double heartbeat_interval(std::size_t peers) const;
  //! A host name and its IP, so that addresses with the name find the worker.
  void remember_host(const std::string& name, const std::string& ip);

  // ---- clients (server_peers.cc) --------------------------------------------------------------
  void remove_client(ClientId id, std::string_view stimulus);
  //! The client of this name; a pseudo-client is made if there is none.
  ClientId client_named(std::string_view name);
  //! Tells the client the outcome of retried keys again for two seconds. A client resets them when
  //! the answer to its call arrives, and on another connection the news that they are done may
  //! have come first.
  void report_again(ClientId client, std::vector<protocol::Key> keys);

  //! A number below n, for choices that may be arbitrary.
  std::size_t pick(std::size_t n) { return rng_.below(n); }

  //! When nothing ran, waited or was read; 0: busy. Answers to: Scheduler.check_idle.
  double idle_since();

  // ---- parts ----------------------------------------------------------------------------------
  protocol::Loop& loop;
  Log& log;
  const Settings settings;
  Core core;
  Peers peers;
  Topics topics;
  Metadata metadata;
  Plugins plugins;
  Semaphores semaphores;
  StatusWatchers watchers;
  protocol::RpcPool pool;
  GraphIntake graphs;

  const std::string id;            //!< Scheduler-<uuid>
  std::string address;             //!< how others reach us
  const double started;
  std::uint64_t scatter_turn = 0;  //!< round-robin over workers

 private:
  void accept(protocol::Connection::Ref connection, const protocol::Hello& hello);
  void refuse(const protocol::Address& peer, const protocol::Error& reason);
  void start_timers();
  void tick();
  void check_workers();
  void check_idle();
  void clean_topics();
  void report_retried();
  void expire_leases();
  void say_goodbye();
  void clean_topic_later(const std::string& topic);
  struct Losses;
  Losses losses_with(const WorkerPeer& worker) const;
  void announce_loss(WorkerPeer& worker, std::string_view stimulus, bool expected);
  void report_losses(const WorkerPeer& worker, std::string_view stimulus, bool expected);

  ActionWriter action_writer_;
  Actions actions_;
  bool stepping_ = false;
  bool turn_asked_ = false;
  bool closing_ = false;
  std::unique_ptr<protocol::Listener> listener_;
  std::vector<std::unique_ptr<protocol::Timer>> timers_;
  protocol::Timer soon_;  //!< a tick the core asked for
  std::unordered_map<std::string, std::string> resolved_;    //!< host name -> IP
  std::deque<std::pair<double, std::string>> stale_topics_;  //!< when to forget which topic
  struct Retried {
    ClientId client;
    std::vector<protocol::Key> keys;
    int reports_left;
    std::size_t at = 0;  //!< next key of the report under way
  };
  std::vector<Retried> retried_;
  std::uint64_t idle_at_transitions_ = 0;
  double idle_since_ = 0;
  protocol::Rng rng_{1};
  std::uint64_t refused_ = 0;
};

}  // namespace scheduler
