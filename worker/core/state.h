//! Everything the worker's core knows, and the small moves all rooms of it share.
//!
//! A step collects recommendations (task -> state) and takes the newest first, as stock does with
//! its dict: a second recommendation for a task replaces the first where it stands. Their number
//! is not bounded by call depth: graphs may be a hundred thousand deep.
//!
//! Answers to: distributed/worker_state_machine.py, WorkerState (its attributes).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "worker/core/core.h"
#include "worker/core/peer_table.h"
#include "worker/core/task_heap.h"
#include "worker/core/task_table.h"

namespace worker {

struct Recommendation {
  TaskId task;
  TaskState finish;
  RunId run{};                            //!< memory, error: the run to report
  std::uint32_t offer = Task::kNowhere;   //!< memory: where the value is
  PeerId peer{};                          //!< flight: from whom
  double seconds = -1;                    //!< long_running
};

//! A value that came with the present event; dropped at the end of the step unless taken.
struct Offer {
  TaskId task;
  ValueId value;
  std::uint64_t nbytes = 0;
  bool taken = false;
};

struct State {
  explicit State(Config c);

  Config config;
  TaskTable tasks;
  PeerTable peers;
  TaskHeap ready;
  TaskHeap constrained;
  std::uint32_t ready_count = 0;
  std::uint32_t constrained_count = 0;
  std::vector<TaskId> missing;
  std::vector<ResourceLevel> resources;
  bool running = true;
  bool observed = false;
  double generation = 0;  //!< falls with every compute-task

  std::array<std::uint32_t, kTaskStates> counts{};
  std::uint32_t executing_count = 0;
  std::uint32_t transfer_incoming_count = 0;
  std::uint64_t transfer_incoming_bytes = 0;
  std::uint64_t transfer_incoming_count_total = 0;
  std::uint64_t executed_count = 0;
  std::uint64_t nbytes = 0;

  // ---- the present step -----------------------------------------------------------------------
  std::vector<Recommendation> recommendations;
  std::vector<Offer> offers;
  Actions* out = nullptr;
  std::uint64_t serial = 0;  //!< for Task::seen
  std::uint64_t draws = 0;   //!< rounds of choosing between peers

  TaskId ensure_task(KeyView key);
  void set_state(Task& task, TaskState state);
  void recommend(const Recommendation& what);
  void recommend(TaskId id, TaskState finish) { recommend(Recommendation{id, finish}); }
  std::uint32_t offer(TaskId id, ValueId value, std::uint64_t size);
  void note(Note::Kind kind, KeyView key);
  template <class A>
  void emit(A&& action) {
    out->emplace_back(std::forward<A>(action));
  }

  //! The activity is over or was never begun: frees its slot among the executing.
  void end_activity(Task& task);
  void add_missing(TaskId id);
  void remove_missing(Task& task);
  //! Takes the task out of every queue and drops its value: as if it had just been heard of.
  void purge(TaskId id);
  std::uint64_t size_of(const Task& task) const {
    return task.nbytes == Task::kUnknownSize ? config.default_data_size : task.nbytes;
  }
};

// ---- rooms ------------------------------------------------------------------------------------

//! transitions.cc: moves one task; what follows from it is recommended.
void transition(State& s, const Recommendation& what);
//! Takes recommendations until none is left.
void settle(State& s);

//! execute.cc: recommends `executing` for the most urgent ready tasks while threads are free.
void ensure_computing(State& s);
void release_resources(State& s, const Task& task);
std::uint16_t resource_index(State& s, std::string_view name);
void enqueue_ready(State& s, TaskId id);
void enqueue_constrained(State& s, TaskId id);
void leave_queue(State& s, Task& task);

//! gather.cc: starts transfers while limits allow.
void ensure_communicating(State& s);

void on_event(State& s, const ComputeTask& e);
void on_event(State& s, const FreeKeys& e);
void on_event(State& s, const RemoveReplicas& e);
void on_event(State& s, const AcquireReplicas& e);
void on_event(State& s, const StealRequest& e);
void on_event(State& s, const RefreshWhoHas& e);
void on_event(State& s, const RemoveWorker& e);
void on_event(State& s, const CancelCompute& e);
void on_event(State& s, const GatherDepSuccess& e);
void on_event(State& s, const GatherDepBusy& e);
void on_event(State& s, const GatherDepNetworkFailure& e);
void on_event(State& s, const GatherDepFailure& e);
void on_event(State& s, const RetryBusyWorker& e);
void on_event(State& s, const ExecuteSuccess& e);
void on_event(State& s, const ExecuteFailure& e);
void on_event(State& s, const ExecuteReschedule& e);
void on_event(State& s, const Secede& e);
void on_event(State& s, const Pause& e);
void on_event(State& s, const Unpause& e);
void on_event(State& s, const UpdateData& e);
void on_event(State& s, const FindMissing& e);
void on_event(State& s, const SetResources& e);

std::vector<std::string> validate(const State& s);

}  // namespace worker
