//! Writing a worker core's instructions and state for comparison with stock.
#include "tests/worker/digest.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "worker/core/state.h"

namespace tests {
namespace {

using namespace worker;  // NOLINT: this file is about nothing else

std::string text(const Core& core, TaskId id) { return protocol::key_text(core.task(id).key); }

std::set<std::string> texts(const Core& core, const std::vector<TaskId>& ids) {
  std::set<std::string> out;
  for (TaskId id : ids) out.insert(text(core, id));
  return out;
}

struct InstructionWriter {
  const Core& core;
  Packer& out;

  template <class... Fields>
  void put(const char* name, const Fields&... fields) const {
    out.pack_array(1 + sizeof...(fields));
    out.pack(name);
    (out.pack(fields), ...);
  }

  void operator()(const GatherDep& a) const {
    put("gather-dep", core.peer(a.peer).address, texts(core, a.to_gather), a.total_nbytes);
  }
  void operator()(const Execute& a) const { put("execute", text(core, a.task), a.run.value); }
  void operator()(const RetryBusyWorkerLater& a) const {
    put("retry-busy-worker-later", core.peer(a.peer).address);
  }
  void operator()(const SendTaskFinished& a) const {
    put("task-finished", text(core, a.task), a.run.value, core.task(a.task).nbytes);
  }
  void operator()(const SendTaskErred& a) const {
    // A key that was only ever fetched has no run; stock sends -1.
    const std::int64_t run = a.run.valid() ? static_cast<std::int64_t>(a.run.value) : -1;
    put("task-erred", text(core, a.task), run);
  }
  void operator()(const SendReleaseWorkerData& a) const {
    put("release-worker-data", text(core, a.task));
  }
  void operator()(const SendReschedule& a) const { put("reschedule", text(core, a.task)); }
  void operator()(const SendLongRunning& a) const {
    put("long-running", text(core, a.task), a.run.value, a.compute_seconds);
  }
  void operator()(const SendAddKeys& a) const { put("add-keys", text(core, a.task)); }
  void operator()(const SendRequestRefreshWhoHas& a) const {
    put("request-refresh-who-has", texts(core, a.tasks));
  }
  void operator()(const SendStealResponse& a) const {
    const bool known = a.state != TaskState::forgotten;
    put("steal-response", protocol::key_text(a.key),
        std::string(known ? task_state_name(a.state) : "None"));
  }
  void operator()(const DropValue&) const {}
  void operator()(const Transitioned&) const {}
  void operator()(const Note&) const {}
};

const char* previous_name(const Task& task) {
  if (task.state != TaskState::cancelled && task.state != TaskState::resumed) return "None";
  switch (task.activity) {
    case Activity::executing: return "executing";
    case Activity::long_running: return "long-running";
    case Activity::flight: return "flight";
    case Activity::none: return "None";
  }
  return "None";
}

//! One text per fact: easy to compare as sets and to read when they differ.
using Facts = std::set<std::string>;

std::string joined(const std::set<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ",") + part;
  return out;
}

void add_task(const Core& core, TaskId id, Facts& facts) {
  const State& s = core.state();
  const Task& task = core.task(id);
  const std::string name = text(core, id);
  const auto fact = [&](const std::string& what, const std::string& value) {
    facts.insert(name + " " + what + " " + value);
  };
  fact("state", std::string(task_state_name(task.state)));
  fact("previous", previous_name(task));
  fact("run_id", task.run.valid() ? std::to_string(task.run.value) : "-1");
  if (task.nbytes != Task::kUnknownSize) fact("nbytes", std::to_string(task.nbytes));
  std::set<std::string> who_has;
  for (const Holder& holder : task.who_has) who_has.insert(core.peer(holder.peer).address);
  fact("who_has", joined(who_has));
  std::set<std::string> dependencies;
  std::set<std::string> waiting_for;
  std::set<std::string> waited_for;
  for (EdgeId edge : task.dependencies) {
    const std::string other = text(core, s.tasks[edge].dependency);
    dependencies.insert(other);
    if (s.tasks[edge].waiting) waiting_for.insert(other);
    if (s.tasks[edge].waiter) waited_for.insert(other);
  }
  fact("dependencies", joined(dependencies));
  fact("waiting_for_data", joined(waiting_for));
  fact("waits_on", joined(waited_for));
  std::string priority;
  for (double part : task.priority.parts()) {
    priority += std::to_string(static_cast<std::int64_t>(part)) + ",";
  }
  fact("priority", priority);
  if (task.coming_from.valid()) fact("coming_from", core.peer(task.coming_from).address);
}

}  // namespace

bool is_instruction(const Action& action) {
  return !std::holds_alternative<DropValue>(action) &&
         !std::holds_alternative<Transitioned>(action) && !std::holds_alternative<Note>(action);
}

void write_instruction(const Core& core, const Action& action, Packer& out) {
  std::visit(InstructionWriter{core, out}, action);
}

void write_digest(const Core& core, Packer& out) {
  const State& s = core.state();
  Facts facts;
  for (TaskId id : core.tasks()) add_task(core, id, facts);
  for (std::uint32_t i = 0; i < s.peers.slots(); ++i) {
    if (!s.peers.has(PeerId(i))) continue;
    const Peer& peer = s.peers[PeerId(i)];
    if (peer.busy) facts.insert("busy " + peer.address);
    std::set<std::string> keys;
    for (TaskRef ref : peer.gathering) keys.insert(text(core, ref.id));
    if (peer.in_flight) facts.insert("in_flight " + peer.address + " " + joined(keys));
  }
  for (const ResourceLevel& level : core.resources()) {
    const auto amount = static_cast<std::int64_t>(level.available);
    facts.insert("available " + level.name + " " + std::to_string(amount));
  }
  facts.insert("executing " + std::to_string(core.executing_count()));
  facts.insert("executed " + std::to_string(core.executed_count()));
  facts.insert("nbytes " + std::to_string(core.nbytes()));
  facts.insert("incoming_bytes " + std::to_string(core.transfer_incoming_bytes()));
  facts.insert("incoming_total " + std::to_string(core.transfer_incoming_count_total()));
  facts.insert(std::string("running ") + (core.running() ? "True" : "False"));
  out.pack(facts);
}

}  // namespace tests
