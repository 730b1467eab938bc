//! One step: hand the event to its room, settle what follows, start transfers, settle again.
#include "worker/core/core.h"

#include <utility>

#include "worker/core/state.h"

namespace worker {

Core::Core(Config config) : state_(std::make_unique<State>(std::move(config))) {}
Core::~Core() = default;

void Core::step(const Event& event, std::string_view, Now, Actions& out) {
  State& s = *state_;
  s.out = &out;
  s.tasks.recycle();
  std::visit([&s](const auto& e) { on_event(s, e); }, event);
  settle(s);
  // Only now, when every task that wants fetching says so: few large messages, not many small.
  ensure_communicating(s);
  settle(s);
  for (const Offer& offer : s.offers) {
    if (!offer.taken) s.emit(DropValue{offer.task, offer.value});
  }
  s.offers.clear();
  s.out = nullptr;
}

void Core::observe_transitions(bool on) { state_->observed = on; }

std::optional<TaskId> Core::find(KeyView key) const { return state_->tasks.find(key); }
const Task& Core::task(TaskId id) const { return state_->tasks[id]; }
const Peer& Core::peer(PeerId id) const { return state_->peers[id]; }
std::optional<PeerId> Core::find_peer(std::string_view address) const {
  return state_->peers.find(address);
}

bool Core::running() const { return state_->running; }
std::uint64_t Core::nbytes() const { return state_->nbytes; }
std::uint32_t Core::count(TaskState state) const {
  return state_->counts[static_cast<std::size_t>(state)];
}
std::uint32_t Core::executing_count() const { return state_->executing_count; }
std::uint32_t Core::transfer_incoming_count() const { return state_->transfer_incoming_count; }
std::uint64_t Core::transfer_incoming_bytes() const { return state_->transfer_incoming_bytes; }
std::uint64_t Core::transfer_incoming_count_total() const {
  return state_->transfer_incoming_count_total;
}
std::uint64_t Core::executed_count() const { return state_->executed_count; }

std::vector<TaskId> Core::tasks() const {
  std::vector<TaskId> out;
  for (std::uint32_t i = 0; i < state_->tasks.slots(); ++i) {
    if (state_->tasks.has(TaskId(i))) out.push_back(TaskId(i));
  }
  return out;
}

const std::vector<ResourceLevel>& Core::resources() const { return state_->resources; }
const State& Core::state() const { return *state_; }
std::vector<std::string> Core::validate() const { return worker::validate(*state_); }

}  // namespace worker
