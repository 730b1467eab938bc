#include "scheduler/core/activation.h"

#include <algorithm>

#include "scheduler/core/intake.h"
#include "scheduler/core/release.h"
#include "scheduler/core/transitions.h"

namespace scheduler {

namespace {

using S = TaskState;
using Phase = Submission::Phase;

constexpr std::uint32_t kLooksPerUnit = 16;  //!< looking at a task is cheaper than starting it

bool owned(const Task& task, const Submission& graph) {
  return task.state == S::staged && task.submission == graph.id;
}

}  // namespace

bool end_bare_key(State& state, TaskId id) {
  Task& task = state.tasks[id];
  if (task.state != S::staged || task.submission.valid() || task.pins > 0 ||
      !task.dependents.empty()) {
    return false;
  }
  while (!task.who_wants.empty()) state.remove_want(task.who_wants.front().client, id);
  const auto staged = static_cast<std::size_t>(S::staged);
  const auto gone = static_cast<std::size_t>(S::forgotten);
  for (StateCounts* counts : {&task.group->states, &task.group->prefix->states}) {
    --(*counts)[staged];
    ++(*counts)[gone];
  }
  state.unjoin_group(task);
  state.bury(id);
  return true;
}

namespace {

//! The task lost a staged dependent.
void let_go(State& state, TaskId id) {
  if (end_bare_key(state, id)) return;
  if (state.visible(state.tasks[id]) && state.tasks[id].state != S::staged) reconsider(state, id);
}

void unpin(State& state, TaskId id) {
  --state.tasks[id].pins;
  if (state.tasks[id].pins == 0) let_go(state, id);
}

//! Gives up a staged task of this graph.
void discard(State& state, Submission& graph, TaskId id) {
  Task& task = state.tasks[id];
  if (!owned(task, graph)) return;
  if (graph.committed && task.spec) {
    // Others may have come to want it: from now on it is a task like any other.
    state.set_state(task, S::released);
    if (task.waiters > 0 || !task.who_wants.empty()) return recommend(state, id, S::waiting);
    let_go_of_inputs(state, task);
    return reconsider(state, id);
  }
  task.submission = SubmissionId();
  abandon_dependents(state, task);  // a later slice was to define it
  strip(state, id);
}

void take_out(State& state, Submission& graph, TaskId id) {
  Task& task = state.tasks[id];
  if (!owned(task, graph)) return;
  task.submission = SubmissionId();
  strip(state, id);
}

//! Takes out what leads to no wanted key, from the ends inwards. True when all has been seen.
bool cull(State& state, Submission& graph, std::uint32_t& budget) {
  std::vector<TaskId> ends;
  const auto useless = [&](TaskId id) {
    const Task& task = state.tasks[id];
    return owned(task, graph) && task.dependents.empty() && task.who_wants.empty() &&
           task.pins == 0;
  };
  // An end already taken out keeps its record for the rest of the step only.
  const auto here = [&](TaskId id) { return state.tasks.alive(id); };
  std::uint64_t looks = std::uint64_t{budget} * kLooksPerUnit;
  for (; graph.cursor < graph.fresh.size() && looks > 0; ++graph.cursor, --looks) {
    const TaskId first = graph.fresh[graph.cursor];
    if (here(first) && useless(first)) ends.push_back(first);
    while (!ends.empty()) {
      const TaskId id = ends.back();
      ends.pop_back();
      std::vector<TaskId> inputs;
      for (const Edge& edge : state.tasks[id].dependencies) inputs.push_back(edge.task);
      take_out(state, graph, id);
      for (const TaskId input : inputs) {
        if (here(input) && useless(input)) ends.push_back(input);
      }
    }
  }
  run_transitions(state);
  budget = static_cast<std::uint32_t>(looks / kLooksPerUnit);
  return graph.cursor == graph.fresh.size();
}

void begin_activation(State& state, Submission& graph) {
  graph.phase = Phase::activating;
  graph.cursor = 0;
  if (graph.sorted) return;
  graph.by_priority.reserve(graph.fresh.size());
  for (const TaskId id : graph.fresh) {
    if (state.tasks.alive(id) && owned(state.tasks[id], graph)) {
      graph.by_priority.push_back({state.tasks[id].priority, id});
    }
  }
  std::make_heap(graph.by_priority.begin(), graph.by_priority.end(), std::greater<>{});
  graph.fresh.clear();
}

//! Known, wanted and released: as in stock, the most urgent first.
void revive(State& state, Submission& graph) {
  // The last recommendation is taken first.
  std::stable_sort(graph.revive.begin(), graph.revive.end(), [&](TaskId a, TaskId b) {
    return state.tasks[b].priority < state.tasks[a].priority;
  });
  for (const TaskId id : graph.revive) {
    if (state.tasks[id].state == S::released) recommend(state, id, S::waiting);
  }
  graph.revive.clear();
  run_transitions(state);
}

void activate_one(State& state, Submission& graph, TaskId id) {
  if (!state.tasks.alive(id) || !owned(state.tasks[id], graph)) return;  // began earlier, or gone
  const Task& task = state.tasks[id];
  if (task.who_wants.empty() && task.waiters == 0) return graph.skipped.push_back(id);
  transition(state, id, S::waiting);
  run_transitions(state);
}

//! True when all tasks that have arrived are active.
bool activate(State& state, Submission& graph, std::uint32_t& budget) {
  if (!graph.revive.empty()) revive(state, graph);
  auto& heap = graph.by_priority;
  for (; !heap.empty() && budget > 0; --budget) {
    const TaskId id = heap.front().second;
    std::pop_heap(heap.begin(), heap.end(), std::greater<>{});
    heap.pop_back();
    activate_one(state, graph, id);
  }
  for (; graph.cursor < graph.fresh.size() && budget > 0; ++graph.cursor, --budget) {
    activate_one(state, graph, graph.fresh[graph.cursor]);
  }
  fill_slots(state);
  if (!heap.empty() || graph.cursor < graph.fresh.size()) return false;
  graph.fresh.clear();
  graph.cursor = 0;
  return true;
}

//! append: what nobody came to need is not run.
void finish_skipped(State& state, Submission& graph) {
  const std::vector<TaskId> skipped = std::exchange(graph.skipped, {});
  for (auto id = skipped.rbegin(); id != skipped.rend(); ++id) {
    if (!state.tasks.alive(*id) || !owned(state.tasks[*id], graph)) continue;
    discard(state, graph, *id);
    run_transitions(state);
  }
}

bool unpin_some(State& state, Submission& graph, std::uint32_t& budget) {
  for (; graph.cursor < graph.pinned.size() && budget > 0; ++graph.cursor, --budget) {
    unpin(state, graph.pinned[graph.cursor]);
    run_transitions(state);
  }
  fill_slots(state);
  return graph.cursor == graph.pinned.size();
}

void release_wants(State& state, Submission& graph, std::uint32_t& budget) {
  const std::size_t some = std::min<std::size_t>(budget, graph.wants.size());
  const std::span<const TaskId> last(graph.wants.end() - static_cast<std::ptrdiff_t>(some), some);
  if (graph.lost) report_lost(state, graph, last);
  for (const TaskId id : last) release_want(state, graph.client, id);
  run_transitions(state);
  graph.wants.resize(graph.wants.size() - some);
  budget -= static_cast<std::uint32_t>(some);
}

//! Newest first, so that dependents mostly go before their inputs.
bool discard_some(State& state, Submission& graph, std::uint32_t& budget) {
  if (!graph.wants.empty()) release_wants(state, graph, budget);
  for (std::vector<TaskId>* list : {&graph.fresh, &graph.keys}) {
    for (; !list->empty() && budget > 0; --budget) {
      const TaskId id = list->back();
      list->pop_back();
      if (state.tasks.alive(id)) discard(state, graph, id);
      run_transitions(state);
    }
  }
  fill_slots(state);
  return graph.wants.empty() && graph.fresh.empty() && graph.keys.empty();
}

}  // namespace

void strip(State& state, TaskId id) {
  Task& task = state.tasks[id];
  task.spec.reset();
  task.annotations = nullptr;
  if (task.extra) {
    task.extra->restrictions = nullptr;
    task.extra->shuffle = nullptr;
  }
  task.data_producer = task.actor = task.prioritised = task.loose_restrictions = false;
  task.retries = 0;
  while (!task.dependencies.empty()) {
    const TaskId input = task.dependencies.back().task;
    state.unlink(id, task.dependencies.size() - 1);
    let_go(state, input);
  }
  end_bare_key(state, id);
}

void report_lost(State& state, const Submission& graph, std::span<const TaskId> tasks) {
  ReportCancelled report{graph.client, {}, "lost dependencies", "", true};
  for (const TaskId id : tasks) {
    report.keys.push_back(Key{std::string(state.tasks[id].key().bytes)});
  }
  state.tell(std::move(report));
}

void drop(Submission& graph) {
  if (!graph.append && !graph.lost) graph.wants.clear();  // they were never made known
  graph.phase = Phase::dropping;
  graph.cursor = 0;
}

bool continue_submission(State& state, Submission& graph, std::uint32_t& budget) {
  if (graph.phase == Phase::culling && cull(state, graph, budget)) begin_activation(state, graph);
  if (graph.phase == Phase::activating && activate(state, graph, budget) && graph.closed) {
    finish_skipped(state, graph);
    graph.phase = Phase::unpinning;
    graph.cursor = 0;
  }
  if (graph.phase == Phase::dropping && discard_some(state, graph, budget)) {
    graph.phase = Phase::unpinning;
    graph.cursor = 0;
  }
  return graph.phase == Phase::unpinning && unpin_some(state, graph, budget);
}

bool continue_submissions(State& state, std::uint32_t& budget) {
  if (state.submissions.empty()) return false;
  // Shares, so that a small graph need not wait for a large one.
  const auto share = std::max<std::uint32_t>(
      64, budget / static_cast<std::uint32_t>(state.submissions.size()));
  bool more = false;
  for (auto place = state.submissions.begin(); place != state.submissions.end();) {
    Submission& graph = place->second;
    std::uint32_t part = share;
    if (continue_submission(state, graph, part)) {
      place = state.submissions.erase(place);
      continue;
    }
    more = more || has_work(graph);
    ++place;
  }
  return more;
}

bool has_work(const Submission& graph) {
  if (graph.phase == Phase::open) return false;
  return graph.phase != Phase::activating || graph.closed ||
         graph.cursor < graph.fresh.size() || !graph.by_priority.empty();
}

}  // namespace scheduler
