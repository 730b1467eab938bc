//! Registering plugins of the scheduler: what Client.upload_file brings, and nothing else yet.
//!
//! A plugin is a pickle and is never opened here. The graph processes open it: it is a file for
//! them to import, or else they refuse it by name. The answer waits for one of them, so that the
//! graphs its client sends next find the module.
//!
//! Answers to: Scheduler.register_scheduler_plugin, unregister_scheduler_plugin.
#include <fmt/format.h>

#include "protocol/wire/shared_memory.h"
#include "scheduler/shell/rpc.h"
#include "scheduler/shell/server.h"
#include "scheduler/shell/stream.h"

namespace scheduler {

using protocol::MessageWriter;
using protocol::Slice;

namespace {

Reply raise(const GraphError& error) {
  return Reply::written([&](MessageWriter& out) {
    protocol::write(
        out, protocol::ErrorReply{protocol::ErrorStatus::uncaught, error.exception, error.traceback,
                                  error.exception_text, error.traceback_text});
  });
}

//! The pickle outlives its message; a large one is copied beside the loop, where it can be shared.
Async<Slice> kept_copy(Server& server, protocol::ByteView pickle) {
  if (pickle.size() < kLargeHeader) co_return Slice::copy_of(pickle);
  std::optional<Slice> copy;
  const auto work = [&] { copy = protocol::shared_copy_of(pickle); };
  co_await offload(server.loop, work);
  co_return copy ? std::move(*copy) : Slice::copy_of(pickle);
}

}  // namespace

Async<Reply> rpc_register_scheduler_plugin(Server& server, Request request) {
  const auto pickle = request.get("plugin").as_bin();
  if (!pickle) co_return Reply::raise({"TypeError", "a plugin must be pickled bytes"});
  std::string name(request.text("name"));
  const bool idempotent = request.flag("idempotent", false);
  auto& known = server.plugins.scheduler;
  if (idempotent && !name.empty() && known.contains(name)) co_return Reply::nil();
  Slice plugin = co_await kept_copy(server, *pickle);
  const auto abandoned = [peer = request.connection] { return peer->closed(); };
  const auto done = server.graphs.load(std::move(plugin), abandoned);
  const GraphIntake::Loaded loaded = co_await done;
  if (loaded.error) {
    server.log.error(loaded.error->exception_text);
    co_return raise(*loaded.error);
  }
  if (name.empty()) name = loaded.name;
  const auto there = known.find(name);
  if (there != known.end() && idempotent) {
    server.graphs.forget(loaded.id);
    co_return Reply::nil();
  }
  if (there != known.end()) {
    server.log.warning(
        fmt::format("Scheduler already contains a plugin with name {}; overwriting.", name));
    server.graphs.forget(there->second);
  }
  known[name] = loaded.id;
  co_return Reply::nil();
}

Reply rpc_unregister_scheduler_plugin(Server& server, const Request& request) {
  const std::string_view name = request.text("name");
  const auto found = server.plugins.scheduler.find(name);
  if (found == server.plugins.scheduler.end()) {
    return Reply::raise(
        {"ValueError", fmt::format("Could not find plugin {} among the current scheduler plugins",
                                   protocol::key_repr(protocol::string_key(name).view()))});
  }
  server.graphs.forget(found->second);
  server.plugins.scheduler.erase(found);
  return Reply::nil();
}

}  // namespace scheduler
