//! Telling observers; see watchers.h.
#include "scheduler/shell/watchers.h"

#include "scheduler/shell/identity.h"
#include "scheduler/shell/rpc.h"
#include "scheduler/shell/server.h"

namespace scheduler {

void StatusWatchers::add(protocol::Connection::Ref connection) {
  sweep();
  auto watcher = std::make_unique<protocol::StreamSender>();
  watcher->attach(std::move(connection));
  watchers_.push_back(std::move(watcher));
}

void StatusWatchers::sweep() {
  std::erase_if(watchers_, [](const auto& watcher) { return watcher->connection()->closed(); });
}

void StatusWatchers::added(Server& server, const WorkerPeer& worker) {
  sweep();
  for (const auto& watcher : watchers_) {
    protocol::MessageWriter& out = watcher->op();
    out.array(2);
    out.str("add");
    out.map(1);
    out.field("workers");
    out.map(1);
    out.str(worker.address);
    protocol::write(out, identity_of(server, worker, false));
  }
}

void StatusWatchers::removed(const WorkerPeer& worker) {
  sweep();
  for (const auto& watcher : watchers_) {
    protocol::MessageWriter& out = watcher->op();
    out.array(2);
    out.str("remove");
    out.str(worker.address);
  }
}

Async<Reply> rpc_subscribe_worker_status(Server& server, Request request) {
  protocol::MessageWriter out;
  write_identity(out, server, -1, false);
  request.connection->send(out.finish());
  server.watchers.add(request.connection);
  // Nothing more is expected from the observer; wait for its end.
  while (co_await request.connection->read()) {
  }
  co_return Reply::taken_over();
}

}  // namespace scheduler
