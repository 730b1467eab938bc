#include "tests/sim/stock_worker.h"

#include <algorithm>

namespace sim {

using S = StockWorker::S;

void StockWorker::receive(const ToWorker& message) {
  std::visit([this](const auto& m) { on(m); }, message);
  advance();
}

StockWorker::Task* StockWorker::find(KeyNo key) {
  const auto found = tasks_.find(key);
  return found == tasks_.end() ? nullptr : &found->second;
}

const std::uint64_t* StockWorker::value(KeyNo key) const {
  const auto found = data_.find(key);
  return found == data_.end() ? nullptr : &found->second;
}

// ---- messages -----------------------------------------------------------------------------------

void StockWorker::on(const Compute& message) {
  Task& task = tasks_[message.key];
  task.run = message.run;
  switch (task.state) {
    case S::ready:
    case S::executing:
    case S::long_running:
    case S::waiting: return;  // only the run id changes; the attempt under way keeps its own
    case S::memory: return host_.send(id_, Finished{message.key, message.run});
    default: break;
  }
  const bool still_runs =
      (task.state == S::cancelled || task.state == S::resumed) && task.previous != S::flight;
  if (!still_runs) task.resources = message.resources;
  for (const auto& [input, holders] : message.who_has) {
    task.inputs.insert(input);
    Task& up = tasks_[input];
    up.dependents.insert(message.key);
    if (up.state != S::memory) up.who_has = holders;
    // Only a rask worker may be sent a task ahead of an input that it is to make itself.
    if (holders.empty() && !rask_) host_.complain("compute without a holder of an input");
  }
  Task& asked = tasks_[message.key];
  switch (asked.state) {
    case S::cancelled:
      if (asked.previous == S::flight) {
        asked.state = S::resumed;
        asked.next = S::waiting;
      } else {
        const bool seceded = asked.previous == S::long_running;
        asked.state = asked.previous;  // the old attempt goes on
        if (seceded) host_.send(id_, Seceded{message.key, asked.run, -1});
      }
      break;
    case S::resumed:
      if (asked.previous != S::flight) {  // resumed(executing -> fetch): back to executing
        const bool seceded = asked.previous == S::long_running;
        asked.state = asked.previous;
        asked.next = S::released;
        if (seceded) host_.send(id_, Seceded{message.key, asked.run, -1});
      }
      break;
    case S::flight:
      asked.previous = S::flight;
      asked.state = S::resumed;
      asked.next = S::waiting;
      break;
    default: to_waiting(message.key);
  }
}

void StockWorker::on(const Free& message) { release(message.key); }

void StockWorker::on(const RemoveReplica& message) {
  Task* task = find(message.key);
  if (task == nullptr || task->state != S::memory) return;
  for (const KeyNo dependent : task->dependents) {
    const Task* down = find(dependent);
    if (down != nullptr && (down->state == S::executing || down->state == S::long_running)) {
      if (rask_) return host_.send(id_, Added{message.key});  // keeps it, and says so
      return host_.complain("remove-replicas of an input of a running task kills the worker");
    }
  }
  release(message.key);
}

void StockWorker::on(const Acquire& message) {
  Task& task = tasks_[message.key];
  if (task.state == S::memory) return;
  task.who_has = message.who_has;
  to_fetch(message.key);
}

void StockWorker::on(const Refresh& message) {
  for (const auto& [key, holders] : message.who_has) {
    Task* task = find(key);
    if (task == nullptr) continue;
    task->who_has = holders;
    task->who_has.erase(id_);
    if (task->state == S::missing && !task->who_has.empty()) {
      task->state = S::fetch;
    } else if (task->state == S::fetch && task->who_has.empty()) {
      task->state = S::missing;
    }
  }
}

void StockWorker::on(const Steal& message) {
  Task* task = find(message.key);
  VictimState state = VictimState::none;
  if (task != nullptr) {
    switch (task->state) {
      case S::waiting: state = VictimState::waiting; break;
      case S::ready:
        state = task->resources.empty() ? VictimState::ready : VictimState::constrained;
        break;
      case S::executing: state = VictimState::executing; break;
      case S::long_running: state = VictimState::long_running; break;
      case S::memory: state = VictimState::memory; break;
      case S::cancelled: state = VictimState::cancelled; break;
      case S::resumed: state = VictimState::resumed; break;
      case S::released: state = VictimState::released; break;
      default: state = VictimState::other;
    }
  }
  host_.send(id_, StealAnswer{message.key, message.theft, state});
  if (task != nullptr && (task->state == S::waiting || task->state == S::ready)) {
    release(message.key);
  }
}

void StockWorker::on(const PeerGone& message) { forget_peer(message.worker); }

// ---- transitions --------------------------------------------------------------------------------

void StockWorker::to_waiting(KeyNo key) {
  Task& task = tasks_[key];
  task.state = S::waiting;
  const std::set<KeyNo> inputs = task.inputs;
  for (const KeyNo input : inputs) {
    if (tasks_[input].state != S::memory) to_fetch(input);
  }
}

void StockWorker::to_fetch(KeyNo key) {
  Task& task = tasks_[key];
  switch (task.state) {
    case S::released:
    case S::error:
    case S::missing: task.state = task.who_has.empty() ? S::missing : S::fetch; break;
    case S::cancelled:
      if (task.previous == S::flight) {
        task.state = S::flight;
      } else {
        task.state = S::resumed;
        task.next = S::fetch;
      }
      break;
    default: break;
  }
}

void StockWorker::to_memory(KeyNo key, std::uint64_t value) {
  if (value != universe_.specs[key].value) host_.complain("a worker holds a wrong value");
  Task& task = tasks_[key];
  task.state = S::memory;
  task.previous = task.next = S::released;
  data_[key] = value;
}

void StockWorker::release(KeyNo key) {
  Task* task = find(key);
  if (task == nullptr) return;
  switch (task->state) {
    case S::executing:
    case S::long_running:
    case S::flight:
      task->previous = task->state;
      task->state = S::cancelled;
      return;
    case S::resumed: task->state = S::cancelled; return;
    case S::cancelled: return;
    case S::memory:
      data_.erase(key);
      host_.send(id_, Dropped{key});
      break;
    default: break;
  }
  purge(key);
}

void StockWorker::purge(KeyNo key) {
  Task& task = tasks_[key];
  task.state = task.previous = task.next = S::released;
  const std::set<KeyNo> inputs = task.inputs;
  for (const KeyNo input : inputs) {
    Task* up = find(input);
    if (up == nullptr) continue;
    const bool waited_for =
        std::any_of(up->dependents.begin(), up->dependents.end(), [&](KeyNo dependent) {
          const Task* down = find(dependent);
          return dependent != key && down != nullptr && down->state == S::waiting;
        });
    const bool may_go = up->state == S::fetch || up->state == S::missing ||
                        up->state == S::flight || up->state == S::released;
    if (!task.dependents.empty()) {
      if (!waited_for && may_go) release(input);
      continue;
    }
    up->dependents.erase(key);
    if (!waited_for && may_go) release(input);
  }
  if (tasks_[key].dependents.empty()) tasks_.erase(key);
}

void StockWorker::forget_peer(WorkerId peer) {
  for (auto& [key, task] : tasks_) {
    task.who_has.erase(peer);
    if (task.state == S::fetch && task.who_has.empty()) task.state = S::missing;
  }
}

// ---- executing and fetching ---------------------------------------------------------------------

bool StockWorker::reserve(const scheduler::Resources& wanted, double sign) {
  for (const auto& [name, amount] : wanted) {
    const auto same = [&](const auto& entry) { return entry.first == name; };
    const auto found = std::find_if(available_.begin(), available_.end(), same);
    // A worker without the resource was chosen because the restriction is loose.
    if (found != available_.end() && sign < 0 && found->second < amount) return false;
  }
  for (const auto& [name, amount] : wanted) {
    for (auto& [known, left] : available_) left += known == name ? sign * amount : 0;
  }
  return true;
}

void StockWorker::begin(KeyNo key) {
  Task& task = tasks_[key];
  task.state = S::executing;
  task.started = task.run;
  running_.insert(key);
  ++busy_;
  task.value = mix(17, key);
  task.broken = false;
  for (const KeyNo input : universe_.specs[key].inputs) {
    const std::uint64_t* given = value(input);
    task.broken = task.broken || given == nullptr;
    task.value = given != nullptr ? mix(task.value, *given) : 0;
  }
  host_.run_for(id_, key, universe_.specs[key].behaviour.seconds);
}

void StockWorker::advance() {
  for (auto& [key, task] : tasks_) {
    if (task.state != S::waiting) continue;
    const bool complete = std::all_of(task.inputs.begin(), task.inputs.end(), [&](KeyNo input) {
      const Task* up = find(input);
      return up != nullptr && up->state == S::memory;
    });
    if (complete) task.state = S::ready;
  }
  if (paused_) return;
  std::vector<KeyNo> ready, wanted;
  for (const auto& [key, task] : tasks_) {
    if (task.state == S::ready) ready.push_back(key);
    if (task.state == S::fetch) wanted.push_back(key);
  }
  for (const KeyNo key : ready) {
    if (busy_ >= threads_) break;
    if (reserve(tasks_[key].resources, -1)) begin(key);
  }
  for (const KeyNo key : wanted) {
    Task& task = tasks_[key];
    task.state = S::flight;
    task.coming_from = *task.who_has.begin();
    host_.fetch(id_, task.coming_from, key);
  }
}

void StockWorker::executed(KeyNo key) {
  const auto found = tasks_.find(key);
  if (found == tasks_.end() || !running_.contains(key)) return;
  const Behaviour& behaviour = universe_.specs[key].behaviour;
  const bool was_long = found->second.state == S::long_running ||
                        found->second.previous == S::long_running;
  if (behaviour.secedes && !was_long) {
    // Gives its thread back and goes on for as long again.
    --busy_;
    if (found->second.state == S::executing) {
      found->second.state = S::long_running;
      host_.send(id_, Seceded{key, found->second.run, behaviour.seconds});
    } else {
      found->second.previous = S::long_running;
    }
    host_.run_for(id_, key, behaviour.seconds);
    return advance();
  }
  running_.erase(key);
  if (!was_long) --busy_;
  reserve(found->second.resources, 1);
  Task& task = found->second;
  const std::uint32_t run = host_.runs_so_far(key);
  if (behaviour.kills) return host_.die(id_);
  const bool resched = run < behaviour.reschedules || host_.misplaced(id_, key);
  const bool failed = task.broken || run < behaviour.fails;
  if (task.state == S::cancelled) {
    purge(key);
  } else if (task.state == S::resumed && (failed || resched)) {
    task.state = S::released;
    to_fetch(key);
  } else if (task.state == S::resumed) {
    to_memory(key, task.value);
    host_.send(id_, Added{key});
  } else if (resched) {
    host_.send(id_, Rescheduled{key});
    purge(key);
  } else if (failed) {
    task.state = S::error;
    host_.send(id_, Erred{key, task.started});
  } else {
    const RunId started = task.started;
    to_memory(key, task.value);
    host_.send(id_, Finished{key, started});
  }
  advance();
}

void StockWorker::fetched(KeyNo key, WorkerId from, bool reached, const std::uint64_t* given) {
  Task* task = find(key);
  if (task == nullptr) return;
  const bool flying = task->state == S::flight ||
                      ((task->state == S::cancelled || task->state == S::resumed) &&
                       task->previous == S::flight);
  if (!flying) return;
  if (!reached) {
    forget_peer(from);
  } else if (given == nullptr) {
    task->who_has.erase(from);
  }
  if (task->state == S::cancelled) {
    purge(key);
  } else if (task->state == S::resumed) {
    if (given != nullptr) {
      const RunId run = task->run;
      to_memory(key, *given);
      host_.send(id_, Finished{key, run});
    } else {
      task->state = task->previous = task->next = S::released;
      to_waiting(key);
    }
  } else if (given != nullptr) {
    to_memory(key, *given);
    host_.send(id_, Added{key});
  } else {
    task->state = task->who_has.empty() ? S::missing : S::fetch;
  }
  advance();
}

void StockWorker::find_missing() {
  AskWhoHas ask;
  for (const auto& [key, task] : tasks_) {
    if (task.state == S::missing) ask.keys.push_back(key);
  }
  if (!ask.keys.empty()) host_.send(id_, ask);
  advance();
}

void StockWorker::pause(bool paused) {
  paused_ = paused;
  advance();
}

void StockWorker::scatter(KeyNo key, std::uint64_t given) {
  if (tasks_[key].state == S::memory) return;
  if (tasks_[key].state == S::flight || tasks_[key].state == S::cancelled) return;
  to_memory(key, given);
  advance();
}

void StockWorker::lose_value(KeyNo key) {
  Task* task = find(key);
  if (task == nullptr || task->state != S::memory) return;
  for (const KeyNo dependent : task->dependents) {
    const Task* down = find(dependent);
    if (down != nullptr && down->state != S::memory && down->state != S::released) return;
  }
  release(key);
  advance();
}

}  // namespace sim
