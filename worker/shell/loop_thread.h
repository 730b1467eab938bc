//! The native loop of a worker: everything that lives on it, and its turn.
//!
//! Whoever holds the turn may use anything here as if it were the loop's own thread. The loop's
//! thread holds it while it works and lets go of it before it sleeps; Python's threads take it for
//! a moment (`Turn`). So an executor that has finished a task stores the value, steps the core and
//! takes its next job itself, without waking anybody. Never wait for the GIL with the turn held.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "protocol/base/result.h"
#include "protocol/net/listener.h"
#include "protocol/net/loop.h"
#include "worker/shell/driver.h"
#include "worker/shell/fetcher.h"
#include "worker/shell/meter.h"
#include "worker/shell/options.h"
#include "worker/shell/packer.h"
#include "worker/shell/peer_server.h"
#include "worker/shell/queues.h"
#include "worker/shell/scheduler_link.h"
#include "worker/shell/service_queue.h"
#include "worker/shell/spiller.h"
#include "worker/shell/store.h"
#include "worker/shell/stream_in.h"
#include "worker/shell/topology.h"

namespace worker {

class LoopThread {
 public:
  explicit LoopThread(Options given) : options(std::move(given)) {}
  ~LoopThread() { loop.finish_pool_work(); }  //!< what follows it needs the parts

  //! Made once the address is known, because the core must know it.
  struct Parts {
    explicit Parts(LoopThread& home);

    protocol::RpcPool pool;
    protocol::StreamSender stream;
    Driver driver;
    Packer packer;
    Fetcher fetcher;
    PeerServer server;
    StreamIn in;
    SchedulerLink link;
    Spiller spiller;
    protocol::Timer find_missing;
  };

  Options options;
  Topology topology;
  Meter meter;
  std::atomic<std::uint32_t> executors = 0;  //!< bound so far
  WaitQueue<Job> jobs;
  WaitQueue<PackRequest> packs;
  ServiceQueue service;
  std::string address;  //!< set before the thread starts

  std::mutex turn;
  protocol::Loop loop;
  Store store;
  std::unique_ptr<protocol::Listener> listener;
  std::unique_ptr<Parts> parts;
  std::string status = "init";
  std::thread thread;

  protocol::Status open(std::uint16_t port);
  void run();
  //! Takes on a status, tells the scheduler, and starts or stops taking on work.
  void set_status(std::string_view wanted, std::string_view stimulus);
  //! The scheduler is gone or wants us gone: Python closes the worker.
  void lost(std::string reason);
  void shut();
  void tell(ServiceEvent::Kind kind, std::string text);
  //! Half of what was ready when this last was true is done: the scheduler should hear of it now, so
  //! that more is here before the rest is done.
  bool runs_low();

 private:
  void on_stream_op(const protocol::Message& message, protocol::Value op);
  void on_memory(double used, bool high);
  std::uint64_t ready_told_ = 0;
};

//! Holds the turn; ends it in order. `urgent`: see Loop::end_borrowed_turn.
class Turn {
 public:
  explicit Turn(LoopThread& home) : home_(home), lock_(home.turn) {}
  ~Turn() { home_.loop.end_borrowed_turn(urgent_); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  LoopThread::Parts* operator->() { return home_.parts.get(); }
  void set_urgent(bool urgent) { urgent_ = urgent; }

 private:
  LoopThread& home_;
  std::unique_lock<std::mutex> lock_;
  bool urgent_ = true;
};

}  // namespace worker
