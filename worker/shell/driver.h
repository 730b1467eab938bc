//! Drives the worker core: events in, actions carried out. The one place where the core is stepped.
//!
//! Everything that happens to the worker ends here as an Event; what the core then asks for goes to
//! the scheduler's stream, to executors, to peers or to the store. Touched only by whoever holds
//! the loop's turn: the loop's thread, or an executor that brings its answer and takes its next job.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/net/loop.h"
#include "protocol/net/sender.h"
#include "protocol/wire/messages_worker.h"
#include "worker/core/core.h"
#include "worker/shell/queues.h"
#include "worker/shell/service_queue.h"
#include "worker/shell/store.h"
#include "worker/shell/story.h"
#include "worker/shell/work.h"

namespace worker {

class Driver {
 public:
  struct Hooks {
    std::function<void(PeerId, std::string address, std::vector<Key> keys)> fetch;
    std::function<void()> value_added;
    std::function<void(const std::string&)> log;
  };
  //! Where the core's actions go.
  struct Outlets {
    Store& store;
    WaitQueue<Job>& jobs;
    WaitQueue<PackRequest>& packs;
    ServiceQueue& service;
    protocol::StreamSender& stream;
  };
  Driver(protocol::Loop& loop, Config config, std::size_t story_lines, Outlets outlets,
         Hooks hooks);

  void step(const Event& event, std::string_view stimulus);

  // ---- answers of executors -------------------------------------------------------------------
  void finished(TaskId task, RunId run, bool actor, Finished result);
  void failed(TaskId task, RunId run, Failed failure);
  void rescheduled(TaskId task);
  void seceded(const Key& key, double compute_seconds);

  //! Values that arrived from a peer, as (key, payload); `when` is the transfer.
  void gathered(PeerId peer, std::vector<std::pair<Key, PayloadRef>> data, Transfer when);
  //! The answer of a peer could not be read.
  void gather_failed(PeerId peer, const std::string& text);
  void put(Key key, Value value, TypeRef type);
  //! A value turned out to be unreadable: the replica is gone, the scheduler is told.
  void lost(ValueId value);
  //! The pack thread looked at a value whose task-finished waits for its type.
  void described(ValueId value, TypeRef type);

  const Core& core() const { return core_; }
  const Story& story() const { return story_; }
  //! Tasks that run now, with the seconds since they were handed out.
  std::vector<std::pair<KeyView, double>> executing() const;
  void watch_transitions(bool on) { watched_ = on; }
  //! The scheduler is rask's: ends of tasks may be told in short.
  void speak_densely(bool on) { dense_ = on; }
  //! How far the scheduler's clock is ahead of ours, seconds.
  void set_clock_ahead(double seconds) { clock_ahead_ = seconds; }

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
  void act(const Transitioned& a);
  void act(const Note& a);

  Input input(TaskId dependency, bool lazy);
  void retry_busy();
  void add_startstops(const Call& call, std::vector<protocol::StartStop>& out) const;
  void send_finished(const Task& task, RunId run, const Held& held);
  bool send_densely(const Task& task, RunId run, const Held& held);
  //! "cause-<time>", as stock names its stimuli.
  std::string stimulus(std::string_view cause) const;

  protocol::Loop& loop_;
  Core core_;
  Outlets to_;
  Hooks hooks_;
  Story story_;
  protocol::Timer retry_;
  std::deque<std::pair<protocol::Duration, PeerId>> paused_;  //!< busy peers, and until when
  double clock_ahead_ = 0;
  std::string_view stimulus_;        //!< of the present step
  double step_time_ = 0;
  const Failed* failure_ = nullptr;  //!< of the present step
  WorkRef ran_;                      //!< whose end the present step is; the core lets go of it
  Actions spare_;
  bool watched_ = false;
  bool dense_ = false;
  //! Numbers of result classes the scheduler knows. Shares, so that no address is used twice.
  absl::flat_hash_map<TypeRef, std::uint64_t> types_;
  std::vector<Transition> seen_;     //!< transitions plugins have not been told of
  absl::flat_hash_map<TaskId, protocol::Duration> started_;  //!< tasks that run now
  absl::flat_hash_map<std::uint64_t, RunId> undescribed_;    //!< values that wait for their type
};

}  // namespace worker
