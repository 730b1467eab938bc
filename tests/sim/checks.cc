//! What must hold: after each step, at rest, and at the end.
#include <cstdio>

#include "tests/sim/cluster.h"

namespace sim {

using namespace scheduler;

void Cluster::check_step() {
  if (events_ % 4 != 0 && !verbose_) return;
  const std::vector<std::string> broken = core_->validate();
  if (broken.empty()) return;
  for (const std::string& each : broken) complain(each);
}

//! Everything the scheduler knows, for people who look for a bug.
void Cluster::dump() const {
  core_->state().tasks.for_each([&](TaskId, const Task& task) {
    std::printf("  %s %s%s wants %zu waiters %u waits for %u pins %u dependents %zu\n",
                protocol::key_text(task.key()).c_str(), state_name(task.state).data(),
                task.state == TaskState::staged ? " (staged)" : "", task.who_wants.size(),
                task.waiters, task.waiting_on, task.pins, task.dependents.size());
    for (const Edge& edge : task.dependencies) {
      const Task& input = core_->task(edge.task);
      std::printf("      needs %s (%s)%s\n", protocol::key_text(input.key()).c_str(),
                  state_name(input.state).data(), edge.flag ? ", waits for it" : "");
    }
    for (const Story::Line& line : core_->state().story.about({task.key()}, {})) {
      std::printf("      %.4f %s -> %s\n", line.wall, state_name(line.from).data(),
                  state_name(line.to).data());
    }
  });
  for (const auto& [id, node] : workers_) {
    if (!node.alive) continue;
    for (const auto& [key, task] : node.model->tasks()) {
      std::printf("  w%u has %s in state %d (before %d, next %d), %zu dependents\n", id.value,
                  protocol::key_text(view(key)).c_str(), static_cast<int>(task.state),
                  static_cast<int>(task.previous), static_cast<int>(task.next),
                  task.dependents.size());
    }
  }
}

void Cluster::check_alive() {
  if (!failure_.empty()) return;
  const State& state = core_->state();
  if (!state.submissions.empty()) complain("a graph was never finished");
  state.tasks.for_each([&](TaskId id, const Task& task) {
    const std::string name = protocol::key_text(task.key());
    if (task.state != TaskState::memory && task.state != TaskState::erred &&
        task.state != TaskState::released) {
      complain(name + " is stuck in " + std::string(state_name(task.state)));
    }
    for (const Replica& replica : task.who_has) {
      const std::uint64_t* value = workers_.at(replica.worker).model->value(key_of(id));
      if (value == nullptr) return complain(name + " is not where the scheduler thinks");
      if (*value != universe_.specs[key_of(id)].value) complain(name + " has a wrong value");
    }
  });
  for (const auto& [id, client] : clients_) {
    for (const auto& [key, future] : client.futures) {
      const std::string name = protocol::key_text(view(key));
      if (future == Future::pending) {
        complain("a future of " + name + " of " + client.name + " waits for ever");
      }
      if (future != Future::finished) continue;
      const auto task = core_->find(view(key));
      if (!task || core_->task(*task).state != TaskState::memory) {
        complain(name + " was reported finished but is not in memory");
      }
    }
  }
}

void Cluster::check_empty() {
  if (!failure_.empty()) return;
  const State& state = core_->state();
  if (state.tasks.size() != 0) complain("tasks are left: " + std::to_string(state.tasks.size()));
  if (!state.groups.empty()) complain("groups are left");
  if (state.queued() > 0 || !state.unrunnable.empty()) complain("queues are not empty");
  if (!state.submissions.empty()) complain("submissions are left");
  if (!state.shuffles.runs.empty()) complain("shuffles are left");
  if (!state.thefts.in_flight.empty()) complain("thefts are left");
  if (state.held + state.chained + state.recalls.size() > 0) complain("tasks ahead are left");
  if (!state.replicated.empty()) complain("replicated tasks are left");
  for (const auto& [id, node] : workers_) {
    if (!node.alive) continue;
    if (!node.model->data().empty()) complain("a worker keeps data nobody wants");
    if (!node.model->tasks().empty()) complain("a worker keeps tasks nobody wants");
  }
}

}  // namespace sim
