#include "worker/shell/driver.h"

#include <charconv>
#include <memory>
#include <utility>

#include "protocol/wire/message.h"
#include "protocol/wire/messages_dense.h"
#include "worker/core/state.h"

namespace worker {

namespace {

constexpr std::uint64_t kBusyPauseMs = 150;
constexpr std::size_t kMostTypes = 4096;  //!< as the scheduler allows
constexpr protocol::Duration kBusyPause = protocol::Duration::ms(kBusyPauseMs);

std::uint64_t payload_bytes(const protocol::Payload& payload) {
  std::uint64_t bytes = 0;
  for (const Slice& frame : payload.frames) bytes += frame.size();
  return bytes > 0 ? bytes : payload.header.size();
}

}  // namespace

Driver::Driver(protocol::Loop& loop, Config config, std::size_t story_lines, Outlets outlets,
               Hooks hooks)
    : loop_(loop), core_(std::move(config)), to_(outlets), hooks_(std::move(hooks)),
      story_(story_lines), retry_(loop) {
  core_.observe_transitions(true);
}

void Driver::step(const Event& event, std::string_view stimulus) {
  // An action may lead to another step (a fetch that fails at once), so each has its own list.
  Actions actions = std::exchange(spare_, {});
  const std::string_view outer = std::exchange(stimulus_, stimulus);
  const protocol::Now now = loop_.now();
  step_time_ = now.wall;
  core_.step(event, stimulus, now, actions);
  for (const Action& action : actions) {
    std::visit([this](const auto& a) { act(a); }, action);
  }
  stimulus_ = outer;
  actions.clear();
  spare_ = std::move(actions);
  if (seen_.empty()) return;
  ServiceEvent told;
  told.kind = ServiceEvent::Kind::transitions;
  told.transitions = std::exchange(seen_, {});
  to_.service.push(std::move(told));
}

std::string Driver::stimulus(std::string_view cause) const {
  char digits[24];
  const auto micros = static_cast<std::uint64_t>(loop_.now().wall * 1e6);
  const auto end = std::to_chars(digits, digits + sizeof digits, micros).ptr;
  std::string name;
  name.reserve(cause.size() + 24);
  name.append(cause).push_back('-');
  name.append(digits, end - 6).push_back('.');
  return name.append(end - 6, end);
}

// ---- what executors say -----------------------------------------------------------------------

std::vector<std::pair<KeyView, double>> Driver::executing() const {
  std::vector<std::pair<KeyView, double>> out;
  for (const auto& [task, start] : started_) {
    out.emplace_back(core_.task(task).key, (loop_.now().mono - start).as_seconds());
  }
  return out;
}

void Driver::finished(TaskId task, RunId run, bool actor, Finished result) {
  started_.erase(task);
  ran_ = core_.task(task).work;
  const std::uint64_t nbytes = result.value.nbytes;
  const ValueId id = to_.store.add(Held{core_.task(task).key, std::move(result.value), nullptr,
                                        std::move(result.type), result.call, actor});
  step(ExecuteSuccess{task, run, id, nbytes}, stimulus("task-finished"));
  ran_ = nullptr;
  hooks_.value_added();
}

void Driver::failed(TaskId task, RunId run, Failed failure) {
  started_.erase(task);
  failure_ = &failure;
  ran_ = core_.task(task).work;
  step(ExecuteFailure{task, run}, stimulus("task-erred"));
  ran_ = nullptr;
  failure_ = nullptr;
}

void Driver::rescheduled(TaskId task) {
  started_.erase(task);
  step(ExecuteReschedule{task}, stimulus("reschedule"));
}

void Driver::seceded(const Key& key, double compute_seconds) {
  if (const auto task = core_.find(key)) step(Secede{*task, compute_seconds}, stimulus("secede"));
}

// ---- values that come by other ways -----------------------------------------------------------

void Driver::gathered(PeerId peer, std::vector<std::pair<Key, PayloadRef>> data, Transfer when) {
  std::vector<Gathered> values;
  TaskId cause;  // as in stock, one task answers for the whole transfer
  for (auto& [key, payload] : data) {
    const std::uint64_t received = payload_bytes(*payload);
    // What the scheduler told is dask.sizeof of the value; the bytes on the wire are a stand-in.
    const auto task = core_.find(key);
    const std::uint64_t told = task ? core_.task(*task).nbytes : Task::kUnknownSize;
    const std::uint64_t nbytes = told == Task::kUnknownSize ? received : told;
    if (task && !cause.valid() && core_.task(*task).first_dependent.valid()) {
      cause = core_.state().tasks[core_.task(*task).first_dependent].dependent;
    }
    const ValueId id = to_.store.add(
        Held{key, Value{nullptr, std::move(payload), nbytes}, nullptr, nullptr, {}, false});
    values.push_back(Gathered{key, id, received});
  }
  if (cause.valid()) {
    const auto* work = static_cast<const Work*>(core_.task(cause).work.get());
    if (work) work->transfers.push_back(std::move(when));
  }
  step(GatherDepSuccess{peer, values}, stimulus("gather-dep-success"));
  hooks_.value_added();
}

void Driver::gather_failed(PeerId peer, const std::string& text) {
  const Failed failure{protocol::str_payload(text), protocol::nil_payload(), text, "", {}};
  failure_ = &failure;
  step(GatherDepFailure{peer}, stimulus("gather-dep-failure"));
  failure_ = nullptr;
}

void Driver::put(Key key, Value value, TypeRef type) {
  const std::uint64_t nbytes = value.nbytes;
  const ValueId id =
      to_.store.add(Held{key, std::move(value), nullptr, std::move(type), {}, false});
  const Scattered scattered{key, id, nbytes};
  step(UpdateData{{&scattered, 1}}, stimulus("update-data"));
  hooks_.value_added();
}

void Driver::lost(ValueId value) {
  const Held* held = to_.store.peek(value);
  if (!held) return;
  const Key key = held->key;
  const auto task = core_.find(key);
  if (!task || core_.task(*task).value != value) return;
  const KeyView gone = key;
  // Not RemoveReplicas, which keeps what a running task uses: whoever needs the value next would be
  // sent here in vain until that task ends. What runs has a share of its own.
  step(FreeKeys{{&gone, 1}}, stimulus("lost-value"));
}

void Driver::described(ValueId value, TypeRef type) {
  to_.store.set_type(value, std::move(type));
  const auto waiting = undescribed_.extract(value.value);
  const Held* held = to_.store.peek(value);
  if (waiting.empty() || !held) return;
  const auto task = core_.find(held->key);
  if (!task || core_.task(*task).value != value) return;  // released since
  const std::string cause = stimulus("task-finished");
  const std::string_view outer = std::exchange(stimulus_, cause);
  send_finished(core_.task(*task), waiting.mapped(), *held);
  stimulus_ = outer;
}

// ---- what the core asks for -------------------------------------------------------------------

void Driver::act(const GatherDep& a) {
  std::vector<Key> keys;
  for (const TaskId task : a.to_gather) keys.push_back(core_.task(task).key);
  hooks_.fetch(a.peer, core_.peer(a.peer).address, std::move(keys));
}

Input Driver::input(TaskId dependency, bool lazy) {
  const Task& task = core_.task(dependency);
  Input out{task.key, task.value, {}, nullptr, task.actor};
  if (const Held* held = lazy ? nullptr : to_.store.get(task.value)) {
    out.value = held->value;
    out.actor = held->actor;
    out.spilled = held->spilled;
  }
  return out;
}

void Driver::act(const Execute& a) {
  const Task& task = core_.task(a.task);
  const auto& work = *static_cast<const Work*>(task.work.get());
  Job job{a.task,           a.run,      task.key,  work.spec, work.packed_spec,
          work.annotations, task.actor, work.lazy, {},        work.span};
  job.inputs.reserve(task.dependencies.size());
  for (const EdgeId edge : task.dependencies) {
    job.inputs.push_back(input(core_.state().tasks[edge].dependency, work.lazy));
  }
  started_[a.task] = loop_.now().mono;
  if (work.named_executor) {
    ServiceEvent event;
    event.kind = ServiceEvent::Kind::job;
    event.job = std::move(job);
    to_.service.push(std::move(event));
  } else {
    to_.jobs.push(std::move(job));
  }
}

void Driver::act(const RetryBusyWorkerLater& a) {
  paused_.emplace_back(loop_.now().mono + kBusyPause, a.peer);
  if (!retry_.active()) retry_.start(kBusyPauseMs, 0, [this] { retry_busy(); });
}

//! All pauses are of the same length, so the first to begin is the first to end.
void Driver::retry_busy() {
  while (!paused_.empty() && paused_.front().first <= loop_.now().mono) {
    const PeerId peer = paused_.front().second;
    paused_.pop_front();
    step(RetryBusyWorker{peer}, stimulus("retry-busy-worker"));
  }
  if (!paused_.empty()) retry_.start(kBusyPauseMs, 0, [this] { retry_busy(); });
}

void Driver::add_startstops(const Call& call, std::vector<protocol::StartStop>& out) const {
  using protocol::StartStop;
  if (const auto* work = static_cast<const Work*>(ran_.get())) {
    for (const Transfer& t : work->transfers) {
      out.push_back({StartStop::Action::transfer, t.start + clock_ahead_, t.stop + clock_ahead_,
                     t.source});
    }
  }
  out.push_back({StartStop::Action::compute, call.start + clock_ahead_, call.stop + clock_ahead_,
                 {}});
}

void Driver::act(const SendTaskFinished& a) {
  const Task& task = core_.task(a.task);
  const Held* held = to_.store.peek(task.value);
  if (!held) return;
  if (held->type) return send_finished(task, a.run, *held);
  // It came from a peer, and nobody here has looked at it yet.
  undescribed_[task.value.value] = a.run;
  to_.packs.push(PackRequest{PackRequest::Kind::describe, task.value, task.key, held->value,
                             held->actor});
}

//! False if it cannot be told in short: it fetched inputs, or there are too many classes.
bool Driver::send_densely(const Task& task, RunId run, const Held& held) {
  const auto* work = static_cast<const Work*>(ran_.get());
  if (!dense_ || (work != nullptr && !work->transfers.empty()) || held.type->name.empty()) {
    return false;
  }
  auto known = types_.find(held.type);
  const bool fresh = known == types_.end();
  if (fresh) {
    if (types_.size() >= kMostTypes) return false;
    known = types_.emplace(held.type, types_.size() + 1).first;
  }
  protocol::DenseFinished message;
  message.key = task.key;
  message.run_id = run.value;
  message.nbytes = held.value.nbytes;
  message.type = known->second;
  if (fresh) {
    message.type_pickle = held.type->pickle.view();
    message.type_name = held.type->name;
  }
  message.thread = static_cast<std::int64_t>(held.call.thread);
  message.start = held.call.start + clock_ahead_;
  message.stop = held.call.stop + clock_ahead_;
  message.stimulus_id = stimulus_;
  write(to_.stream.op(), message);
  return true;
}

void Driver::send_finished(const Task& task, RunId run, const Held& held) {
  if (send_densely(task, run, held)) return;
  protocol::TaskFinished message;
  message.key = task.key;
  message.run_id = run.value;
  message.nbytes = held.value.nbytes;
  message.type = held.type->pickle.view();
  message.type_name = held.type->name;
  message.thread = static_cast<std::int64_t>(held.call.thread);
  add_startstops(held.call, message.startstops);
  message.stimulus_id = stimulus_;
  write(to_.stream.op(), message);
}

void Driver::act(const SendTaskErred& a) {
  static const Failed kUnknown{protocol::str_payload("unknown error"), protocol::nil_payload(),
                               "unknown error", "", {}};
  const Task& task = core_.task(a.task);
  const Failed& failure = failure_ ? *failure_ : kUnknown;
  protocol::TaskErred message;
  message.key = task.key;
  message.run_id = a.run.value;
  message.exception = failure.exception;
  message.traceback = failure.traceback ? failure.traceback : protocol::nil_payload();
  message.exception_text = failure.exception_text;
  message.traceback_text = failure.traceback_text;
  message.thread = static_cast<std::int64_t>(failure.call.thread);
  add_startstops(failure.call, message.startstops);
  message.stimulus_id = stimulus_;
  write(to_.stream.op(), message);
}

void Driver::act(const SendReleaseWorkerData& a) {
  write(to_.stream.op(), protocol::ReleaseWorkerData{core_.task(a.task).key, stimulus_});
}

void Driver::act(const SendReschedule& a) {
  write(to_.stream.op(), protocol::Reschedule{core_.task(a.task).key, stimulus_});
}

void Driver::act(const SendLongRunning& a) {
  write(to_.stream.op(), protocol::LongRunning{core_.task(a.task).key, a.run.value,
                                               a.compute_seconds, stimulus_});
}

void Driver::act(const SendAddKeys& a) {
  write(to_.stream.op(), protocol::AddKeys{{core_.task(a.task).key}, stimulus_});
}

void Driver::act(const SendRequestRefreshWhoHas& a) {
  protocol::RequestRefreshWhoHas message;
  for (const TaskId task : a.tasks) message.keys.push_back(core_.task(task).key);
  message.stimulus_id = stimulus_;
  write(to_.stream.op(), message);
}

void Driver::act(const SendStealResponse& a) {
  const std::string_view state =
      a.state == TaskState::forgotten ? std::string_view{} : task_state_name(a.state);
  write(to_.stream.op(), protocol::StealResponse{a.key, state, stimulus_});
}

void Driver::act(const DropValue& a) {
  const Held* held = to_.store.peek(a.value);
  if (held && held->actor) {
    ServiceEvent event;
    event.kind = ServiceEvent::Kind::actor_gone;
    event.key = held->key;
    to_.service.push(std::move(event));
  }
  to_.store.drop(a.value);
}

void Driver::act(const Transitioned& a) {
  const Task& task = core_.task(a.task);
  story_.add(task.key, a.start, a.finish, stimulus_, step_time_);
  if (watched_) {
    seen_.push_back(Transition{task.key, a.start, a.finish, std::string(stimulus_), step_time_});
  }
}

void Driver::act(const Note& a) {
  hooks_.log("state machine: note " + std::to_string(static_cast<int>(a.kind)) + " " +
             key_text(a.key));
}

}  // namespace worker
