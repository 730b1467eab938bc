#include "scheduler/core/state.h"

#include <algorithm>
#include <cmath>

namespace scheduler {

State::State(Config given)
    : config(std::move(given)),
      queue(tasks),
      story(config.story_length),
      bandwidth(config.bandwidth) {}

bool State::has_worker(WorkerId id) const {
  return id.valid() && id.value < workers.size() && workers[id.value] &&
         workers[id.value]->status != WorkerStatus::closed;
}

Client* State::client(ClientId id) {
  return id.valid() && id.value < clients.size() ? clients[id.value].get() : nullptr;
}

const Client* State::client(ClientId id) const {
  return id.valid() && id.value < clients.size() ? clients[id.value].get() : nullptr;
}

TaskId State::find(KeyView key) const {
  const TaskId id = tasks.find(key);
  return id.valid() && visible(tasks[id]) ? id : TaskId();
}

bool State::visible(const Task& task) const {
  if (task.state != TaskState::staged) return true;
  if (!task.submission.valid() || !task.spec) return false;
  const auto found = submissions.find(task.submission);
  return found != submissions.end() && found->second.committed;
}

std::vector<TaskId> State::has_what_in_order(WorkerId id) const {
  std::vector<std::pair<std::uint32_t, TaskId>> found;
  for (const TaskId task : worker(id).has_what) {
    for (const Replica& replica : tasks[task].who_has) {
      if (replica.worker == id) found.emplace_back(replica.serial, task);
    }
  }
  std::sort(found.begin(), found.end());
  std::vector<TaskId> ordered;
  ordered.reserve(found.size());
  for (const auto& [serial, task] : found) ordered.push_back(task);
  return ordered;
}

void State::count_pending(const Task& task, int change) {
  for (const Want& want : task.who_wants) client(want.client)->pending += change;
}

void State::set_state(Task& task, TaskState state) {
  const auto from = static_cast<std::size_t>(task.state);
  const auto to = static_cast<std::size_t>(state);
  TaskGroup& group = *task.group;
  --group.states[from];
  ++group.states[to];
  --group.prefix->states[from];
  ++group.prefix->states[to];
  ++group.prefix->state_counts[to];
  story.add(task.key_ref, task.state, state, now.wall);
  // The transfers of a large graph may have begun before the barrier does.
  const bool begins = task.state == TaskState::staged && state == TaskState::released;
  if (task.state == TaskState::staged) task.submission = SubmissionId();
  if (settled(task.state) != settled(state)) count_pending(task, settled(state) ? -1 : 1);
  task.state = state;
  const bool over = (state == TaskState::released && !begins) || state == TaskState::erred ||
                    state == TaskState::forgotten || state == TaskState::staged;
  if (over && task.extra && task.extra->shuffle) shuffles.over.push_back(task.extra->shuffle);
}

TaskExtra& State::extra(Task& task) {
  if (!task.extra) task.extra = std::make_unique<TaskExtra>();
  return *task.extra;
}

void State::bury(TaskId id) {
  Task& task = tasks[id];
  leave_group(task);
  tasks.bury(id);
}

std::uint32_t State::type_id(std::string_view name) {
  if (name.empty()) return 0;
  if (const auto found = type_ids_.find(name); found != type_ids_.end()) return found->second;
  // Names come from workers; a worker that invents them without end gets no more numbers.
  if (type_names_.size() >= 65536) return 0;
  const auto id = static_cast<std::uint32_t>(type_names_.size());
  type_names_.emplace_back(name);
  type_ids_.emplace(name, id);
  return id;
}

void State::set_nbytes(Task& task, std::uint64_t nbytes) {
  const auto size = static_cast<std::int64_t>(std::min<std::uint64_t>(nbytes, 1ull << 60));
  const std::int64_t known = task.nbytes >= 0 ? task.nbytes : 0;
  task.group->nbytes_total += size - known;
  task.group->prefix->nbytes_total += size - known;
  if (task.nbytes < 0) {
    ++task.group->measured;
    ++task.group->prefix->measured;
  }
  const std::uint64_t counted = size_of(task);
  for (const Replica& replica : task.who_has) {
    Worker& holder = worker(replica.worker);
    holder.nbytes += static_cast<std::uint64_t>(size) - counted;
  }
  task.nbytes = size;
}

std::uint32_t State::fresh_mark() {
  if (++mark == 0) {
    tasks.for_each([this](TaskId id, const Task&) { tasks[id].mark = 0; });
    mark = 1;
  }
  return mark;
}

void State::rank_workers() {
  by_rank = living;
  std::sort(by_rank.begin(), by_rank.end(),
            [this](WorkerId a, WorkerId b) { return worker(a).address < worker(b).address; });
  for (WorkerSet* set : {&running, &idle, &open, &saturated, &hungry}) set->resize(by_rank.size());
  for (std::uint32_t rank = 0; rank < by_rank.size(); ++rank) {
    Worker& ranked = worker(by_rank[rank]);
    ranked.rank = rank;
    running.set(rank, ranked.running());
    set_membership(ranked, ranked.idle, ranked.has_slot, ranked.saturated);
    hungry.set(rank, ranked.hungry);
  }
}

void State::set_membership(Worker& of, bool is_idle, bool has_slot, bool is_saturated) {
  of.idle = is_idle;
  of.has_slot = has_slot;
  of.saturated = is_saturated;
  idle.set(of.rank, is_idle);
  open.set(of.rank, has_slot);
  saturated.set(of.rank, is_saturated);
}

void State::set_hungry(Worker& of, bool is_hungry) {
  of.hungry = is_hungry;
  hungry.set(of.rank, is_hungry);
}

}  // namespace scheduler
