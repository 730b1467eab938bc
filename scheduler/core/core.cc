#include "scheduler/core/core.h"

#include <algorithm>

#include "scheduler/core/activation.h"
#include "scheduler/core/admission.h"
#include "scheduler/core/ahead.h"
#include "scheduler/core/handlers.h"
#include "scheduler/core/intake.h"
#include "scheduler/core/later.h"
#include "scheduler/core/replicas.h"
#include "scheduler/core/shuffle.h"
#include "scheduler/core/state.h"
#include "scheduler/core/stealing.h"
#include "scheduler/core/transitions.h"
#include "scheduler/core/validate.h"

namespace scheduler {

namespace {

constexpr int kOldChunksPerTurn = 16;

bool due(const State& state, std::optional<Duration>& last, Duration interval) {
  if (last && state.now.mono - *last < interval) return false;
  last = state.now.mono;
  return true;
}

void on_tick(State& state) {
  recall_overdue(state);
  if (state.config.work_stealing &&
      due(state, state.last_balance, state.config.work_stealing_interval)) {
    balance(state);
  }
  if (state.config.active_memory_manager &&
      due(state, state.last_reduction, state.config.active_memory_manager_interval)) {
    reduce_replicas(state);
  }
  check_no_workers_timeout(state);
  check_too_large(state);
}

void on_turn(State& state, const Turn& turn) {
  state.turn_wanted = false;
  std::uint32_t budget = turn.budget;
  take_up_again(state);
  offer_unrunnable(state);
  release_leaving_clients(state, budget);
  continue_submissions(state, budget);
  for (int i = 0; i < kOldChunksPerTurn && state.tasks.free_old_chunk(); ++i) continue;
}

struct Dispatch {
  State& state;
  void operator()(const WorkerAdded& e) { on_worker_added(state, e); }
  void operator()(const WorkerStatusChanged& e) { on_worker_status(state, e); }
  void operator()(const WorkerFading& e) { on_worker_fading(state, e); }
  void operator()(const WorkerLost& e) { on_worker_lost(state, e); }
  void operator()(const WorkerHeartbeat& e) { on_heartbeat(state, e); }
  void operator()(const WorkerResourcesSet& e) { on_resources(state, e); }
  void operator()(const TaskFinished& e) { on_finished(state, e); }
  void operator()(const TaskErred& e) { on_erred(state, e); }
  void operator()(const ReplicasAdded& e) { on_replicas_added(state, e); }
  void operator()(const ReplicaDropped& e) { on_replica_dropped(state, e); }
  void operator()(const WhoHasRequested& e) { on_who_has_requested(state, e); }
  void operator()(const TaskSeceded& e) { on_seceded(state, e); }
  void operator()(const TaskRescheduled& e) { on_rescheduled(state, e); }
  void operator()(const StealAnswered& e) { on_steal_answered(state, e); }
  void operator()(const ClientAdded& e) { on_client_added(state, e); }
  void operator()(const ClientRemoved& e) { on_client_removed(state, e); }
  void operator()(const KeysDesired& e) { on_desired(state, e); }
  void operator()(const KeysReleased& e) { on_released(state, e); }
  void operator()(const KeysCancelled& e) { on_cancelled(state, e); }
  void operator()(const KeyReported& e) { on_reported(state, e); }
  void operator()(const KeysRetried& e) { on_retried(state, e); }
  void operator()(const DataScattered& e) { on_scattered(state, e); }
  void operator()(const GraphOpened& e) { on_graph_opened(state, e); }
  void operator()(const GraphKeys& e) { on_graph_keys(state, e); }
  void operator()(const GraphBarriers& e) { on_graph_barriers(state, e); }
  void operator()(const GraphRecords& e) { on_graph_records(state, e); }
  void operator()(const GraphWants& e) { on_graph_wants(state, e); }
  void operator()(const GraphCommitted& e) { on_graph_committed(state, e); }
  void operator()(const GraphDropped& e) { on_graph_dropped(state, e); }
  void operator()(const ShuffleStarted& e) { on_shuffle_started(state, e); }
  void operator()(const ShuffleJoined& e) { on_shuffle_joined(state, e); }
  void operator()(const ShuffleRestarted& e) { on_shuffle_restarted(state, e); }
  void operator()(const ShuffleTaskPinned& e) { on_shuffle_task_pinned(state, e); }
  void operator()(const RestrictionsSet& e) { on_restrictions(state, e); }
  void operator()(const MemoryBudgetSet& e) { on_memory_budget(state, e); }
  void operator()(const ReplicasWanted& e) { on_replicas_wanted(state, e); }
  void operator()(const ReplicasUnwanted& e) { on_replicas_unwanted(state, e); }
  void operator()(const Restarted&) { on_restarted(state); }
  void operator()(const ConfigChanged& e) { on_config_changed(state, e); }
  void operator()(const Turn& e) { on_turn(state, e); }
  void operator()(const Tick&) { on_tick(state); }
};

void begin_step(State& state, std::string_view stimulus, Now now, Actions& out) {
  state.tasks.sweep();
  for (const WorkerId id : state.dead) state.workers[id.value].reset();
  state.dead.clear();
  state.now = now;
  state.out = &out;
  state.hops = 0;
  state.story.begin(stimulus);
}

//! Only what is still true at the end of the step is told to workers.
void send_computes(State& state) {
  for (const SendCompute& compute : state.computes) {
    if (!state.tasks.alive(compute.task)) continue;
    Task& task = state.tasks[compute.task];
    if (!task.compute_pending || task.run != compute.run) continue;
    task.compute_pending = false;
    state.emit(compute);
  }
  state.computes.clear();
}

//! A task that erred and was retried within the step has no error to show any more.
void drop_outdated_errors(State& state, std::size_t first) {
  if (!std::exchange(state.errors_reported, false)) return;
  const auto outdated = [&](const Action& action) {
    const auto* erred = std::get_if<ReportErred>(&action);
    return erred != nullptr && state.tasks[erred->task].error() == nullptr;
  };
  Actions& out = *state.out;
  out.erase(std::remove_if(out.begin() + static_cast<std::ptrdiff_t>(first), out.end(), outdated),
            out.end());
}

void ask_for_turn(State& state) {
  if (state.turn_wanted) return;
  bool more = !state.leaving.empty() || state.tasks.has_old_chunks() || can_take_up(state) ||
              state.offer_from.has_value();
  for (const auto& [id, graph] : state.submissions) more = more || has_work(graph);
  if (!more) return;
  state.turn_wanted = true;
  state.emit(WantsTurn{});
}

}  // namespace

Core::Core(Config config) : state_(std::make_unique<State>(std::move(config))) {}
//! Families refer to each other in circles.
Core::~Core() { state_->forget_families(); }

void Core::step(const Event& event, std::string_view stimulus, Now now, Actions& out) {
  const std::size_t first = out.size();
  begin_step(*state_, stimulus, now, out);
  std::visit(Dispatch{*state_}, event);
  end_shuffles(*state_);
  // Whatever happened may have made room for a task that waits for memory.
  if (!state_->lanes.empty() || (!state_->queue.empty() && !state_->open.empty())) {
    fill_slots(*state_);
    end_shuffles(*state_);
  }
  drop_outdated_errors(*state_, first);
  ask_for_turn(*state_);
  send_computes(*state_);
}

std::optional<TaskId> Core::find(KeyView key) const {
  const TaskId id = state_->find(key);
  return id.valid() ? std::optional(id) : std::nullopt;
}

const Task& Core::task(TaskId id) const { return state_->tasks[id]; }
const Worker& Core::worker(WorkerId id) const { return state_->worker(id); }
bool Core::has_worker(WorkerId id) const { return state_->has_worker(id); }

std::optional<WorkerId> Core::find_worker(std::string_view address) const {
  const auto found = state_->addresses.find(address);
  return found == state_->addresses.end() ? std::nullopt : std::optional(found->second);
}

const std::vector<WorkerId>& Core::workers() const { return state_->living; }
const State& Core::state() const { return *state_; }
std::vector<std::string> Core::validate() const { return broken_invariants(*state_); }

}  // namespace scheduler
