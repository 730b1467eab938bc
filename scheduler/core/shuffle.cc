#include "scheduler/core/shuffle.h"

#include <algorithm>
#include <utility>

#include "scheduler/core/transitions.h"

namespace scheduler {

namespace {

using S = TaskState;
using Kind = ShuffleSpec::Kind;

constexpr std::string_view kBarrierPrefix = "shuffle-barrier-";

ShuffleRun* run_of(State& state, std::string_view shuffle) {
  const auto found = state.shuffles.by_id.find(shuffle);
  return found == state.shuffles.by_id.end() ? nullptr : &state.shuffles.runs.at(found->second);
}

const ShuffleSpec* spec_of(const Task& task) {
  return task.extra ? task.extra->shuffle.get() : nullptr;
}

void join(ShuffleRun& run, WorkerId worker) {
  const auto place = std::lower_bound(run.participants.begin(), run.participants.end(), worker);
  if (place == run.participants.end() || *place != worker) run.participants.insert(place, worker);
}

//! Workers that may hold outputs: those the barrier is restricted to, or all that run; by address.
std::vector<WorkerId> candidates(const State& state, const Task& barrier) {
  const Restrictions* limits = barrier.restrictions();
  std::vector<WorkerId> all, allowed;
  for (const WorkerId id : state.by_rank) {
    const Worker& worker = state.worker(id);
    if (worker.running()) all.push_back(id);
    if (limits == nullptr) continue;
    const auto& names = limits->workers;
    if (std::binary_search(names.begin(), names.end(), worker.address)) allowed.push_back(id);
  }
  if (!allowed.empty()) return allowed;
  return all.empty() ? state.by_rank : all;
}

bool same_partitions(const ShuffleSpec& a, const ShuffleSpec& b) {
  return a.kind == b.kind && (a.kind == Kind::dataframe || a.chunks == b.chunks);
}

//! Where outputs lie that tasks of this barrier share with another active run: the two sides of a
//! join must agree on them.
absl::flat_hash_map<std::uint64_t, WorkerId> shared_outputs(State& state, const ShuffleSpec& spec,
                                                            TaskId barrier) {
  absl::flat_hash_map<std::uint64_t, WorkerId> out;
  const std::uint32_t mark = state.fresh_mark();
  state.tasks[barrier].mark = mark;
  for (const Edge& down : state.tasks[barrier].dependents) {
    for (const Edge& up : state.tasks[down.task].dependencies) {
      Task& other = state.tasks[up.task];
      if (std::exchange(other.mark, mark) == mark || spec_of(other) == nullptr) continue;
      const ShuffleRun* run = find_run(state, spec_of(other)->id);
      if (run == nullptr || !same_partitions(spec, *run->spec)) continue;
      for (std::size_t i = 0; i < run->worker_for.size(); ++i) {
        out.emplace(spec.kind == Kind::dataframe ? run->spec->parts_out[i] : i, run->worker_for[i]);
      }
    }
  }
  return out;
}

//! The place of each output in a range that is then cut into equal parts, one for each worker. For
//! arrays the first axis runs fastest; each axis counts with the product of all before it, so that
//! the parts are equal whatever the number of axes.
std::vector<std::uint64_t> places(const ShuffleSpec& spec) {
  if (spec.kind == Kind::dataframe) return spec.parts_out;
  std::vector<std::uint64_t> out;
  out.reserve(spec.outputs());
  std::vector<std::uint32_t> index(spec.chunks.size(), 0);
  for (std::uint64_t n = spec.outputs(); n > 0; --n) {
    std::uint64_t place = 0;
    for (std::size_t axis = index.size(); axis-- > 0;)
      place = place * spec.chunks[axis] + index[axis];
    out.push_back(place);
    for (std::size_t axis = index.size(); axis-- > 0;) {
      if (++index[axis] < spec.chunks[axis]) break;
      index[axis] = 0;
    }
  }
  return out;
}

std::vector<WorkerId> assign_outputs(State& state, const ShuffleSpec& spec, TaskId barrier,
                                     std::uint64_t turn) {
  std::vector<WorkerId> workers = candidates(state, state.tasks[barrier]);
  // Many small shuffles at a time begin with different workers.
  std::rotate(workers.begin(), workers.begin() + static_cast<std::ptrdiff_t>(turn % workers.size()),
              workers.end());
  const std::uint64_t range = spec.kind == Kind::dataframe ? spec.npartitions : spec.outputs();
  const auto shared = shared_outputs(state, spec, barrier);
  const std::vector<std::uint64_t> all_places = places(spec);
  std::vector<WorkerId> out;
  out.reserve(all_places.size());
  for (std::size_t i = 0; i < all_places.size(); ++i) {
    const auto known = shared.find(spec.kind == Kind::dataframe ? spec.parts_out[i] : i);
    const std::uint64_t part = std::min(all_places[i], range - 1) * workers.size() / range;
    out.push_back(known != shared.end() ? known->second : workers[part]);
  }
  return out;
}

ShuffleRun& start(State& state, TaskId barrier) {
  ShuffleRun run;
  run.spec = state.tasks[barrier].extra->shuffle;
  run.barrier = barrier;
  run.number = ++state.shuffles.last_run;
  run.worker_for = assign_outputs(state, *run.spec, barrier, run.number - 1);
  run.participants = run.worker_for;
  std::sort(run.participants.begin(), run.participants.end());
  run.participants.erase(std::unique(run.participants.begin(), run.participants.end()),
                         run.participants.end());
  // Outputs first run only to learn where they belong; queueing them would make that slow.
  for (const Edge& edge : state.tasks[barrier].dependents) state.tasks[edge.task].queueable = false;
  state.shuffles.by_id[run.spec->id] = run.number;
  return state.shuffles.runs.emplace(run.number, std::move(run)).first->second;
}

//! Gives an output back the restrictions it came with.
void unpin(State& state, TaskId id) {
  Task& task = state.tasks[id];
  if (!task.extra || !task.extra->shuffle_restricted) return;
  task.extra->shuffle_restricted = false;
  task.extra->restrictions = std::move(task.extra->before_shuffle);
  task.extra->before_shuffle = nullptr;
  if (task.state == S::no_worker) recommend(state, id, S::released);  // to be placed anew
}

void end_run(State& state, std::uint64_t number, const std::string& message) {
  const auto place = state.shuffles.runs.find(number);
  const ShuffleRun run = std::move(place->second);
  state.shuffles.runs.erase(place);
  state.shuffles.by_id.erase(run.spec->id);
  for (const WorkerId worker : run.participants) {
    if (state.has_worker(worker)) {
      state.emit(SendShuffleFail{worker, run.spec->id, run.number, message});
    }
  }
  state.emit(Note{Note::Kind::shuffle_ended, protocol::string_key(run.spec->id)});
  if (!state.tasks.alive(run.barrier)) return;
  for (const Edge& edge : state.tasks[run.barrier].dependents) unpin(state, edge.task);
}

//! Ends the runs whose barriers left their course; gives those barriers.
std::vector<TaskId> end_left(State& state) {
  std::vector<TaskId> barriers;
  for (const ShuffleSpecRef& spec : std::exchange(state.shuffles.over, {})) {
    const ShuffleRun* run = find_run(state, spec->id);
    if (run == nullptr) continue;
    barriers.push_back(run->barrier);
    end_run(state, run->number, run->name() + " forgotten");
  }
  run_transitions(state);
  return barriers;
}

bool any_erred(const State& state, const Edges& edges) {
  return std::any_of(edges.begin(), edges.end(),
                     [&](const Edge& edge) { return state.tasks[edge.task].state == S::erred; });
}

//! All that belongs to the shuffle begins again, unless it has failed for good.
void restart(State& state, TaskId id) {
  if (!state.tasks.alive(id)) return;
  const Task& barrier = state.tasks[id];
  if (barrier.state == S::erred || any_erred(state, barrier.dependents) ||
      any_erred(state, barrier.dependencies)) {
    return;
  }
  // The last recommendation is taken first.
  for (const Edge& edge : barrier.dependents) recommend(state, edge.task, S::released);
  recommend(state, id, S::released);
  for (const Edge& edge : barrier.dependencies) recommend(state, edge.task, S::released);
  state.emit(Note{Note::Kind::shuffle_restarted, Key{std::string(barrier.key().bytes)}});
  run_transitions(state);
}

}  // namespace

std::string ShuffleRun::name() const {
  return "SchedulerShuffleState<" + spec->id + "[" + std::to_string(number) + "]>";
}

Key barrier_key(std::string_view shuffle) {
  return protocol::string_key(std::string(kBarrierPrefix) + std::string(shuffle));
}

const ShuffleRun* find_run(const State& state, std::string_view shuffle) {
  const auto found = state.shuffles.by_id.find(shuffle);
  return found == state.shuffles.by_id.end() ? nullptr : &state.shuffles.runs.at(found->second);
}

ShuffleRefusal may_start(const State& state, std::string_view shuffle, KeyView transfer) {
  const TaskId barrier = state.find(barrier_key(shuffle));
  if (!barrier.valid()) return ShuffleRefusal::no_barrier;
  const TaskId task = state.find(transfer);
  if (!task.valid()) return ShuffleRefusal::no_transfer;
  const bool may_run =
      state.tasks[task].state == S::processing || state.tasks[task].ahead_on.valid();
  if (!may_run) return ShuffleRefusal::not_processing;
  const ShuffleSpec* spec = spec_of(state.tasks[barrier]);
  if (spec == nullptr || spec->id != shuffle) return ShuffleRefusal::no_spec;
  return ShuffleRefusal::none;
}

void on_shuffle_started(State& state, const ShuffleStarted& started) {
  if (!state.has_worker(started.worker)) return;
  ShuffleRun* run = run_of(state, started.shuffle);
  if (run == nullptr) {
    if (may_start(state, started.shuffle, started.transfer) != ShuffleRefusal::none) return;
    run = &start(state, state.find(barrier_key(started.shuffle)));
  }
  join(*run, started.worker);
}

void on_shuffle_joined(State& state, const ShuffleJoined& joined) {
  ShuffleRun* run = run_of(state, joined.shuffle);
  if (run != nullptr && state.has_worker(joined.worker)) join(*run, joined.worker);
}

void on_shuffle_restarted(State& state, const ShuffleRestarted& restarted) {
  const ShuffleRun* run = run_of(state, restarted.shuffle);
  if (run == nullptr || run->number != restarted.run) return;
  restart(state, run->barrier);
  end_left(state);
  fill_slots(state);
}

void on_shuffle_task_pinned(State& state, const ShuffleTaskPinned& pinned) {
  const ShuffleRun* run = run_of(state, pinned.shuffle);
  const TaskId id = state.find(pinned.key);
  if (run == nullptr || run->number != pinned.run || !id.valid()) return;
  if (!state.has_worker(pinned.worker)) return;
  TaskExtra& extra = state.extra(state.tasks[id]);
  if (extra.shuffle_restricted) return;  // the other side of a join was first
  auto limits = std::make_shared<Restrictions>();
  limits->workers.push_back(state.worker(pinned.worker).address);
  if (extra.restrictions) limits->resources = extra.restrictions->resources;
  extra.before_shuffle = std::exchange(extra.restrictions, std::move(limits));
  extra.shuffle_restricted = true;
  const S now = state.tasks[id].state;
  if (now != S::queued && now != S::no_worker) return;
  recommend(state, id, S::released);  // and so to be placed anew
  run_transitions(state);
  fill_slots(state);
}

void end_shuffles(State& state) {
  if (!state.shuffles.over.empty()) end_left(state);
}

void shuffle_worker_lost(State& state, const Worker& worker) {
  std::vector<TaskId> barriers = end_left(state);
  std::vector<std::uint64_t> hit;
  for (const auto& [number, run] : state.shuffles.runs) {
    const auto& who = run.participants;
    if (std::binary_search(who.begin(), who.end(), worker.id)) hit.push_back(number);
  }
  for (const std::uint64_t number : hit) {
    const ShuffleRun& run = state.shuffles.runs.at(number);
    barriers.push_back(run.barrier);
    end_run(state, number, "Worker " + worker.address + " left during active " + run.name());
  }
  run_transitions(state);
  for (const TaskId barrier : barriers) restart(state, barrier);
}

void note_shuffle_failure(State& state, const Task& task) {
  if (state.shuffles.runs.empty()) return;
  const auto fails = [&](const Task& barrier) {
    ShuffleRun* run = spec_of(barrier) ? run_of(state, spec_of(barrier)->id) : nullptr;
    if (run == nullptr || std::exchange(run->failed, true)) return false;
    state.emit(Note{Note::Kind::shuffle_failed, protocol::string_key(run->spec->id)});
    return true;
  };
  if (fails(task)) return;
  for (const Edge& edge : task.dependencies) {
    if (fails(state.tasks[edge.task])) return;
  }
  for (const Edge& edge : task.dependents) {
    if (fails(state.tasks[edge.task])) return;
  }
}

void shuffles_clear(State& state) {
  state.shuffles.runs.clear();
  state.shuffles.by_id.clear();
  state.shuffles.over.clear();
}

}  // namespace scheduler
