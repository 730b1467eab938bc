//! Facts with two ends: edges of the graph, replicas, wants.
//!
//! Each end stores the place of the other, so nothing here searches except a task's own short
//! lists of holders and of wanting clients.
#include "scheduler/core/state.h"

namespace scheduler {

// ---- edges --------------------------------------------------------------------------------------

void State::link(TaskId dependent, TaskId dependency) {
  Task& down = tasks[dependent];
  Task& up = tasks[dependency];
  const auto up_place = static_cast<std::uint32_t>(up.dependents.size());
  const auto down_place = static_cast<std::uint32_t>(down.dependencies.size());
  down.dependencies.push_back(Edge{dependency, up_place, 0});
  up.dependents.push_back(Edge{dependent, down_place, 0});
  if (down.group->last_dependency == up.group) return;
  down.group->dependencies.insert(up.group->shared_from_this());
  down.group->last_dependency = up.group;
}

void State::unlink(TaskId dependent, std::size_t index) {
  Task& down = tasks[dependent];
  const Edge cut = down.dependencies[index];
  Task& up = tasks[cut.task];
  if (cut.flag) --down.waiting_on;
  if (up.dependents[cut.place].flag) --up.waiters;
  if (down.processing_on.valid()) unfetch(worker(down.processing_on), cut.task);

  const Edge last_dependent = up.dependents.back();
  up.dependents[cut.place] = last_dependent;
  other_end_of_dependent(last_dependent).place = cut.place;
  up.dependents.pop_back();

  const Edge last_dependency = down.dependencies.back();
  if (index + 1 < down.dependencies.size()) {
    down.dependencies[index] = last_dependency;
    other_end_of_dependency(last_dependency).place = static_cast<std::uint32_t>(index);
  }
  down.dependencies.pop_back();
}

void State::set_waiting_on(Task& task, Edge& dependency, bool value) {
  if (dependency.flag == static_cast<std::uint32_t>(value)) return;
  dependency.flag = value;
  task.waiting_on += value ? 1 : -1;
}

void State::set_waiter(Task& task, Edge& dependent, bool value) {
  if (dependent.flag == static_cast<std::uint32_t>(value)) return;
  dependent.flag = value;
  task.waiters += value ? 1 : -1;
}

void State::clear_waiters(Task& task) {
  if (task.waiters == 0) return;
  for (Edge& edge : task.dependents) edge.flag = 0;
  task.waiters = 0;
}

void State::clear_waiting_on(Task& task) {
  if (task.waiting_on == 0) return;
  for (Edge& edge : task.dependencies) edge.flag = 0;
  task.waiting_on = 0;
}

// ---- replicas -----------------------------------------------------------------------------------

void State::add_replica(TaskId id, WorkerId holder_id) {
  Task& task = tasks[id];
  if (task.on(holder_id)) return;
  Worker& holder = worker(holder_id);
  forget_fetch(holder, id);
  task.who_has.push_back(
      Replica{holder_id, static_cast<std::uint32_t>(holder.has_what.size()), holder.next_serial++});
  holder.has_what.push_back(id);
  holder.nbytes += size_of(task);
  if (task.who_has.size() == 2) replicated.insert(id);
}

namespace {

//! Takes entry `place` out of the worker's has_what; the last entry takes its place.
void drop_from_has_what(State& state, Worker& holder, std::uint32_t place) {
  const TaskId moved = holder.has_what.back();
  holder.has_what[place] = moved;
  for (Replica& replica : state.tasks[moved].who_has) {
    if (replica.worker == holder.id) replica.place = place;
  }
  holder.has_what.pop_back();
}

}  // namespace

void State::remove_replica(TaskId id, WorkerId holder_id) {
  Task& task = tasks[id];
  Worker& holder = worker(holder_id);
  for (std::size_t i = 0; i < task.who_has.size(); ++i) {
    if (task.who_has[i].worker != holder_id) continue;
    holder.nbytes -= size_of(task);
    holder.freed += size_of(task);
    const std::uint32_t place = task.who_has[i].place;
    drop_from_has_what(*this, holder, place);
    task.who_has.erase(task.who_has.begin() + i);
    if (task.who_has.size() == 1) replicated.erase(id);
    return;
  }
}

void State::remove_all_replicas(TaskId id) {
  Task& task = tasks[id];
  if (task.who_has.size() > 1) replicated.erase(id);
  for (const Replica& replica : task.who_has) {
    Worker& holder = worker(replica.worker);
    holder.nbytes -= size_of(task);
    holder.freed += size_of(task);
    drop_from_has_what(*this, holder, replica.place);
  }
  task.who_has.clear();
}

// ---- wants --------------------------------------------------------------------------------------

bool State::add_want(ClientId client_id, TaskId id) {
  Task& task = tasks[id];
  for (const Want& want : task.who_wants) {
    if (want.client == client_id) return false;
  }
  std::vector<TaskId>& wants = client(client_id)->wants;
  task.who_wants.push_back(Want{client_id, static_cast<std::uint32_t>(wants.size())});
  wants.push_back(id);
  if (!settled(task.state)) ++client(client_id)->pending;
  return true;
}

bool State::remove_want(ClientId client_id, TaskId id) {
  Task& task = tasks[id];
  for (std::size_t i = 0; i < task.who_wants.size(); ++i) {
    if (task.who_wants[i].client != client_id) continue;
    if (!settled(task.state)) --client(client_id)->pending;
    std::vector<TaskId>& wants = client(client_id)->wants;
    const std::uint32_t place = task.who_wants[i].place;
    const TaskId moved = wants.back();
    wants[place] = moved;
    for (Want& want : tasks[moved].who_wants) {
      if (want.client == client_id) want.place = place;
    }
    wants.pop_back();
    if (wants.empty() && wants.capacity() > 4096) wants.shrink_to_fit();
    task.who_wants.erase(task.who_wants.begin() + i);
    return true;
  }
  return false;
}

}  // namespace scheduler
