//! Small typed integers for everything that is counted: tasks, workers, clients, runs.
//!
//! Strings (keys, addresses, client names) are looked up once where a message enters; from then
//! on the cores use these. A WorkerId names an incarnation: a worker that comes back at the same
//! address is a new id, and ids of workers and clients are never used again.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace protocol {

template <class Tag, class Rep = std::uint32_t>
struct Id {
  Rep value = kNone;
  static constexpr Rep kNone = static_cast<Rep>(-1);

  constexpr Id() = default;
  constexpr explicit Id(Rep v) : value(v) {}
  constexpr bool valid() const { return value != kNone; }
  constexpr auto operator<=>(const Id&) const = default;

  template <class H>
  friend H AbslHashValue(H h, Id id) {
    return H::combine(std::move(h), id.value);
  }
};

using TaskId = Id<struct TaskTag>;
using WorkerId = Id<struct WorkerTag>;
using ClientId = Id<struct ClientTag>;
using SubmissionId = Id<struct SubmissionTag>;  //!< one update-graph message
using RunId = Id<struct RunTag, std::uint64_t>; //!< one attempt to run a task; grows, never repeats

}  // namespace protocol

template <class Tag, class Rep>
struct std::hash<protocol::Id<Tag, Rep>> {
  std::size_t operator()(protocol::Id<Tag, Rep> id) const noexcept {
    return std::hash<Rep>{}(id.value);
  }
};
