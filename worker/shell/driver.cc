#include "worker/shell/driver.h"

#include <memory>
#include <utility>

#include "protocol/wire/message.h"
#include "protocol/wire/messages_worker.h"
#include "worker/core/state.h"

namespace worker {

namespace {

constexpr std::uint64_t kBusyPauseMs = 150;

std::uint64_t payload_bytes(const protocol::Payload& payload) {
  std::uint64_t bytes = 0;
  for (const Slice& frame : payload.frames) bytes += frame.size();
  return bytes > 0 ? bytes : payload.header.size();
}

}  // namespace

Driver::Driver(protocol::Loop& loop, Config config, Store& store, WaitQueue<PendingJob>& jobs,
               ServiceQueue& service, protocol::StreamSender& stream, Hooks hooks)
    : loop_(loop), core_(std::move(config)), store_(store), jobs_(jobs), service_(service),
      stream_(stream), hooks_(std::move(hooks)) {}

void Driver::step(const Event& event, std::string_view stimulus) {
  // An action may lead to another step (a fetch that fails at once), so each has its own list.
  Actions actions = std::exchange(spare_, {});
  const std::string_view outer = std::exchange(stimulus_, stimulus);
  core_.step(event, stimulus, loop_.now(), actions);
  for (const Action& action : actions) {
    std::visit([this](const auto& a) { act(a); }, action);
  }
  stimulus_ = outer;
  actions.clear();
  spare_ = std::move(actions);
}

std::string Driver::stimulus(std::string_view cause) const {
  return std::string(cause) + "-" + std::to_string(loop_.now().wall);
}

// ---- what executors say -----------------------------------------------------------------------

std::vector<std::pair<KeyView, double>> Driver::executing() const {
  std::vector<std::pair<KeyView, double>> out;
  for (const auto& [task, start] : started_) {
    out.emplace_back(core_.task(task).key, (loop_.now().mono - start).as_seconds());
  }
  return out;
}

void Driver::finished(const Job& job, Finished result) {
  started_.erase(job.task);
  const std::uint64_t nbytes = result.value.nbytes;
  Outcome outcome{std::move(result.type_name), std::move(result.type), result.start, result.stop,
                  result.thread};
  const ValueId id = store_.add(job.key, std::move(result.value), std::move(outcome), job.actor);
  step(ExecuteSuccess{job.task, job.run, id, nbytes}, stimulus("task-finished"));
  hooks_.value_added();
}

void Driver::failed(const Job& job, Failed failure) {
  started_.erase(job.task);
  failure_ = &failure;
  step(ExecuteFailure{job.task, job.run}, stimulus("task-erred"));
  failure_ = nullptr;
}

void Driver::rescheduled(const Job& job) {
  started_.erase(job.task);
  step(ExecuteReschedule{job.task}, stimulus("reschedule"));
}

void Driver::seceded(const Key& key, double compute_seconds) {
  if (const auto task = core_.find(key)) step(Secede{*task, compute_seconds}, stimulus("secede"));
}

void Driver::gathered(PeerId peer, std::vector<std::pair<Key, PayloadRef>> data) {
  std::vector<Gathered> values;
  for (auto& [key, payload] : data) {
    const std::uint64_t received = payload_bytes(*payload);
    // What the scheduler told is dask.sizeof of the value; the bytes on the wire are a stand-in.
    const auto task = core_.find(key);
    const std::uint64_t told = task ? core_.task(*task).nbytes : Task::kUnknownSize;
    const std::uint64_t nbytes = told == Task::kUnknownSize ? received : told;
    const ValueId id = store_.add(key, Value{nullptr, std::move(payload), nbytes}, {}, false);
    values.push_back(Gathered{key, id, received});
  }
  step(GatherDepSuccess{peer, values}, stimulus("gather-dep-success"));
  hooks_.value_added();
}

void Driver::gather_failed(PeerId peer, const std::string& text) {
  const Failed failure{protocol::str_payload(text), protocol::nil_payload(), text, "", 0, 0, 0};
  failure_ = &failure;
  step(GatherDepFailure{peer}, stimulus("gather-dep-failure"));
  failure_ = nullptr;
}

void Driver::put(Key key, Value value) {
  const std::uint64_t nbytes = value.nbytes;
  const ValueId id = store_.add(key, std::move(value), {}, false);
  const Scattered scattered{key, id, nbytes};
  step(UpdateData{{&scattered, 1}}, stimulus("update-data"));
  hooks_.value_added();
}

// ---- what the core asks for -------------------------------------------------------------------

void Driver::act(const GatherDep& a) {
  std::vector<Key> keys;
  for (const TaskId task : a.to_gather) keys.push_back(core_.task(task).key);
  hooks_.fetch(a.peer, core_.peer(a.peer).address, std::move(keys));
}

Input Driver::input(TaskId dependency, SpillRef& spilled) {
  const Task& task = core_.task(dependency);
  Input out{task.key, task.value, {}, task.actor};
  if (auto held = store_.get(task.value)) {
    out.value = std::move(held->value);
    out.actor = held->actor;
    spilled = std::move(held->spilled);
  }
  return out;
}

void Driver::act(const Execute& a) {
  const Task& task = core_.task(a.task);
  const auto& work = *static_cast<const Work*>(task.work.get());
  PendingJob pending{{a.task, a.run, task.key, work.spec, work.packed_spec, work.annotations,
                      task.actor, {}}, {}};
  for (const EdgeId edge : task.dependencies) {
    SpillRef spilled;
    pending.job.inputs.push_back(input(core_.state().tasks[edge].dependency, spilled));
    pending.spilled.push_back(std::move(spilled));
  }
  started_[a.task] = loop_.now().mono;
  if (work.named_executor) {
    ServiceEvent event;
    event.kind = ServiceEvent::Kind::job;
    event.job = std::move(pending.job);
    service_.push(std::move(event));
  } else {
    jobs_.push(std::move(pending));
  }
}

void Driver::act(const RetryBusyWorkerLater& a) {
  auto timer = std::make_shared<protocol::Timer>(loop_);
  timer->start(kBusyPauseMs, 0, [this, peer = a.peer, timer] {
    step(RetryBusyWorker{peer}, stimulus("retry-busy-worker"));
    loop_.defer([timer] {});  // a timer must not die inside its own call
  });
}

void Driver::act(const SendTaskFinished& a) {
  const Task& task = core_.task(a.task);
  const auto held = store_.get(task.value);
  if (!held) return;
  const Outcome& outcome = held->outcome;
  protocol::TaskFinished message;
  message.key = task.key;
  message.run_id = a.run.value;
  message.nbytes = held->value.nbytes;
  message.type = outcome.type.view();
  message.type_name = outcome.type_name;
  message.thread = static_cast<std::int64_t>(outcome.thread);
  message.startstops.push_back(
      {protocol::StartStop::Action::compute, outcome.start, outcome.stop, {}});
  message.stimulus_id = stimulus_;
  write(stream_.op(), message);
}

void Driver::act(const SendTaskErred& a) {
  static const Failed kUnknown{protocol::str_payload("unknown error"), protocol::nil_payload(),
                               "unknown error", "", 0, 0, 0};
  const Failed& failure = failure_ ? *failure_ : kUnknown;
  protocol::TaskErred message;
  message.key = core_.task(a.task).key;
  message.run_id = a.run.value;
  message.exception = failure.exception;
  message.traceback = failure.traceback ? failure.traceback : protocol::nil_payload();
  message.exception_text = failure.exception_text;
  message.traceback_text = failure.traceback_text;
  message.thread = static_cast<std::int64_t>(failure.thread);
  message.startstops.push_back(
      {protocol::StartStop::Action::compute, failure.start, failure.stop, {}});
  message.stimulus_id = stimulus_;
  write(stream_.op(), message);
}

void Driver::act(const SendReleaseWorkerData& a) {
  write(stream_.op(), protocol::ReleaseWorkerData{core_.task(a.task).key, stimulus_});
}

void Driver::act(const SendReschedule& a) {
  write(stream_.op(), protocol::Reschedule{core_.task(a.task).key, stimulus_});
}

void Driver::act(const SendLongRunning& a) {
  write(stream_.op(), protocol::LongRunning{core_.task(a.task).key, a.run.value, a.compute_seconds,
                                            stimulus_});
}

void Driver::act(const SendAddKeys& a) {
  write(stream_.op(), protocol::AddKeys{{core_.task(a.task).key}, stimulus_});
}

void Driver::act(const SendRequestRefreshWhoHas& a) {
  protocol::RequestRefreshWhoHas message;
  for (const TaskId task : a.tasks) message.keys.push_back(core_.task(task).key);
  message.stimulus_id = stimulus_;
  write(stream_.op(), message);
}

void Driver::act(const SendStealResponse& a) {
  const std::string_view state =
      a.state == TaskState::forgotten ? std::string_view{} : task_state_name(a.state);
  write(stream_.op(), protocol::StealResponse{a.key, state, stimulus_});
}

void Driver::act(const DropValue& a) { store_.drop(a.value); }

void Driver::act(const Note& a) {
  hooks_.log("state machine: note " + std::to_string(static_cast<int>(a.kind)) + " " +
             key_text(a.key));
}

}  // namespace worker
