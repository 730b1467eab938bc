#include "tests/scheduler/world.h"

#include <algorithm>
#include <set>
#include <sstream>

namespace scheduler {

World::World(Config config) : core(std::move(config)) { me_ = client("me"); }

WorkerId World::worker(const WorkerOptions& options) {
  const WorkerId id(next_worker_++);
  WorkerAdded added;
  added.worker = id;
  added.address = "tcp://10.0.0.1:" + std::to_string(4000 + id.value);
  added.host = options.host;
  added.name = protocol::string_key(options.name.empty() ? added.address : options.name);
  added.nthreads = options.threads;
  added.memory_limit = options.memory_limit;
  added.resources = options.resources;
  added.rask = options.rask;
  step(added);
  if (options.status != WorkerStatus::init) step(WorkerStatusChanged{id, options.status});
  return id;
}

ClientId World::client(const std::string& name) {
  const ClientId id(next_client_++);
  step(ClientAdded{id, name});
  return id;
}

void World::step(const Event& event) {
  const std::size_t before = out_.size();
  core.step(event, "test", now_, out_);
  for (std::size_t i = before; i < out_.size();) {
    if (std::holds_alternative<WantsTurn>(out_[i])) {
      turn_wanted_ = true;
      out_.erase(out_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  const std::vector<std::string> broken = core.validate();
  REQUIRE(broken == std::vector<std::string>());
}

bool World::turn() {
  if (!std::exchange(turn_wanted_, false)) return false;
  step(Turn{});
  return true;
}

void World::turns() {
  while (turn()) continue;
}

// ---- graphs -------------------------------------------------------------------------------------

SubmissionId World::open(const GraphOptions& options) {
  const SubmissionId id(next_graph_++);
  GraphOpened opened;
  opened.submission = id;
  opened.client = or_me(options.client);
  opened.fifo_timeout = options.fifo_timeout;
  opened.append = options.append;
  const Key inside = protocol::string_key(options.inside);
  opened.has_submitting_task = !options.inside.empty();
  opened.submitting_task = inside;
  step(opened);
  return id;
}

void World::stage(SubmissionId graph, const std::vector<Node>& nodes) {
  auto& numbers = numbers_[graph];
  const auto add = [&](const std::vector<std::string>& keys, bool outside) {
    if (keys.empty()) return;
    for (const std::string& key : keys) {
      const auto number = static_cast<std::uint32_t>(numbers.size());
      numbers.emplace(key, number);
    }
    const std::vector<KeyView> spelled = views(keys);
    step(GraphKeys{graph, spelled, outside, {}});
  };
  std::vector<std::string> inside, outside;
  std::set<std::string> seen;
  for (const Node& node : nodes) {
    if (!numbers.contains(node.key)) inside.push_back(node.key);
    seen.insert(node.key);
  }
  for (const Node& node : nodes) {
    for (const std::string& need : node.needs) {
      if (!numbers.contains(need) && seen.insert(need).second) outside.push_back(need);
    }
  }
  add(inside, false);
  add(outside, true);
  GraphBarriers barriers{graph, {}};
  for (const Node& node : nodes) {
    if (node.shuffle) barriers.barriers.push_back({numbers.at(node.key), node.shuffle});
  }
  if (!barriers.barriers.empty()) step(barriers);

  std::vector<std::vector<std::uint32_t>> needs(nodes.size());
  GraphRecords records{graph, {}};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string& need : nodes[i].needs) needs[i].push_back(numbers.at(need));
    GraphTask task;
    task.key = numbers.at(nodes[i].key);
    task.dependencies = needs[i];
    task.spec = SpecRef::of({});
    task.annotations = std::make_shared<Annotations>(nodes[i].annotations);
    task.priority = orders_[graph]++;
    task.data_producer = nodes[i].data_producer;
    task.actor = nodes[i].actor;
    records.tasks.push_back(task);
  }
  step(records);
}

void World::want(SubmissionId graph, const std::vector<std::string>& keys) {
  const std::vector<KeyView> spelled = views(keys);
  step(GraphWants{graph, spelled});
}

void World::commit(SubmissionId graph, bool take_turns) {
  step(GraphCommitted{graph});
  if (take_turns) turns();
}

void World::graph(const std::vector<Node>& nodes, std::vector<std::string> wants,
                  const GraphOptions& options) {
  if (wants.empty()) {
    std::set<std::string> needed;
    for (const Node& node : nodes) needed.insert(node.needs.begin(), node.needs.end());
    for (const Node& node : nodes) {
      if (!needed.contains(node.key)) wants.push_back(node.key);
    }
  }
  const SubmissionId id = open(options);
  if (options.append) want(id, wants);
  stage(id, nodes);
  if (!options.append) want(id, wants);
  commit(id);
}

TaskId World::submit(const std::string& key, const std::vector<std::string>& needs,
                     const Annotations& annotations) {
  graph({Node{key, needs, annotations}}, {key});
  return knows(key) ? id(key) : TaskId();
}

void World::map(const std::string& prefix, int count) {
  std::vector<Node> nodes;
  for (int i = 0; i < count; ++i) nodes.push_back(Node{prefix + "-" + std::to_string(i)});
  graph(nodes);
}

// ---- what happens -------------------------------------------------------------------------------

void World::finish(const std::string& key, WorkerId worker, RunId run, std::uint64_t nbytes) {
  const Key name = protocol::string_key(key);
  TaskFinished done;
  done.worker = worker;
  done.key = name;
  done.run = run;
  done.nbytes = nbytes;
  done.type_name = "int";
  const StartStop span{StartStop::Kind::compute, 100, 100 + seconds_};
  done.startstops = {&span, 1};
  step(done);
}

void World::finish(const std::string& key, std::uint64_t nbytes) {
  REQUIRE(state(key) == TaskState::processing);
  finish(key, processing_on(key), run_of(key), nbytes);
}

void World::err(const std::string& key, WorkerId worker, RunId run) {
  const Key name = protocol::string_key(key);
  TaskErred erred;
  erred.worker = worker;
  erred.key = name;
  erred.run = run;
  auto exception = std::make_shared<protocol::Payload>();
  exception->header = Slice::copy_of("boom " + key);
  erred.exception = exception;
  erred.exception_text = "boom";
  step(erred);
}

void World::err(const std::string& key) { err(key, processing_on(key), run_of(key)); }
void World::lose(WorkerId worker, bool expected) { step(WorkerLost{worker, expected}); }
void World::set_status(WorkerId worker, WorkerStatus status) {
  step(WorkerStatusChanged{worker, status});
}
void World::release(const std::vector<std::string>& keys, ClientId client) {
  const std::vector<KeyView> spelled = views(keys);
  step(KeysReleased{or_me(client), spelled});
}
void World::desire(const std::vector<std::string>& keys, ClientId client) {
  const std::vector<KeyView> spelled = views(keys);
  step(KeysDesired{or_me(client), spelled});
}
void World::cancel(const std::vector<std::string>& keys, bool force, ClientId client) {
  const std::vector<KeyView> spelled = views(keys);
  step(KeysCancelled{or_me(client), spelled, force, "why", "message"});
}
void World::retry(const std::vector<std::string>& keys) {
  const std::vector<KeyView> spelled = views(keys);
  step(KeysRetried{me_, spelled});
}
void World::scatter(const std::string& key, const std::vector<WorkerId>& holders,
                    std::uint64_t nbytes, ClientId client) {
  const Key name = protocol::string_key(key);
  step(DataScattered{or_me(client), {ScatteredKey{name, nbytes, holders, {}}}});
}
void World::add_keys(WorkerId worker, const std::vector<std::string>& keys) {
  const std::vector<KeyView> spelled = views(keys);
  step(ReplicasAdded{worker, spelled});
}
void World::drop_key(WorkerId worker, const std::string& key) {
  const Key name = protocol::string_key(key);
  step(ReplicaDropped{worker, name});
}
void World::answer_steal(WorkerId worker, const std::string& key, std::uint64_t theft,
                         VictimState state) {
  const Key name = protocol::string_key(key);
  step(StealAnswered{worker, name, theft, state});
}
void World::tick(double seconds) {
  pass(seconds);
  step(Tick{});
}

// ---- what is ------------------------------------------------------------------------------------

bool World::knows(const std::string& key) const {
  return core.find(protocol::string_key(key)).has_value();
}
TaskId World::id(const std::string& key) const {
  const auto found = core.find(protocol::string_key(key));
  INFO("key " << key);
  REQUIRE(found.has_value());
  return *found;
}
const Task& World::task(const std::string& key) const { return core.task(id(key)); }
int World::processing_count(WorkerId worker) const {
  return static_cast<int>(core.worker(worker).processing.size());
}

Actions World::sent() { return std::exchange(out_, {}); }

bool World::nothing_else_sent() {
  for (const Action& action : out_) UNSCOPED_INFO("sent: " << action);
  return out_.empty();
}

std::vector<KeyView> World::views(const std::vector<std::string>& keys) {
  std::vector<KeyView> spelled;
  for (const std::string& key : keys) {
    const auto found = keys_.try_emplace(key, protocol::string_key(key)).first;
    spelled.push_back(found->second);
  }
  return spelled;
}

}  // namespace scheduler
