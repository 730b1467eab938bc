//! Registering plugins of workers and nannies.
//!
//! A plugin is kept for workers that come later, and handed to those that are there.
//!
//! Answers to: Scheduler.register_worker_plugin, register_nanny_plugin, their opposites, add_nanny.
#include "scheduler/shell/ask.h"
#include "scheduler/shell/rpc.h"
#include "scheduler/shell/server.h"
#include "scheduler/shell/stream.h"

namespace scheduler {

using protocol::MessageWriter;

namespace {

protocol::OutMessage plugin_message(std::string_view op, std::string_view name,
                                    const std::string_view* pickle) {
  MessageWriter out;
  out.map(pickle ? 4 : 3);
  out.field("op");
  out.str(op);
  out.field("name");
  out.str(name);
  if (pickle) {
    out.field("plugin");
    out.bin(*pickle);
  }
  out.field("reply");
  out.boolean(true);
  return out.finish();
}

Async<Reply> tell(Server& server, bool nannies, protocol::OutMessage message) {
  Question question(std::move(message));
  std::vector<Target> targets = all_workers(server, nannies);
  const auto answers = co_await ask_all(server, std::move(targets), std::move(question));
  for (const Answer& answer : answers) {
    if (answer.error) co_return Reply::raise(*answer.error);
  }
  co_return write_answers(answers);
}

Async<Reply> add(Server& server, Request request, bool nannies) {
  const std::string_view name = request.text("name");
  const auto pickle = request.get("plugin").as_bin();
  if (!pickle) co_return Reply::raise({"TypeError", "a plugin must be pickled bytes"});
  PluginList& list = nannies ? server.plugins.nanny : server.plugins.worker;
  server.log.info((nannies ? "Registering Nanny plugin " : "Registering Worker plugin ") +
                  std::string(name));
  if (request.flag("idempotent", false) && list.find(name) != nullptr) {
    co_return Reply::written([](MessageWriter& out) { out.map(0); });
  }
  list.set(name, *pickle);
  // A nanny that is just starting has the old list and no worker to find it by: wait for it.
  while (nannies && server.plugins.nannies_starting > 0) co_await sleep(server.loop, 0.02);
  protocol::OutMessage message =
      plugin_message(nannies ? "plugin_add" : "plugin-add", name, &*pickle);
  co_return co_await tell(server, nannies, std::move(message));
}

Async<Reply> remove(Server& server, Request request, bool nannies) {
  const std::string_view name = request.text("name");
  PluginList& list = nannies ? server.plugins.nanny : server.plugins.worker;
  if (!list.remove(name)) {
    co_return Reply::raise({"ValueError", std::string(nannies ? "The nanny plugin " : "The worker plugin ") +
                                              std::string(name) + " does not exist"});
  }
  protocol::OutMessage message =
      plugin_message(nannies ? "plugin_remove" : "plugin-remove", name, nullptr);
  co_return co_await tell(server, nannies, std::move(message));
}

}  // namespace

Async<Reply> rpc_register_worker_plugin(Server& server, Request request) {
  co_return co_await add(server, std::move(request), false);
}

Async<Reply> rpc_unregister_worker_plugin(Server& server, Request request) {
  co_return co_await remove(server, std::move(request), false);
}

Async<Reply> rpc_register_nanny_plugin(Server& server, Request request) {
  co_return co_await add(server, std::move(request), true);
}

Async<Reply> rpc_unregister_nanny_plugin(Server& server, Request request) {
  co_return co_await remove(server, std::move(request), true);
}

Async<Reply> rpc_register_nanny(Server& server, Request request) {
  ++server.plugins.nannies_starting;
  request.connection->send(Reply::written([&](MessageWriter& out) {
                             out.map(2);
                             out.field("status");
                             out.str("OK");
                             out.field("nanny-plugins");
                             out.map(static_cast<std::uint32_t>(server.plugins.nanny.size()));
                             for (const auto& [name, pickle] : server.plugins.nanny) {
                               out.str(name);
                               out.bin(pickle);
                             }
                           }).message());
  // The nanny says one more thing when its plugins are set up, or leaves.
  (void)co_await request.connection->read();
  --server.plugins.nannies_starting;
  request.connection->close();
  co_return Reply::taken_over();
}

}  // namespace scheduler
