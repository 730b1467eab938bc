//! Semaphores and locks that clients and tasks share, by name.
//!
//! A semaphore hands out a number of leases. Whoever holds one says so again and again; a lease
//! that nobody spoke for within the semaphore's timeout is taken back. Those who wait get theirs in
//! the order in which they came.
//!
//! Invariant: somebody waits only while all leases are out.
//!
//! Answers to: distributed/semaphore.py, SemaphoreExtension.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "protocol/net/async.h"

namespace scheduler {

class Semaphores {
 public:
  //! Completed with true when the lease is there, with false when it will never be.
  using Granted = protocol::Completer<bool>;
  using Gone = std::function<bool()>;

  //! Makes a semaphore, unless there is one of this name. Gives the number of leases it has.
  std::int64_t create(std::string_view name, std::int64_t leases, std::optional<double> timeout);
  bool known(std::string_view name) const { return find(name) != nullptr; }
  std::size_t held(std::string_view name) const;

  //! A lease at once, or a place in the line. Asking again for a lease one has is no second one.
  //! `gone` tells later whether the one who waits has left. The semaphore must be known.
  Granted acquire(std::string_view name, std::string_view lease, double now, Gone gone);
  //! Leaves the line.
  void give_up(std::string_view name, std::string_view lease);
  //! False: there is no such lease.
  bool release(std::string_view name, std::string_view lease, double now);
  //! The holder still has it. False: it was taken back, or never given; it counts from now on.
  bool refresh(std::string_view name, std::string_view lease, double now);
  //! Forgets the semaphore; who waits for it waits in vain.
  void close(std::string_view name);
  //! Takes back leases that nobody spoke for.
  void expire(double now);

 private:
  struct Waiter {
    std::string lease;
    Granted granted;
    Gone gone;
  };
  struct Semaphore {
    std::int64_t leases;
    std::optional<double> timeout;
    std::unordered_map<std::string, double> held;  //!< lease -> when it was last heard of
    std::deque<Waiter> waiting;

    bool free() const { return static_cast<std::int64_t>(held.size()) < leases; }
  };

  Semaphore* find(std::string_view name);
  const Semaphore* find(std::string_view name) const;
  //! Leases that are free go to those who wait. The semaphore may be gone afterwards: who is told
  //! may do anything.
  void grant(std::string_view name, double now);

  std::map<std::string, Semaphore, std::less<>> all_;
};

}  // namespace scheduler
