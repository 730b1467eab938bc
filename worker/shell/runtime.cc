//! Python's threads at the border: they take the loop's turn, or wait at a queue.
#include "worker/shell/runtime.h"

#include <unistd.h>
#include <uv.h>

#include <chrono>
#include <utility>

#include "worker/shell/loop_thread.h"
#include "worker/shell/task_view.h"

namespace worker {

using protocol::Result;
using protocol::Status;

namespace {

constexpr std::uint64_t kKeepPackedBelow = 1u << 20;
constexpr std::chrono::milliseconds kDropPatience{10};

std::uint64_t frame_bytes(const protocol::Payload& payload) {
  std::uint64_t bytes = 0;
  for (const Slice& frame : payload.frames) bytes += frame.size();
  return bytes;
}

//! Brings an input back from disk if that is where it is.
Status from_disk(Input& input) {
  if (input.value.live || input.value.packed || input.actor) return protocol::Done{};
  if (!input.spilled) return protocol::Error{protocol::Fault::closed, "the value is gone"};
  Result<PayloadRef> read = input.spilled->read();
  if (!read) return read.error();
  input.value.packed = std::move(*read);
  return protocol::Done{};
}

}  // namespace

Runtime::Runtime(Options options) : home_(std::make_unique<LoopThread>(std::move(options))) {}

Runtime::~Runtime() {
  if (home_) stop();
}

// ---- life ---------------------------------------------------------------------------------------

Status Runtime::listen(std::uint16_t port) {
  const Status status = home_->open(port);
  if (status) home_->thread = std::thread([home = home_.get()] { home->loop.run(home->turn); });
  return status;
}

void Runtime::start() { Turn(*home_)->link.start(home_->address); }

void Runtime::run() {
  const Turn turn(*home_);
  home_->run();
}

void Runtime::set_status(std::string status) {
  const Turn turn(*home_);
  if (home_->parts) home_->set_status(status, "worker-status-change");
  if (status == "closing") home_->jobs.close();
}

void Runtime::set_memory(MemoryBounds bounds) {
  const Turn turn(*home_);
  home_->options.memory = bounds;
}

void Runtime::set_resources(std::vector<std::pair<std::string, double>> totals) {
  std::vector<Resource> amounts(totals.begin(), totals.end());
  Turn(*home_)->driver.step(SetResources{amounts}, "set-resources");
}

void Runtime::stop() {
  home_->jobs.close();
  home_->packs.close();
  if (!home_->thread.joinable()) return;
  {
    const Turn turn(*home_);
    home_->shut();
  }
  home_->thread.join();
}

void Runtime::before_fork() { home_->turn.lock(); }

void Runtime::after_fork_in_parent() { home_->turn.unlock(); }

void Runtime::after_fork_in_child() {
  // The loop's thread does not exist here, so nothing may run it down; only its sockets go.
  uv_walk(home_->loop.uv(), [](uv_handle_t* handle, void*) {
    uv_os_fd_t fd;
    if (uv_fileno(handle, &fd) == 0) ::close(fd);
  }, nullptr);
  ::close(uv_backend_fd(home_->loop.uv()));
  home_.release();  // NOLINT: leaked on purpose, the parent owns what it points to
}

// ---- executors ----------------------------------------------------------------------------------

Status Runtime::pin_executor() {
  return home_->topology.pin(home_->options.pin, home_->executors++);
}

std::optional<Job> Runtime::next_job() {
  while (auto job = home_->jobs.pop()) {
    if (read_inputs(*job)) return job;
  }
  return std::nullopt;
}

bool Runtime::read_inputs(Job& job) {
  if (job.lazy) return true;
  for (Input& input : job.inputs) {
    if (from_disk(input)) continue;
    // A damaged replica is a lost one: the scheduler has the value made again.
    Turn turn(*home_);
    turn->driver.rescheduled(job.task);
    turn->driver.lost(input.id);
    return false;
  }
  return true;
}

std::optional<std::pair<Input, bool>> Runtime::read_input(Job& job, std::size_t number) {
  if (number >= job.inputs.size()) return std::nullopt;
  Input input = job.inputs[number];
  {
    // Not counted as a use: who walks along many values needs the latest of them again last.
    Turn turn(*home_);
    const Held* held = home_->store.peek(input.id);
    if (!held) {
      // It may have left and come back, then it has another number.
      const auto task = turn->driver.core().find(input.key);
      if (task) input.id = turn->driver.core().task(*task).value;
      held = home_->store.peek(input.id);
    }
    if (held) {
      input.value = held->value;
      input.spilled = held->spilled;
      input.actor = held->actor;
    }
  }
  const bool spilled = !input.value.live && !input.value.packed;
  if (!from_disk(input)) {
    job.lost.push_back(input.id);
    return std::nullopt;
  }
  return std::pair(std::move(input), spilled);
}

LiveRef Runtime::live_input(const Job& job, std::size_t number) const {
  const std::unique_lock lock(home_->turn, std::try_to_lock);
  if (!lock || number >= job.inputs.size()) return nullptr;
  const Held* held = home_->store.peek(job.inputs[number].id);
  return held && !held->actor ? held->value.live : nullptr;
}

void Runtime::interrupt_executor() { home_->jobs.interrupt(); }

void Runtime::finished(const Job& job, Finished result) {
  home_->meter.finished(job, result.call);
  Turn turn(*home_);
  turn->driver.finished(job.task, job.run, job.actor, std::move(result));
  turn.set_urgent(home_->jobs.empty() || home_->runs_low());
}

void Runtime::failed(const Job& job, Failed failure) {
  home_->meter.failed(job, failure.call);
  Turn(*home_)->driver.failed(job.task, job.run, std::move(failure));
}

void Runtime::rescheduled(const Job& job) {
  Turn turn(*home_);
  turn->driver.rescheduled(job.task);
  // Not before: what a running task needs is not given up.
  for (const ValueId value : job.lost) turn->driver.lost(value);
}

void Runtime::seceded(const Key& key, double compute_seconds) {
  Turn(*home_)->driver.seceded(key, compute_seconds);
}

void Runtime::set_live(ValueId value, LiveRef live, bool keep_packed) {
  const Turn turn(*home_);
  home_->store.set_live(value, std::move(live), keep_packed);
}

void Runtime::set_live_if_room(ValueId value, LiveRef live, bool keep_packed) {
  Turn turn(*home_);
  const Held* held = home_->store.peek(value);
  if (held && turn->spiller.has_room(held->value.nbytes)) {
    home_->store.set_live(value, std::move(live), keep_packed);
  }
}

// ---- pack thread ----------------------------------------------------------------------------------

std::optional<std::vector<PackRequest>> Runtime::next_packs(
    const std::function<bool()>& has_drops) {
  auto requests = home_->packs.pop_all();
  while (requests.empty() && !home_->packs.closed()) {
    // Executors drop between jobs what is dead; to ask for the GIL at once only takes it from them.
    home_->packs.linger(kDropPatience);
    if (has_drops()) return std::vector<PackRequest>();
    requests = home_->packs.pop_all();
  }
  if (requests.empty()) return std::nullopt;
  std::vector<PackRequest> out;
  for (PackRequest& request : requests) {
    if (request.kind == PackRequest::Kind::pack || find_value(request)) {
      out.push_back(std::move(request));
    }
  }
  return out;
}

//! What is to be described may have been spilled since. False: it is gone.
bool Runtime::find_value(PackRequest& request) {
  Input input{request.key, request.id, request.value, nullptr, request.actor};
  {
    const Turn turn(*home_);
    const Held* held = home_->store.peek(request.id);
    if (!held) return false;
    input.spilled = held->spilled;
  }
  if (!from_disk(input)) return false;
  request.value = std::move(input.value);
  return true;
}

void Runtime::wake_pack() { home_->packs.interrupt(); }

void Runtime::packed(std::vector<PackAnswer> answers) {
  Turn turn(*home_);
  for (PackAnswer& answer : answers) {
    if (answer.failure.empty() && frame_bytes(*answer.bytes) <= kKeepPackedBelow) {
      home_->store.set_packed(answer.id, answer.bytes);
    }
    turn->packer.packed(answer.id, Packed{std::move(answer.bytes), std::move(answer.failure)});
  }
}

void Runtime::described(ValueId value, TypeRef type) {
  Turn(*home_)->driver.described(value, std::move(type));
}

// ---- service loop -----------------------------------------------------------------------------

int Runtime::service_fd() const { return home_->service.fd(); }

std::vector<ServiceEvent> Runtime::take_service_events() { return home_->service.take(); }

void Runtime::reply(std::uint64_t token, std::vector<Slice> frames, bool close) {
  Turn(*home_)->server.reply(token, std::move(frames), close);
}

void Runtime::send_to_scheduler(std::vector<Slice> frames) {
  Turn turn(*home_);
  protocol::Message message;
  if (!message.reset(std::move(frames))) return;
  // Python made these frames a moment ago: a marker that lies about them would be our own bug.
  if (!turn->stream.op().value(message, message.root())) {
    home_->tell(ServiceEvent::Kind::log, "a message to the scheduler could not be sent");
  }
}

void Runtime::claim_op(std::string op) { Turn(*home_)->server.claim_op(std::move(op)); }

void Runtime::offer_heartbeat(HeartbeatOffer offer) {
  Turn(*home_)->link.offer(std::move(offer));
}

void Runtime::watch_transitions(bool on) { Turn(*home_)->driver.watch_transitions(on); }

// ---- what the worker holds and does -------------------------------------------------------------

std::vector<Key> Runtime::keys() const {
  Turn turn(*home_);
  const Core& core = turn->driver.core();
  std::vector<Key> out;
  for (const TaskId id : core.tasks()) {
    if (core.task(id).value.valid()) out.push_back(core.task(id).key);
  }
  return out;
}

bool Runtime::holds(const Key& key) const {
  Turn turn(*home_);
  const auto task = turn->driver.core().find(key);
  return task && turn->driver.core().task(*task).value.valid();
}

std::optional<Input> Runtime::value(const Key& key) const {
  Input input;
  {
    Turn turn(*home_);
    const auto task = turn->driver.core().find(key);
    if (!task) return std::nullopt;
    input.id = turn->driver.core().task(*task).value;
    const Held* held = home_->store.get(input.id);
    if (!held) return std::nullopt;
    input.value = held->value;
    input.spilled = held->spilled;
  }
  if (!from_disk(input)) return std::nullopt;
  return input;
}

void Runtime::put(const Key& key, Value value, TypeRef type) {
  Turn(*home_)->driver.put(key, std::move(value), std::move(type));
}

std::vector<Spent> Runtime::take_spent() { return home_->meter.take(); }

void Runtime::skip_cpu() { Meter::skip(); }

void Runtime::told_seconds(double seconds) { Meter::told(seconds); }

Slice Runtime::metrics() const { return Turn(*home_)->link.metrics(); }

std::vector<std::pair<std::string_view, std::uint64_t>> Runtime::counts() const {
  Turn turn(*home_);
  std::vector<std::pair<std::string_view, std::uint64_t>> out;
  for (std::size_t i = 0; i < kTaskStates; ++i) {
    const auto state = static_cast<TaskState>(i);
    out.emplace_back(task_state_name(state), turn->driver.core().count(state));
  }
  return out;
}

std::vector<std::pair<std::string_view, std::uint64_t>> Runtime::levels() const {
  Turn turn(*home_);
  const Core& core = turn->driver.core();
  const PeerServer& server = turn->server;
  return {{"nbytes", core.nbytes()},
          {"executed_count", core.executed_count()},
          {"transfer_incoming_count", core.transfer_incoming_count()},
          {"transfer_incoming_bytes", core.transfer_incoming_bytes()},
          {"transfer_incoming_count_total", core.transfer_incoming_count_total()},
          {"transfer_outgoing_count", server.outgoing_count()},
          {"transfer_outgoing_bytes", server.outgoing_bytes()},
          {"transfer_outgoing_count_total", server.outgoing_count_total()},
          {"transfer_outgoing_bytes_total", server.outgoing_bytes_total()},
          {"bandwidth", static_cast<std::uint64_t>(turn->fetcher.bandwidth())},
          {"spilled_memory", home_->store.slow_bytes()},
          {"spilled_disk", home_->store.disk_bytes()}};
}

std::vector<std::pair<std::string, double>> Runtime::available_resources() const {
  Turn turn(*home_);
  std::vector<std::pair<std::string, double>> out;
  for (const ResourceLevel& level : turn->driver.core().resources()) {
    out.emplace_back(level.name, level.available);
  }
  return out;
}

std::vector<Key> Runtime::tasks() const {
  Turn turn(*home_);
  std::vector<Key> out;
  for (const TaskId id : turn->driver.core().tasks()) {
    out.push_back(turn->driver.core().task(id).key);
  }
  return out;
}

std::optional<TaskView> Runtime::task(const Key& key) const {
  Turn turn(*home_);
  const auto id = turn->driver.core().find(key);
  if (!id) return std::nullopt;
  return view_task(turn->driver.core(), *id);
}

std::vector<Transition> Runtime::story() const { return Turn(*home_)->driver.story().read(); }

std::string Runtime::address() const { return home_->address; }

}  // namespace worker
