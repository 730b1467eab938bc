//! Actions of the core as messages: the way from decisions to bytes.
//!
//! Each action becomes an op in the stream of the peer it names; order per peer is kept. Keys to be
//! freed on one worker, and tasks for one rask worker, gather into one op until another op for that
//! worker follows. Tasks are read from the core right after the step, so nothing is copied on the way.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "protocol/wire/messages_client.h"
#include "protocol/wire/messages_dense.h"
#include "protocol/wire/messages_worker.h"
#include "scheduler/core/actions.h"
#include "scheduler/core/core.h"
#include "scheduler/shell/log.h"
#include "scheduler/shell/peers.h"
#include "scheduler/shell/topics.h"

namespace scheduler {

class ActionWriter {
 public:
  ActionWriter(const Core& core, Peers& peers, Topics& topics, Log& log)
      : core_(core), peers_(peers), topics_(topics), log_(log) {}

  //! Writes all actions of one step. Answers whether the core asked for another turn.
  bool write(const Actions& actions, std::string_view stimulus);
  //! Tells rask workers which blobs they need not keep any longer.
  void forget_blobs();
  //! Whether it asked for a tick ahead of time.
  bool tick_wanted() const { return tick_wanted_; }

 private:
  void on(const SendCompute& action);
  void on(const SendFree& action);
  void on(const SendFreeUnknown& action);
  void on(const SendRemoveReplica& action);
  void on(const SendAcquireReplica& action);
  void on(const SendRefreshWhoHas& action);
  void on(const SendStealRequest& action);
  void on(const SendShuffleFail& action);
  void on(const AnnounceWorkerGone& action);
  void on(const ReportInMemory& action);
  void on(const ReportErred& action);
  void on(const ReportLost& action);
  void on(const ReportRetried& action);
  void on(const ReportCancelled& action);
  void on(const ReportRestart& action);
  void on(const WantsTurn& action);
  void on(const WantsTick& action);
  void on(const Note& action);

  //! The writer for one op of a worker, after what is pending for it; null: it has left.
  protocol::MessageWriter* to(WorkerId worker);
  protocol::MessageWriter* to(ClientId client);
  void free_later(WorkerId worker, KeyView key);
  void write_pending(WorkerId worker);
  void write_all_pending();
  void publish_shuffle_failure(std::string_view shuffle);
  void write_computes(WorkerPeer& worker, const std::vector<SendCompute>& computes);
  void fill(protocol::DenseTask& out, const SendCompute& compute, WorkerPeer& worker);
  void add_holders(protocol::WhoHas& out, const Task& task);
  KeyView spelled(TaskId task) const { return KeyView{core_.task(task).spelled_key()}; }

  const Core& core_;
  Peers& peers_;
  Topics& topics_;
  Log& log_;
  std::string_view stimulus_;
  bool turn_wanted_ = false;
  bool tick_wanted_ = false;
  std::unordered_map<WorkerId, std::vector<KeyView>> pending_free_;
  std::unordered_map<WorkerId, std::vector<SendCompute>> pending_compute_;  //!< of rask workers
  // Scratch, so that a thousand messages allocate once.
  protocol::ComputeTask compute_;
  protocol::DenseCompute dense_;
  std::vector<protocol::DenseTask> dense_tasks_;
  protocol::FreeKeys free_;
  protocol::AcquireReplicas acquire_;
  protocol::RefreshWhoHas refresh_;
};

}  // namespace scheduler
