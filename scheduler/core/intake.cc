#include "scheduler/core/intake.h"

#include <algorithm>
#include <cmath>

#include "scheduler/core/activation.h"
#include "scheduler/core/placement.h"
#include "scheduler/core/transitions.h"

namespace scheduler {

namespace {

using S = TaskState;

Submission* find_submission(State& state, SubmissionId id) {
  const auto found = state.submissions.find(id);
  if (found == state.submissions.end() || found->second.phase == Submission::Phase::dropping) {
    return nullptr;
  }
  return &found->second;
}

bool owned(const Task& task, const Submission& graph) {
  return task.state == S::staged && task.submission == graph.id;
}

//! A key that graphs refer to and nobody has defined.
bool bare(const Task& task) { return task.state == S::staged && !task.submission.valid(); }

void pin(State& state, Submission& graph, TaskId id) {
  ++state.tasks[id].pins;
  graph.pinned.push_back(id);
}

//! Tasks of one graph made inside a task run before others; see protocol.md 9.3.
double generation_of(State& state, const GraphOpened& opened) {
  if (opened.has_submitting_task) {
    const TaskId id = state.find(opened.submitting_task);
    return id.valid() && state.tasks[id].prioritised ? state.tasks[id].priority.user - 0.01
                                                     : state.generation;
  }
  const Duration quiet = Duration::seconds(opened.fifo_timeout);
  if (!state.last_generation || *state.last_generation + quiet < state.now.mono) {
    state.generation += 1;
    state.last_generation = state.now.mono;
  }
  return state.generation;
}

void prioritise(Task& task, const Submission& graph, std::int64_t order) {
  if (task.prioritised) return;
  const double user = task.annotations ? task.annotations->priority : 0;
  task.priority = Priority{std::isfinite(user) ? -user : 0, graph.generation, order};
  task.prioritised = true;
}

void annotate(State& state, Submission& graph, Task& task, const AnnotationsRef& annotations) {
  task.annotations = annotations;
  if (!annotations) return;
  task.retries = annotations->retries;
  task.loose_restrictions = annotations->allow_other_workers;
  if (graph.last_annotations != annotations) {
    graph.last_annotations = annotations;
    graph.last_restrictions =
        resolve_restrictions(state, annotations->workers, annotations->resources);
  }
  if (graph.last_restrictions) state.extra(task).restrictions = graph.last_restrictions;
}

//! The inputs keep their results for a task that is staged.
void link_all(State& state, TaskId id, const std::vector<TaskId>& dependencies) {
  for (const TaskId input : dependencies) {
    state.link(id, input);
    Task& up = state.tasks[input];
    state.set_waiter(up, up.dependents.back(), true);
  }
}

void mark_barrier(State& state, const Submission& graph, TaskId id) {
  if (graph.barriers.empty()) return;
  const auto found = graph.barriers.find(id);
  if (found != graph.barriers.end()) state.extra(state.tasks[id]).shuffle = found->second;
}

//! The staged task gets its record and belongs to the graph.
void define(State& state, Submission& graph, const TaskRecord& record) {
  Task& task = state.tasks[record.task];
  task.submission = graph.id;
  task.spec = record.spec;
  task.data_producer = record.data_producer;
  task.actor = record.actor;
  annotate(state, graph, task, record.annotations);
  mark_barrier(state, graph, record.task);
  prioritise(task, graph, record.order);
  link_all(state, record.task, record.dependencies);
  graph.sorted = graph.sorted && (graph.fresh.empty() || !(task.priority < graph.last_priority));
  graph.last_priority = task.priority;
  graph.fresh.push_back(record.task);
  // Later slices may refer to it, and it may be done and forgotten by then.
  if (graph.append) pin(state, graph, record.task);
}

bool same_dependencies(State& state, const Task& task, const std::vector<TaskId>& given) {
  if (task.dependencies.size() != given.size()) return false;
  const std::uint32_t mark = state.fresh_mark();
  for (const Edge& edge : task.dependencies) state.tasks[edge.task].mark = mark;
  return std::all_of(given.begin(), given.end(),
                     [&](TaskId id) { return state.tasks[id].mark == mark; });
}

//! A known task without a run spec (scattered, say) can be computed from now on.
void give_spec(State& state, Submission& graph, const TaskRecord& record) {
  Task& task = state.tasks[record.task];
  task.spec = record.spec;
  mark_barrier(state, graph, record.task);
  prioritise(task, graph, record.order);
  for (const TaskId input : record.dependencies) state.link(record.task, input);
}

//! The record meets a task that somebody else made. Stock's rule: the old one stays.
void settle_kept(State& state, Submission& graph, const TaskRecord& record) {
  Task& task = state.tasks[record.task];
  if (!state.visible(task)) {
    if (task.submission.valid()) disown(state, record.task);
    define(state, graph, record);
  } else if (!task.spec) {
    give_spec(state, graph, record);
  }
}

TaskRecord read_record(State& state, const Submission& graph, const GraphTask& given) {
  TaskRecord record;
  record.task = graph.keys[given.key];
  record.spec = given.spec;
  record.annotations = given.annotations;
  record.order = given.priority;
  record.data_producer = given.data_producer;
  record.actor = given.actor;
  record.dependencies.reserve(given.dependencies.size());
  const std::uint32_t mark = state.fresh_mark();
  state.tasks[record.task].mark = mark;  // a task that needs itself could never run
  for (const std::uint32_t number : given.dependencies) {
    if (number >= graph.keys.size()) continue;
    const TaskId input = graph.keys[number];
    if (std::exchange(state.tasks[input].mark, mark) != mark) record.dependencies.push_back(input);
  }
  return record;
}

//! A record for a task that is not ours to define.
void keep_record(State& state, Submission& graph, TaskRecord record) {
  const Task& task = state.tasks[record.task];
  if (state.visible(task) && task.spec && !same_dependencies(state, task, record.dependencies)) {
    state.emit(Note{Note::Kind::dependencies_changed, Key{std::string(task.key().bytes)}});
  }
  if (graph.append) {
    settle_kept(state, graph, record);
  } else {
    graph.kept.push_back(std::move(record));
  }
}

//! False if the task could never run: an input is known to nobody.
bool take_record(State& state, Submission& graph, const GraphTask& given) {
  if (given.key >= graph.keys.size() || !given.spec) return true;
  TaskRecord record = read_record(state, graph, given);
  if (graph.append) {
    for (const TaskId input : record.dependencies) {
      const Task& task = state.tasks[input];
      if (!state.visible(task) && !owned(task, graph)) return false;
    }
  }
  Task& task = state.tasks[record.task];
  if (bare(task)) {
    define(state, graph, record);
  } else if (!owned(task, graph)) {
    keep_record(state, graph, std::move(record));
  } else if (!task.spec) {  // otherwise it was said twice
    --graph.unrecorded;
    define(state, graph, record);
  }
  return true;
}

//! Everything known: in the scheduler, or in this graph.
bool complete(const State& state, const Submission& graph) {
  const auto known = [&](TaskId id) {
    const Task& task = state.tasks[id];
    return state.visible(task) || (owned(task, graph) && task.spec);
  };
  return graph.unrecorded == 0 && std::all_of(graph.outside.begin(), graph.outside.end(), known) &&
         std::all_of(graph.wants.begin(), graph.wants.end(), known);
}

void want(State& state, Submission& graph, TaskId id) {
  state.add_want(graph.client, id);
  report_to(state, graph.client, id);
  if (state.tasks[id].state == S::released) graph.revive.push_back(id);
}

//! The client is told that none of it will come; what it asked for is let go.
void cancel(Submission& graph) {
  graph.lost = true;
  drop(graph);
}

//! append: all slices are in. Keys that were asked for and never defined are lost.
void close_appended(State& state, Submission& graph) {
  std::vector<TaskId> lost;
  for (const TaskId id : graph.wants) {
    if (bare(state.tasks[id])) lost.push_back(id);
  }
  if (!lost.empty()) report_lost(state, graph, lost);
}

//! A first slice at once, so that a small graph is active when its commit returns.
void begin_work(State& state, SubmissionId id) {
  std::uint32_t budget = kSliceBudget;
  const auto found = state.submissions.find(id);
  if (continue_submission(state, found->second, budget)) state.submissions.erase(found);
}

}  // namespace

void on_graph_opened(State& state, const GraphOpened& opened) {
  const Client* client = state.client(opened.client);
  if (client == nullptr || client->leaving || state.submissions.contains(opened.submission)) return;
  Submission graph;
  graph.id = opened.submission;
  graph.client = opened.client;
  graph.append = graph.committed = opened.append;
  if (graph.append) graph.phase = Submission::Phase::activating;
  graph.generation = generation_of(state, opened);
  state.submissions.emplace(graph.id, std::move(graph));
}

void on_graph_keys(State& state, const GraphKeys& keys) {
  Submission* graph = find_submission(state, keys.submission);
  if (graph == nullptr || graph->closed) return;
  auto spelling = keys.spellings.begin();
  for (std::uint32_t i = 0; i < keys.keys.size(); ++i) {
    const auto [id, made] = state.tasks.intern(keys.keys[i]);
    Task& task = state.tasks[id];
    if (made) state.join_group(task, S::staged);
    if (!keys.outside && bare(task)) {
      task.submission = graph->id;
      ++graph->unrecorded;
    }
    if (!owned(task, *graph)) pin(state, *graph, id);
    if (keys.outside) graph->outside.push_back(id);
    graph->keys.push_back(id);
    if (spelling != keys.spellings.end() && spelling->key == i) {
      if (made) state.extra(task).spelled = spelling->spelled;
      ++spelling;
    }
  }
}

void on_graph_barriers(State& state, const GraphBarriers& barriers) {
  Submission* graph = find_submission(state, barriers.submission);
  if (graph == nullptr || graph->closed) return;
  for (const GraphBarrier& barrier : barriers.barriers) {
    if (barrier.key >= graph->keys.size() || !barrier.spec) continue;
    graph->barriers[graph->keys[barrier.key]] = barrier.spec;
  }
}

void on_graph_records(State& state, const GraphRecords& records) {
  Submission* graph = find_submission(state, records.submission);
  if (graph == nullptr || graph->closed) return;
  bool complete_so_far = true;
  for (const GraphTask& task : records.tasks) {
    complete_so_far = take_record(state, *graph, task) && complete_so_far;
  }
  if (!complete_so_far) cancel(*graph);
  if (graph->append) begin_work(state, graph->id);
}

void on_graph_wants(State& state, const GraphWants& wants) {
  Submission* graph = find_submission(state, wants.submission);
  if (graph == nullptr || graph->closed) return;
  for (const KeyView key : wants.keys) {
    const auto [id, made] = state.tasks.intern(key);
    if (made) state.join_group(state.tasks[id], S::staged);
    if (!owned(state.tasks[id], *graph)) pin(state, *graph, id);
    graph->wants.push_back(id);
    if (graph->append) want(state, *graph, id);
  }
  if (graph->append) begin_work(state, graph->id);
}

void on_graph_committed(State& state, const GraphCommitted& committed) {
  Submission* graph = find_submission(state, committed.submission);
  if (graph == nullptr || graph->closed) return;
  graph->closed = true;
  for (const TaskRecord& record : graph->kept) settle_kept(state, *graph, record);
  graph->kept.clear();
  if (graph->append ? graph->unrecorded > 0 : !complete(state, *graph)) {
    cancel(*graph);
  } else if (graph->append) {
    close_appended(state, *graph);
  } else {
    graph->committed = true;
    for (const TaskId id : graph->wants) want(state, *graph, id);
    graph->phase = Submission::Phase::culling;
    graph->cursor = 0;
  }
  begin_work(state, committed.submission);
}

void on_graph_dropped(State& state, const GraphDropped& dropped) {
  Submission* graph = find_submission(state, dropped.submission);
  if (graph == nullptr) return;
  drop(*graph);
  begin_work(state, dropped.submission);
}

void drop_submissions_of(State& state, ClientId client) {
  for (auto& [id, graph] : state.submissions) {
    if (graph.client == client && !graph.closed && graph.phase != Submission::Phase::dropping) {
      drop(graph);
    }
  }
}

void disown(State& state, TaskId id) {
  Task& task = state.tasks[id];
  const auto found = state.submissions.find(task.submission);
  task.submission = SubmissionId();
  if (found != state.submissions.end() && task.spec) {
    TaskRecord record{id, {}, task.spec, task.annotations, task.priority.order,
                      task.data_producer, task.actor};
    for (const Edge& edge : task.dependencies) record.dependencies.push_back(edge.task);
    found->second.kept.push_back(std::move(record));
  } else if (found != state.submissions.end()) {
    --found->second.unrecorded;
  }
  if (found != state.submissions.end()) pin(state, found->second, id);
  strip(state, id);
}

}  // namespace scheduler
