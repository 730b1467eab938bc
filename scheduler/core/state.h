//! The scheduler's tables and ledgers.
//!
//! Facts that are stored at two ends (edges, replicas, wants, processing) change only through the
//! functions here, which keep both ends and all sums in step; validate.cc checks exactly that.
//! Nothing here decides anything: transitions.h and placement.h do.
//!
//! Shells and tests read what they like and write nothing.
//!
//! Answers to: distributed/scheduler.py, the data of SchedulerState.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/core/actions.h"
#include "scheduler/core/config.h"
#include "scheduler/core/group.h"
#include "scheduler/core/lanes.h"
#include "scheduler/core/names.h"
#include "scheduler/core/schemes.h"
#include "scheduler/core/story.h"
#include "scheduler/core/submission.h"
#include "scheduler/core/task_queue.h"
#include "scheduler/core/task_table.h"
#include "scheduler/core/theft.h"
#include "scheduler/core/worker.h"
#include "scheduler/core/worker_set.h"

namespace scheduler {

struct Client {
  ClientId id;
  std::string name;
  std::vector<TaskId> wants;
  std::size_t pending = 0;  //!< of them: neither in memory nor erred
  bool leaving = false;  //!< gone; its wants are being let go in slices
};

//! A task in state no-worker.
struct Unrunnable {
  TaskId task;
  Duration since;
};

//! What admission has done so far.
struct MemoryCounts {
  std::uint64_t delayed = 0;              //!< tasks that had to wait for memory
  std::uint64_t started_over_budget = 0;  //!< because waiting would not have helped
  std::uint64_t too_large = 0;            //!< tasks that erred because no worker could hold them
};

struct State {
  explicit State(Config config);

  // ---- tables ---------------------------------------------------------------------------------
  Config config;
  TaskTable tasks;
  std::vector<std::unique_ptr<Worker>> workers;        //!< by id; null: never was, or swept
  std::vector<WorkerId> living;                        //!< in order of arrival
  std::vector<WorkerId> by_rank;                       //!< sorted by address
  NameMap<WorkerId> addresses;
  NameMap<WorkerId> aliases;  //!< canonical bytes of the worker's name
  NameMap<std::uint32_t> hosts;  //!< host -> living workers there
  WorkerSet running, idle, open, saturated;            //!< open: has a free slot
  WorkerSet hungry;                                    //!< may be given tasks ahead
  std::vector<WorkerId> dead;                          //!< lost in this step
  std::vector<std::unique_ptr<Client>> clients;        //!< by id
  std::vector<ClientId> present;                       //!< clients in order of arrival
  ClientId fire_and_forget;
  NameMap<std::shared_ptr<TaskGroup>> groups;
  NameMap<std::unique_ptr<TaskPrefix>> prefixes;
  TaskQueue queue;
  Lanes lanes;                                         //!< bounded tasks that wait for memory
  std::map<std::uint32_t, Unrunnable> unrunnable;      //!< by ticket, so in order of arrival
  absl::flat_hash_set<TaskId> replicated;              //!< tasks with more than one replica
  std::map<SubmissionId, Submission> submissions;
  Thefts thefts;
  Recalls recalls;
  Shuffles shuffles;
  Story story;

  // ---- ledgers --------------------------------------------------------------------------------
  std::uint64_t total_nthreads = 0;
  std::uint64_t total_memory = 0;
  Wide total_compute_ns = 0;            //!< of all processing tasks
  std::uint64_t total_network_bytes = 0;
  std::uint64_t estimates_version = 0;  //!< grows when any prefix's estimate changes
  double bandwidth;
  std::uint64_t n_tasks = 0;            //!< assignments ever
  std::size_t held = 0;                 //!< queued tasks that stand in a worker's `held`, not in `queue`
  std::size_t chained = 0;              //!< over all workers
  std::uint64_t next_run = 0;
  double generation = 0;
  std::optional<Duration> last_generation;
  std::optional<Duration> no_workers_since;
  std::optional<Duration> last_worker_added;
  std::uint32_t next_unrunnable = 0;
  std::uint32_t next_size_check = 0;    //!< ticket of the first task check_too_large has yet to see
  std::optional<std::uint32_t> offer_from;  //!< from this ticket on a new worker may fit
  MemoryCounts memory_counts;
  Dealing dealing;  //!< of the queue to workers that are handed tasks ahead
  std::uint32_t mark = 0;               //!< newest value of Task::mark
  std::optional<Duration> last_balance, last_reduction, last_timeout_check;

  // ---- the step under way ---------------------------------------------------------------------
  Now now;
  Actions* out = nullptr;
  std::vector<TaskId> recommendations;  //!< a stack; the target is Task::recommended
  std::vector<SendCompute> computes;    //!< sent at the end of the step, if still true
  bool errors_reported = false;         //!< some ReportErred was emitted
  bool turn_wanted = false;             //!< a Turn has been asked for and is still to come
  bool tick_wanted = false;             //!< so has a Tick
  std::uint32_t hops = 0;               //!< transitions taken in this step
  std::deque<ClientId> leaving;         //!< clients whose wants are being let go
  std::deque<TaskId> put_off;           //!< to be looked at again; see later.h
  std::uint32_t fading = 0;             //!< workers: until they are lost, nothing put off is taken up

  // ---- read side ------------------------------------------------------------------------------
  Worker& worker(WorkerId id) { return *workers[id.value]; }
  const Worker& worker(WorkerId id) const { return *workers[id.value]; }
  bool has_worker(WorkerId id) const;   //!< living
  Client* client(ClientId id);
  const Client* client(ClientId id) const;
  //! A task others may see: not one of a graph that is still open. Invalid if there is none.
  TaskId find(KeyView key) const;
  bool visible(const Task& task) const;
  std::string_view type_name(std::uint32_t type) const { return type_names_[type]; }
  double occupancy(const Worker& worker) const;  //!< seconds of expected work; O(its prefixes)
  double occupancy(Worker& worker);              //!< the same, from the ledger
  double total_occupancy() const;
  double estimate(const TaskPrefix& prefix) const;  //!< seconds a task is expected to run
  std::uint64_t size_of(const Task& task) const {   //!< nbytes, or the default if unknown
    return task.nbytes >= 0 ? static_cast<std::uint64_t>(task.nbytes) : config.default_data_size;
  }
  //! Tasks in state queued, wherever they wait.
  std::size_t queued() const { return queue.size() + held + lanes.size(); }
  //! Processing tasks the worker may still be given before it is full.
  std::int64_t slots(const Worker& worker) const;
  bool unoccupied(const Worker& worker, double occupancy, std::size_t processing) const;
  //! Its tasks in the order they arrived in memory.
  std::vector<TaskId> has_what_in_order(WorkerId worker) const;

  // ---- writers: tasks -------------------------------------------------------------------------
  void set_state(Task& task, TaskState state);
  TaskExtra& extra(Task& task);
  void join_group(Task& task, TaskState state);  //!< a new task; finds or makes its family
  void leave_group(Task& task);                  //!< a forgotten task has left the table
  void unjoin_group(Task& task);                 //!< a staged task that never was
  void forget_families();                        //!< restart: all groups and prefixes
  void bury(TaskId id);
  std::uint32_t type_id(std::string_view name);
  void set_nbytes(Task& task, std::uint64_t nbytes);
  void add_duration(TaskGroup& group, const StartStop& span);
  std::uint32_t fresh_mark();

  // ---- writers: edges -------------------------------------------------------------------------
  void link(TaskId dependent, TaskId dependency);
  //! Cuts the edge at `index` of the task's dependencies; the last one takes its place.
  void unlink(TaskId dependent, std::size_t index);
  void set_waiting_on(Task& task, Edge& dependency, bool value);
  void set_waiter(Task& task, Edge& dependent, bool value);
  Edge& other_end_of_dependency(const Edge& edge) { return tasks[edge.task].dependents[edge.place]; }
  Edge& other_end_of_dependent(const Edge& edge) { return tasks[edge.task].dependencies[edge.place]; }
  void clear_waiters(Task& task);
  void clear_waiting_on(Task& task);

  // ---- writers: replicas, wants, processing -----------------------------------------------------
  void add_replica(TaskId id, WorkerId worker);
  void remove_replica(TaskId id, WorkerId worker);
  void remove_all_replicas(TaskId id);
  bool add_want(ClientId client, TaskId id);     //!< false: had it already
  bool remove_want(ClientId client, TaskId id);  //!< false: had it not
  void add_to_processing(TaskId id, Worker& worker);
  void remove_from_processing(TaskId id, Worker& worker);
  void set_long_running(Task& task, Worker& worker);
  void add_actor(Worker& worker, TaskId id);
  void remove_actor(Worker& worker, TaskId id);

  // ---- writers: workers -------------------------------------------------------------------------
  void rank_workers();                       //!< after one came or went
  void check_idle_saturated(Worker& worker, double occupancy = -1);
  void set_membership(Worker& worker, bool idle, bool open, bool saturated);
  void set_hungry(Worker& worker, bool hungry);
  void refresh_estimate(TaskPrefix& prefix); //!< its average or maximum changed
  void refresh_load(Worker& worker);

  template <class A>
  void emit(A&& action) {
    out->emplace_back(std::forward<A>(action));
  }
  //! To a client, unless it has left.
  template <class A>
  void tell(A&& action) {
    const Client* listener = client(action.client);
    if (listener != nullptr && !listener->leaving) emit(std::forward<A>(action));
  }

 private:
  void count_pending(const Task& task, int change);
  void count_load(Worker& worker, TaskPrefix& prefix, int change);
  void fetch(Worker& worker, TaskId dependency);
  void unfetch(Worker& worker, TaskId dependency);
  void forget_fetch(Worker& worker, TaskId dependency);
  TaskGroup& family_of(KeyView key);

  std::vector<std::string> type_names_{std::string()};
  NameMap<std::uint32_t> type_ids_;
  std::string memo_head_;                  //!< start of the last string key; see family_of
  TaskGroup* memo_group_ = nullptr;
  std::uint64_t prefixes_made_ = 0;
};

}  // namespace scheduler
