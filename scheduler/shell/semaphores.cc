#include "scheduler/shell/semaphores.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace scheduler {

Semaphores::Semaphore* Semaphores::find(std::string_view name) {
  const auto found = all_.find(name);
  return found == all_.end() ? nullptr : &found->second;
}

const Semaphores::Semaphore* Semaphores::find(std::string_view name) const {
  const auto found = all_.find(name);
  return found == all_.end() ? nullptr : &found->second;
}

std::int64_t Semaphores::create(std::string_view name, std::int64_t leases,
                                std::optional<double> timeout) {
  return all_.try_emplace(std::string(name), Semaphore{leases, timeout, {}, {}})
      .first->second.leases;
}

std::size_t Semaphores::held(std::string_view name) const {
  const Semaphore* semaphore = find(name);
  return semaphore ? semaphore->held.size() : 0;
}

Semaphores::Granted Semaphores::acquire(std::string_view name, std::string_view lease, double now,
                                        Gone gone) {
  Semaphore& semaphore = *find(name);
  Granted granted;
  if (semaphore.free() || semaphore.held.contains(std::string(lease))) {
    semaphore.held[std::string(lease)] = now;
    granted.complete(true);
  } else {
    semaphore.waiting.push_back({std::string(lease), granted, std::move(gone)});
  }
  return granted;
}

void Semaphores::give_up(std::string_view name, std::string_view lease) {
  if (Semaphore* semaphore = find(name)) {
    std::erase_if(semaphore->waiting, [&](const Waiter& waiter) { return waiter.lease == lease; });
  }
}

bool Semaphores::release(std::string_view name, std::string_view lease, double now) {
  Semaphore* semaphore = find(name);
  if (!semaphore || semaphore->held.erase(std::string(lease)) == 0) return false;
  grant(name, now);
  return true;
}

bool Semaphores::refresh(std::string_view name, std::string_view lease, double now) {
  Semaphore* semaphore = find(name);
  if (!semaphore) return false;
  return !semaphore->held.insert_or_assign(std::string(lease), now).second;
}

void Semaphores::close(std::string_view name) {
  const auto found = all_.find(name);
  if (found == all_.end()) return;
  const std::deque<Waiter> waiting = std::move(found->second.waiting);
  all_.erase(found);
  for (const Waiter& waiter : waiting) waiter.granted.complete(false);
}

void Semaphores::expire(double now) {
  std::vector<std::string> changed;
  for (auto& [name, semaphore] : all_) {
    if (!semaphore.timeout) continue;
    const auto late = [&](const auto& lease) { return now - lease.second > *semaphore.timeout; };
    if (std::erase_if(semaphore.held, late) > 0) changed.push_back(name);
  }
  for (const std::string& name : changed) grant(name, now);
}

void Semaphores::grant(std::string_view name, double now) {
  std::vector<std::pair<Granted, bool>> told;
  if (Semaphore* semaphore = find(name)) {
    while (semaphore->free() && !semaphore->waiting.empty()) {
      const Waiter first = std::move(semaphore->waiting.front());
      semaphore->waiting.pop_front();
      const bool stays = !first.gone();
      if (stays) semaphore->held[first.lease] = now;
      told.emplace_back(first.granted, stays);
    }
  }
  for (const auto& [granted, stays] : told) granted.complete(stays);
}

}  // namespace scheduler
