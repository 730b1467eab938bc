//! Questions about the cluster: who is there, what lies where.
//!
//! Answers to: identity, get_ncores, get_who_has, get_has_what, get_processing, get_nbytes,
//! versions and get_logs of distributed/scheduler.py and node.py.
#include <absl/container/flat_hash_map.h>

#include <map>

#include "scheduler/core/state.h"
#include "scheduler/shell/identity.h"
#include "scheduler/shell/rpc.h"
#include "scheduler/shell/server.h"
#include "scheduler/shell/translate_in.h"

namespace scheduler {

using protocol::KeyView;
using protocol::MessageWriter;

namespace {

//! Workers named by a call, with the spelling of the answer; all if none is named.
std::vector<std::pair<std::string_view, WorkerPeer*>> named_workers(Server& server,
                                                                    const Request& request) {
  std::vector<std::pair<std::string_view, WorkerPeer*>> out;
  const Value names = request.get("workers");
  if (names.exists()) {
    for (const Value name : names.elements()) {
      WorkerPeer* worker = server.find_worker(name);
      out.emplace_back(worker ? std::string_view(worker->address) : name.as_str().value_or(""),
                       worker);
    }
  } else {
    for (const auto& [id, worker] : server.peers.workers()) {
      out.emplace_back(worker->address, worker.get());
    }
  }
  return out;
}

KeyView spelled(const Core& core, TaskId task) { return KeyView{core.task(task).spelled_key()}; }

//! {address: [key…]} of the workers named by the call.
template <class KeysOf>
Reply keys_by_worker(Server& server, const Request& request, const KeysOf& keys_of) {
  return Reply::written([&](MessageWriter& out) {
    const auto workers = named_workers(server, request);
    out.map(static_cast<std::uint32_t>(workers.size()));
    for (const auto& [address, worker] : workers) {
      out.str(address);
      const std::vector<TaskId> tasks = worker ? keys_of(worker->id) : std::vector<TaskId>{};
      out.array(static_cast<std::uint32_t>(tasks.size()));
      for (const TaskId task : tasks) out.key(spelled(server.core, task));
    }
  });
}

void write_addresses(MessageWriter& out, const Core& core, const Task& task) {
  out.array(static_cast<std::uint32_t>(task.who_has.size()));
  for (const Replica& replica : task.who_has) out.str(core.worker(replica.worker).address);
}

}  // namespace

Reply rpc_identity(Server& server, const Request& request) {
  protocol::IdentityCall call;
  if (auto read = request.read(call); !read) return Reply::raise(read.error());
  return Reply::written(
      [&](MessageWriter& out) { write_identity(out, server, call.n_workers, true); });
}

Reply rpc_echo(Server&, const Request& request) {
  const Value data = request.body().find("data");
  MessageWriter out;
  if (!data.exists()) return Reply::raise({"TypeError", "echo() needs 'data'"});
  if (auto written = out.value(*request.message, data); !written) {
    return Reply::raise(written.error());
  }
  return out.finish();
}

Reply rpc_ping(Server&, const Request&) {
  return Reply::written([](MessageWriter& out) { out.bin("pong"); });
}

Reply rpc_ncores(Server& server, const Request& request) {
  const bool running_only = request.call.op == protocol::Op::ncores_running;
  std::vector<std::pair<std::string_view, std::uint64_t>> counts;
  for (const auto& [address, worker] : named_workers(server, request)) {
    if (worker == nullptr) continue;
    if (running_only && !server.core.worker(worker->id).running()) continue;
    counts.emplace_back(address, worker->nthreads);
  }
  return Reply::written([&](MessageWriter& out) { protocol::write_counts(out, counts); });
}

Reply rpc_who_has(Server& server, const Request& request) {
  protocol::KeysCall call;
  if (auto read = request.read(call); !read) return Reply::raise(read.error());
  const Core& core = server.core;
  return Reply::written([&](MessageWriter& out) {
    if (!call.has_keys) {
      std::vector<TaskId> all;
      core.state().tasks.for_each([&](TaskId id, const Task& task) {
        if (core.state().visible(task)) all.push_back(id);
      });
      out.map(static_cast<std::uint32_t>(all.size()));
      for (const TaskId id : all) {
        out.key(spelled(core, id));
        write_addresses(out, core, core.task(id));
      }
      return;
    }
    out.map(static_cast<std::uint32_t>(call.keys.size()));
    for (const KeyView key : call.keys) {
      const auto id = core.find(key);
      out.key(id ? spelled(core, *id) : key);
      if (id) {
        write_addresses(out, core, core.task(*id));
      } else {
        out.array(0);
      }
    }
  });
}

Reply rpc_has_what(Server& server, const Request& request) {
  return keys_by_worker(server, request, [&](WorkerId worker) {
    return server.core.state().has_what_in_order(worker);
  });
}

Reply rpc_processing(Server& server, const Request& request) {
  return keys_by_worker(server, request,
                        [&](WorkerId worker) { return server.core.worker(worker).processing; });
}

Reply rpc_nbytes(Server& server, const Request& request) {
  protocol::NbytesCall call;
  if (auto read = request.read(call); !read) return Reply::raise(read.error());
  const State& state = server.core.state();
  std::vector<TaskId> tasks;
  if (call.has_keys) {
    for (const KeyView key : call.keys) {
      const auto id = server.core.find(key);
      if (!id) return Reply::missing_key(key);
      tasks.push_back(*id);
    }
  } else {
    state.tasks.for_each([&](TaskId id, const Task& task) {
      if (task.nbytes >= 0 && state.visible(task)) tasks.push_back(id);
    });
  }
  if (!call.summary) {
    return Reply::written([&](MessageWriter& out) {
      out.map(static_cast<std::uint32_t>(tasks.size()));
      for (const TaskId id : tasks) {
        out.key(spelled(server.core, id));
        out.integer(server.core.task(id).nbytes);
      }
    });
  }
  std::map<std::string, std::int64_t> by_prefix;
  for (const TaskId id : tasks) {
    const Task& task = server.core.task(id);
    by_prefix[protocol::prefix_name(task.key())] += task.nbytes;
  }
  return Reply::written([&](MessageWriter& out) {
    out.map(static_cast<std::uint32_t>(by_prefix.size()));
    for (const auto& [prefix, bytes] : by_prefix) {
      out.str(prefix);
      out.integer(bytes);
    }
  });
}

Async<Reply> rpc_versions(Server& server, Request request) {
  if (server.graphs.versions().empty()) co_await server.graphs.hello();
  protocol::VersionsCall call;
  if (auto read = request.read(call); !read) co_return Reply::raise(read.error());
  protocol::Document versions;
  if (auto parsed = versions.parse(server.graphs.versions()); !parsed) {
    co_return Reply::raise(parsed.error());
  }
  const Value packages = versions.root().find("packages");
  std::vector<std::string_view> unknown;
  for (const std::string_view name : call.packages) {
    if (!packages.find(name).exists()) unknown.push_back(name);
  }
  co_return Reply::written([&](MessageWriter& out) {
    out.map(2);
    out.field("host");
    out.raw(versions.root().find("host").raw());
    out.field("packages");
    out.map(static_cast<std::uint32_t>(packages.size() + unknown.size()));
    for (const auto [name, version] : packages.entries()) {
      out.raw(name.raw());
      out.raw(version.raw());
    }
    for (const std::string_view name : unknown) {
      out.str(name);
      out.nil();
    }
  });
}

Reply rpc_get_logs(Server& server, const Request& request) {
  const auto limit = request.get("n").as_uint().value_or(0);
  const double start = request.get("start").as_double().value_or(0);
  const bool timestamps = request.flag("timestamps", false);
  const auto& lines = server.log.lines();
  std::vector<const Log::Line*> chosen;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if ((limit > 0 && chosen.size() >= limit) || line->time < start) break;
    chosen.push_back(&*line);
  }
  return Reply::written([&](MessageWriter& out) {
    out.array(static_cast<std::uint32_t>(chosen.size()));
    for (const Log::Line* line : chosen) {
      out.array(timestamps ? 3 : 2);
      if (timestamps) out.real(line->time);
      out.str(Log::level_name(line->level));
      out.str(line->text);
    }
  });
}

}  // namespace scheduler
