#include "worker/shell/task_view.h"

#include "worker/core/state.h"
#include "worker/shell/work.h"

namespace worker {

TaskView view_task(const Core& core, TaskId id) {
  const Task& task = core.task(id);
  const TaskTable& table = core.state().tasks;
  TaskView out;
  out.key = task.key;
  out.state = task.state;
  out.run = task.run;
  out.priority.assign(task.priority.parts().begin(), task.priority.parts().end());
  if (task.nbytes != Task::kUnknownSize) out.nbytes = static_cast<std::int64_t>(task.nbytes);
  out.actor = task.actor;
  for (const EdgeId edge : task.dependencies) {
    const Key& key = core.task(table[edge].dependency).key;
    out.dependencies.push_back(key);
    if (table[edge].waiting) out.waiting_for.push_back(key);
  }
  for (EdgeId edge = task.first_dependent; edge.valid(); edge = table[edge].next) {
    out.dependents.push_back(core.task(table[edge].dependent).key);
  }
  for (const Holder& holder : task.who_has) out.who_has.push_back(core.peer(holder.peer).address);
  for (const auto& [index, amount] : task.resources) {
    out.resources.emplace_back(core.resources()[index].name, amount);
  }
  if (const auto* work = static_cast<const Work*>(task.work.get())) {
    out.annotations = work->annotations;
  }
  return out;
}

}  // namespace worker
