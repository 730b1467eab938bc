//! Drives the worker core: events in, actions carried out. The one place where the core is stepped.
//!
//! Everything that happens to the worker ends here as an Event on the loop thread; what the core
//! then asks for goes to the scheduler's stream, to executors, to peers or to the store.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/net/loop.h"
#include "protocol/net/sender.h"
#include "worker/core/core.h"
#include "worker/shell/queues.h"
#include "worker/shell/service_queue.h"
#include "worker/shell/store.h"
#include "worker/shell/work.h"

namespace worker {

class Driver {
 public:
  struct Hooks {
    std::function<void(PeerId, std::string address, std::vector<Key> keys)> fetch;
    std::function<void()> value_added;
    std::function<void(const std::string&)> log;
  };
  Driver(protocol::Loop& loop, Config config, Store& store, WaitQueue<PendingJob>& jobs,
         ServiceQueue& service, protocol::StreamSender& stream, Hooks hooks);

  void step(const Event& event, std::string_view stimulus);

  // ---- answers of executors -------------------------------------------------------------------
  void finished(const Job& job, Finished result);
  void failed(const Job& job, Failed failure);
  void rescheduled(const Job& job);
  void seceded(const Key& key, double compute_seconds);

  //! Values that arrived from a peer, as (key, payload).
  void gathered(PeerId peer, std::vector<std::pair<Key, PayloadRef>> data);
  //! The answer of a peer could not be read.
  void gather_failed(PeerId peer, const std::string& text);
  void put(Key key, Value value);

  const Core& core() const { return core_; }
  //! Tasks that run now, with the seconds since they were handed out.
  std::vector<std::pair<KeyView, double>> executing() const;

 private:
  void act(const GatherDep& a);
  void act(const Execute& a);
  void act(const RetryBusyWorkerLater& a);
  void act(const SendTaskFinished& a);
  void act(const SendTaskErred& a);
  void act(const SendReleaseWorkerData& a);
  void act(const SendReschedule& a);
  void act(const SendLongRunning& a);
  void act(const SendAddKeys& a);
  void act(const SendRequestRefreshWhoHas& a);
  void act(const SendStealResponse& a);
  void act(const DropValue& a);
  void act(const Transitioned&) {}
  void act(const Note& a);

  Input input(TaskId dependency, SpillRef& spilled);
  std::string stimulus(std::string_view cause) const;

  protocol::Loop& loop_;
  Core core_;
  Store& store_;
  WaitQueue<PendingJob>& jobs_;
  ServiceQueue& service_;
  protocol::StreamSender& stream_;
  Hooks hooks_;
  std::string_view stimulus_;       //!< of the present step
  const Failed* failure_ = nullptr; //!< of the present step
  Actions spare_;
  absl::flat_hash_map<TaskId, protocol::Duration> started_;  //!< tasks that run now
};

}  // namespace worker
