//! Semaphores and locks by RPC: the questions, stock's words for refusals, and waiting.
//!
//! Answers to: distributed/semaphore.py, SemaphoreExtension.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scheduler/shell/rpc.h"
#include "scheduler/shell/server.h"

namespace scheduler {

using protocol::MessageWriter;

namespace {

constexpr double kLongestWait = 1e9;  //!< seconds; a timer cannot count to infinity

Reply truth(bool value) {
  return Reply::written([&](MessageWriter& out) { out.boolean(value); });
}

std::string name_of(const Request& request) { return std::string(request.text("name")); }

Reply unknown(std::string_view name) {
  return Reply::raise({"RuntimeError", fmt::format("Semaphore or Lock `{}` not known.", name)});
}

}  // namespace

Reply rpc_semaphore_register(Server& server, const Request& request) {
  const auto name = request.get("name").as_str();
  const auto leases = request.get("max_leases").as_int();
  if (!name || !leases) {
    return Reply::raise({"TypeError", "a semaphore has a text as its name and a number of leases"});
  }
  const auto timeout = request.get("lease_timeout").as_double();
  const std::int64_t there = server.semaphores.create(
      *name, *leases, timeout && *timeout > 0 ? std::optional<double>(*timeout) : std::nullopt);
  if (there == *leases) return Reply::nil();
  return Reply::raise(
      {"ValueError", fmt::format("Inconsistent max leases: {}, expected: {}", *leases, there)});
}

Async<Reply> rpc_semaphore_acquire(Server& server, Request request) {
  const std::string name = name_of(request), lease(request.text("lease_id"));
  if (!server.semaphores.known(name)) co_return unknown(name);
  const Semaphores::Granted granted = server.semaphores.acquire(
      name, lease, wall_time(), [peer = request.connection] { return peer->closed(); });
  protocol::Timer timer(server.loop);
  if (const auto seconds = protocol::as_seconds(request.get("timeout"));
      seconds && !granted.done()) {
    const double wait = std::clamp(*seconds, 0.0, kLongestWait);
    timer.start(static_cast<std::uint64_t>(std::ceil(wait * 1000)), 0,
                [granted] { granted.complete(false); });
  }
  const bool got = co_await granted;
  if (!got) server.semaphores.give_up(name, lease);
  co_return truth(got);
}

Reply rpc_semaphore_release(Server& server, const Request& request) {
  const std::string name = name_of(request);
  if (!server.semaphores.known(name)) {
    server.log.warning(
        fmt::format("Tried to release Lock or Semaphore `{}` but it is not known.", name));
  } else if (!server.semaphores.release(name, request.text("lease_id"), wall_time())) {
    server.log.warning(
        fmt::format("Tried to release Lock or Semaphore but it was already released: "
                    "name='{}', lease_id='{}'. This can happen if the Lock or "
                    "Semaphore timed out before.",
                    name, request.text("lease_id")));
  }
  return Reply::nil();
}

Reply rpc_semaphore_refresh_leases(Server& server, const Request& request) {
  const std::string name = name_of(request);
  for (const Value each : request.get("lease_ids").elements()) {
    const auto lease = each.as_str();
    if (!lease || !server.semaphores.known(name)) continue;
    if (server.semaphores.refresh(name, *lease, wall_time())) continue;
    server.log.warning(
        fmt::format("Refreshing an unknown lease ID {} for {}. This might be due to "
                    "leases timing out and may cause overbooking of the semaphore!",
                    *lease, name));
  }
  return Reply::nil();
}

Reply rpc_semaphore_close(Server& server, const Request& request) {
  server.semaphores.close(name_of(request));
  return Reply::nil();
}

Reply rpc_semaphore_value(Server& server, const Request& request) {
  const std::size_t held = server.semaphores.held(name_of(request));
  return Reply::written([&](MessageWriter& out) { out.uinteger(held); });
}

}  // namespace scheduler
