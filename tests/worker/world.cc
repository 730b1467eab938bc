//! Names to ids and back, and the checks after every step.
#include "tests/worker/world.h"

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include <catch2/catch.hpp>

namespace tests {
namespace {

using namespace worker;  // NOLINT: this file is about nothing else

std::string address(std::string_view name) {
  const bool near = name.substr(0, 4) == "near";
  return near ? "tcp://me:" + std::string(name) : "tcp://" + std::string(name) + ":1";
}

std::string name_of(std::string_view address) {
  const std::string_view rest = address.substr(6);
  const std::size_t colon = rest.find(':');
  return std::string(rest.substr(0, colon) == "me" ? rest.substr(colon + 1) : rest.substr(0, colon));
}

//! Owns the bytes that the views of one event point to.
class Keeper {
 public:
  KeyView key(std::string_view text) { return keys_.emplace_back(protocol::string_key(text)); }

  std::vector<KeyView> keys(const std::vector<std::string>& texts) {
    std::vector<KeyView> out;
    for (const std::string& text : texts) out.push_back(key(text));
    return out;
  }

  std::vector<Replica> replicas(const std::vector<Need>& needs) {
    std::vector<Replica> out;
    for (const Need& need : needs) {
      auto& views = views_.emplace_back();
      for (const std::string& name : need.who_has) {
        views.push_back(addresses_.emplace_back(address(name)));
      }
      out.push_back({key(need.key), need.nbytes, views});
    }
    return out;
  }

 private:
  std::deque<Key> keys_;
  std::deque<std::string> addresses_;
  std::deque<std::vector<std::string_view>> views_;
};

Config with_address(Config config) {
  config.address = address("near0");
  if (config.seed == 1) config.seed = 0;  // Equal peers: the lower address.
  return config;
}

}  // namespace

World::World(Config config) : core_(with_address(std::move(config))) {}

Lines World::sent() { return std::exchange(sent_, {}); }

TaskId World::id(std::string_view key) const {
  return core_.find(protocol::string_key(key)).value_or(TaskId{});
}

PeerId World::peer(std::string_view name) const {
  return core_.find_peer(address(name)).value_or(PeerId{});
}

ValueId World::new_value() {
  values_.insert(next_value_);
  return ValueId(next_value_++);
}

std::string World::state(std::string_view key) const {
  const TaskId found = id(key);
  return found.valid() ? std::string(task_state_name(core_.task(found).state)) : "unknown";
}

const Task& World::task(std::string_view key) const { return core_.task(id(key)); }

void World::step(const Event& event) {
  Actions actions;
  core_.step(event, "test", protocol::Now{}, actions);
  for (const Action& action : actions) {
    if (const auto* execute = std::get_if<Execute>(&action)) {
      runs_[protocol::key_text(core_.task(execute->task).key)] = execute->run;
    }
    sent_.push_back(line(action));
  }
  check(actions);
}

void World::check(const Actions& actions) {
  for (const Action& action : actions) {
    if (const auto* drop = std::get_if<DropValue>(&action)) {
      CHECK(values_.erase(drop->value.value) == 1);
    }
  }
  std::set<std::uint64_t> held;
  for (TaskId task : core_.tasks()) {
    if (core_.task(task).value.valid()) held.insert(core_.task(task).value.value);
  }
  CHECK(held == values_);
  CHECK(core_.validate() == Lines{});
}

namespace {

std::string number(double value) {
  const auto whole = static_cast<std::int64_t>(value);
  return static_cast<double>(whole) == value ? std::to_string(whole)
                                             : std::to_string(value).substr(0, 3);
}

struct LineWriter {
  const Core& core;

  std::string key(TaskId id) const { return id.valid() ? protocol::key_text(core.task(id).key) : "?"; }
  std::string keys(const std::vector<TaskId>& ids) const {
    std::string out;
    for (TaskId id : ids) out += " " + key(id);
    return out;
  }
  static std::string run(RunId id) {
    return id.valid() ? " run " + std::to_string(id.value) : " no run";
  }
  std::string peer(PeerId id) const { return name_of(core.peer(id).address); }

  std::string operator()(const GatherDep& a) const {
    return "gather-dep " + peer(a.peer) + ":" + keys(a.to_gather) + ", " +
           std::to_string(a.total_nbytes) + " bytes";
  }
  std::string operator()(const Execute& a) const { return "execute " + key(a.task) + run(a.run); }
  std::string operator()(const RetryBusyWorkerLater& a) const {
    return "retry-busy-worker-later " + peer(a.peer);
  }
  std::string operator()(const SendTaskFinished& a) const {
    return "task-finished " + key(a.task) + run(a.run);
  }
  std::string operator()(const SendTaskErred& a) const {
    return "task-erred " + key(a.task) + run(a.run);
  }
  std::string operator()(const SendReleaseWorkerData& a) const {
    return "release-worker-data " + key(a.task);
  }
  std::string operator()(const SendReschedule& a) const { return "reschedule " + key(a.task); }
  std::string operator()(const SendLongRunning& a) const {
    const std::string seconds = a.compute_seconds < 0 ? "nil" : number(a.compute_seconds);
    return "long-running " + key(a.task) + run(a.run) + " after " + seconds;
  }
  std::string operator()(const SendAddKeys& a) const { return "add-keys " + key(a.task); }
  std::string operator()(const SendRequestRefreshWhoHas& a) const {
    return "request-refresh-who-has" + keys(a.tasks);
  }
  std::string operator()(const SendStealResponse& a) const {
    const std::string state(a.state == TaskState::forgotten ? "nil" : task_state_name(a.state));
    return "steal-response " + protocol::key_text(a.key) + " " + state;
  }
  std::string operator()(const DropValue& a) const { return "drop " + key(a.task); }
  std::string operator()(const Transitioned& a) const {
    return "transitioned " + key(a.task) + " " + std::string(task_state_name(a.start)) + " " +
           std::string(task_state_name(a.finish));
  }
  std::string operator()(const Note& a) const {
    static constexpr const char* kKinds[] = {"impossible-transition", "replica-in-use",
                                             "unknown-transfer", "unknown-execution"};
    const std::string text = a.key.bytes.empty() ? "" : " " + protocol::key_text(a.key);
    return std::string("note ") + kKinds[static_cast<std::size_t>(a.kind)] + text;
  }
};

}  // namespace

std::string World::line(const Action& action) const { return std::visit(LineWriter{core_}, action); }

void World::compute(const Compute& what) {
  Keeper keep;
  const auto replicas = keep.replicas(what.needs);
  std::vector<Resource> resources(what.resources.begin(), what.resources.end());
  step(ComputeTask{.key = keep.key(what.key),
                   .run = RunId(what.run),
                   .priority = Priority(what.priority),
                   .dependencies = replicas,
                   .resources = resources,
                   .actor = what.actor,
                   .work = std::make_shared<int>(0)});
}

void World::free(const std::vector<std::string>& keys) {
  Keeper keep;
  const auto views = keep.keys(keys);
  step(FreeKeys{views});
}

void World::remove_replicas(const std::vector<std::string>& keys) {
  Keeper keep;
  const auto views = keep.keys(keys);
  step(RemoveReplicas{views});
}

void World::acquire(const std::vector<Need>& needs) {
  Keeper keep;
  const auto replicas = keep.replicas(needs);
  step(AcquireReplicas{replicas});
}

void World::refresh(const std::vector<Need>& needs) {
  Keeper keep;
  const auto replicas = keep.replicas(needs);
  step(RefreshWhoHas{replicas});
}

void World::steal(std::string_view key) {
  const Key bytes = protocol::string_key(key);
  step(StealRequest{bytes});
}

void World::cancel_compute(std::string_view key) {
  const Key bytes = protocol::string_key(key);
  step(CancelCompute{bytes});
}

void World::remove_worker(std::string_view name) {
  const std::string text = address(name);
  step(RemoveWorker{text});
}

void World::arrive(std::string_view name, const std::vector<std::string>& keys,
                   std::uint64_t size) {
  Keeper keep;
  std::vector<Gathered> data;
  for (const std::string& key : keys) data.push_back({keep.key(key), new_value(), size});
  step(GatherDepSuccess{peer(name), data});
}

void World::busy(std::string_view name) { step(GatherDepBusy{peer(name)}); }
void World::unreachable(std::string_view name) { step(GatherDepNetworkFailure{peer(name)}); }
void World::unreadable(std::string_view name) { step(GatherDepFailure{peer(name)}); }
void World::retry(std::string_view name) { step(RetryBusyWorker{peer(name)}); }

void World::finish(std::string_view key, std::uint64_t nbytes) {
  step(ExecuteSuccess{id(key), runs_.find(key)->second, new_value(), nbytes});
}

void World::fail(std::string_view key) {
  step(ExecuteFailure{id(key), runs_.find(key)->second});
}

void World::reschedule(std::string_view key) { step(ExecuteReschedule{id(key)}); }
void World::secede(std::string_view key, double seconds) { step(Secede{id(key), seconds}); }

void World::scatter(const std::vector<std::string>& keys, std::uint64_t nbytes) {
  Keeper keep;
  std::vector<Scattered> data;
  for (const std::string& key : keys) data.push_back({keep.key(key), new_value(), nbytes});
  step(UpdateData{data});
}

void World::set_resource(std::string_view name, double total) {
  const Resource resource{name, total};
  step(SetResources{std::span(&resource, 1)});
}

}  // namespace tests
