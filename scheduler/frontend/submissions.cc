//! See submissions.h.
#include "scheduler/frontend/submissions.h"

#include <algorithm>

namespace scheduler {

Submissions::Queue& Submissions::queue_of(ClientId client) {
  for (Queue& queue : waiting_) {
    if (queue.client == client) return queue;
  }
  return waiting_.emplace_back(Queue{client, {}});
}

void Submissions::add(std::unique_ptr<GraphSubmission> submission) {
  queue_of(submission->client).held.push_back(std::move(submission));
}

Submissions::Held Submissions::remove_child(ChildId child) {
  Held held = std::move(children_.at(child).held);
  children_.erase(child);
  return held;
}

void Submissions::put_back(Held submissions) {
  for (auto it = submissions.rbegin(); it != submissions.rend(); ++it) {
    (*it)->decoder.reset();
    queue_of((*it)->client).held.push_front(std::move(*it));
  }
}

std::optional<ChildId> Submissions::idle_child() const {
  for (const auto& [id, child] : children_) {
    if (child.idle()) return id;
  }
  return std::nullopt;
}

std::optional<ChildId> Submissions::child_of(ClientId client) const {
  for (const auto& [id, child] : children_) {
    for (const auto& submission : child.held) {
      if (submission->client == client) return id;
    }
  }
  return std::nullopt;
}

std::optional<Submissions::Assignment> Submissions::assign(bool may_grow) {
  bool somebody_waits = false;
  for (auto queue = waiting_.begin(); queue != waiting_.end(); ++queue) {
    auto child = child_of(queue->client);
    const bool stands_back = somebody_waits && !may_grow;
    if (child && (children_.at(*child).held.size() >= kPipelined || stands_back)) continue;
    if (child && children_.at(*child).closed) continue;
    if (!child) child = idle_child();
    if (!child) {
      somebody_waits = true;
      continue;
    }
    Held& held = children_.at(*child).held;
    held.push_back(std::move(queue->held.front()));
    queue->held.pop_front();
    if (queue->held.empty()) waiting_.erase(queue);
    return Assignment{*child, held.back().get()};
  }
  return std::nullopt;
}

GraphSubmission* Submissions::current(ChildId child) {
  Held& held = children_.at(child).held;
  return held.empty() ? nullptr : held.front().get();
}

std::pair<Submissions::Where, ChildId> Submissions::drop(SubmissionId id) {
  const auto is_it = [id](const auto& submission) { return submission->id == id; };
  for (auto queue = waiting_.begin(); queue != waiting_.end(); ++queue) {
    auto found = std::find_if(queue->held.begin(), queue->held.end(), is_it);
    if (found == queue->held.end()) continue;
    queue->held.erase(found);
    if (queue->held.empty()) waiting_.erase(queue);
    return {Where::waiting, 0};
  }
  for (auto& [child, place] : children_) {
    auto found = std::find_if(place.held.begin(), place.held.end(), is_it);
    if (found == place.held.end()) continue;
    (*found)->dropped = true;
    return {found == place.held.begin() ? Where::current : Where::sent, child};
  }
  return {Where::nowhere, 0};
}

bool Submissions::stranded() const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [this](const Queue& queue) { return !child_of(queue.client); });
}

Submissions::Held Submissions::take_waiting() {
  Held all;
  for (Queue& queue : waiting_) {
    std::move(queue.held.begin(), queue.held.end(), std::back_inserter(all));
  }
  waiting_.clear();
  return all;
}

}  // namespace scheduler
