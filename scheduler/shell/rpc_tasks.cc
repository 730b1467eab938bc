//! Questions about tasks, and retrying them.
//!
//! Answers to: Scheduler.get_task_status, get_task_prefix_states, get_story, stimulus_retry,
//! set_restrictions, check_idle, and recreate_tasks.py.
#include <absl/container/flat_hash_set.h>
#include <fmt/format.h>

#include <algorithm>

#include "scheduler/core/state.h"
#include "scheduler/shell/rpc.h"
#include "scheduler/shell/server.h"
#include "scheduler/shell/stream.h"

namespace scheduler {

using protocol::KeyView;
using protocol::MessageWriter;

Reply rpc_get_task_status(Server& server, const Request& request) {
  protocol::KeysCall call;
  if (auto read = request.read(call); !read) return Reply::raise(read.error());
  return Reply::written([&](MessageWriter& out) {
    out.map(static_cast<std::uint32_t>(call.keys.size()));
    for (const KeyView key : call.keys) {
      out.key(key);
      if (const auto id = server.core.find(key)) {
        out.str(state_name(server.core.task(*id).state));
      } else {
        out.nil();
      }
    }
  });
}

Reply rpc_get_task_prefix_states(Server& server, const Request&) {
  static constexpr TaskState kShown[] = {TaskState::memory, TaskState::erred, TaskState::released,
                                         TaskState::processing, TaskState::waiting};
  std::vector<const TaskPrefix*> shown;
  for (const auto& [name, prefix] : server.core.state().prefixes) {
    std::uint64_t count = 0;
    for (const TaskState state : kShown) count += prefix->states[static_cast<std::size_t>(state)];
    if (count > 0) shown.push_back(prefix.get());
  }
  std::sort(shown.begin(), shown.end(),
            [](const TaskPrefix* a, const TaskPrefix* b) { return a->serial < b->serial; });
  return Reply::written([&](MessageWriter& out) {
    out.map(static_cast<std::uint32_t>(shown.size()));
    for (const TaskPrefix* prefix : shown) {
      out.str(prefix->name);
      out.map(std::size(kShown));
      for (const TaskState state : kShown) {
        out.str(state_name(state));
        out.uinteger(prefix->states[static_cast<std::size_t>(state)]);
      }
    }
  });
}

Reply rpc_get_story(Server& server, const Request& request) {
  // A text may be a key or a stimulus; anything else is a key.
  std::vector<KeyView> keys;
  std::vector<std::string_view> stimuli;
  for (const Value value : request.get("keys_or_stimuli").elements()) {
    const auto key = request.message->key(value);
    if (key) keys.push_back(*key);
    if (const auto text = value.as_str()) stimuli.push_back(*text);
  }
  auto lines = server.core.state().story.about(keys, stimuli);
  // A task that leaves the staging area is born; stock has no such change.
  std::erase_if(lines, [](const Story::Line& line) { return line.from == TaskState::staged; });
  return Reply::written([&](MessageWriter& out) {
    out.array(static_cast<std::uint32_t>(lines.size()));
    for (const auto& line : lines) {
      out.array(6);
      out.key(line.key);
      out.str(state_name(line.from));
      out.str(state_name(line.to));
      out.map(0);
      out.str(line.stimulus);
      out.real(line.wall);
    }
  });
}

Reply rpc_get_runspec(Server& server, const Request& request) {
  const auto key = request.message->key(request.body().find("key"));
  if (!key) return Reply::raise(key.error());
  const auto id = server.core.find(*key);
  if (!id) return Reply::missing_key(*key);
  const SpecRef& spec = server.core.task(*id).spec;
  return Reply::written([&](MessageWriter& out) {
    if (spec) {
      out.run_spec(spec.get());
    } else {
      out.nil();
    }
  });
}

Reply rpc_get_error_cause(Server& server, const Request& request) {
  protocol::KeysCall call;
  if (auto read = request.read(call); !read) return Reply::raise(read.error());
  for (const KeyView key : call.keys) {
    const auto id = server.core.find(key);
    if (!id) continue;
    if (const TaskError* error = server.core.task(*id).error()) {
      return Reply::written([&](MessageWriter& out) { out.key(error->failed.view()); });
    }
  }
  return Reply::nil();
}

namespace {

constexpr std::size_t kRetrySlice = 4096;

//! What stock visits: the keys and, upwards, every erred task they depend on.
void visit_erred(const Core& core, std::span<const KeyView> keys, absl::flat_hash_set<TaskId>& seen,
                 std::vector<protocol::Key>& visited) {
  std::vector<TaskId> stack;
  for (const KeyView key : keys) {
    if (const auto id = core.find(key)) stack.push_back(*id);
  }
  while (!stack.empty()) {
    const TaskId id = stack.back();
    stack.pop_back();
    if (!seen.insert(id).second) continue;
    const Task& task = core.task(id);
    visited.push_back(protocol::Key{std::string(task.spelled_key())});
    for (const Edge& edge : task.dependencies) {
      if (core.task(edge.task).state == TaskState::erred) stack.push_back(edge.task);
    }
  }
}

}  // namespace

Async<Reply> rpc_retry(Server& server, Request request) {
  protocol::KeysCall call;
  if (auto read = request.read(call); !read) co_return Reply::raise(read.error());
  server.log.info(fmt::format("Client {} requests to retry {} keys", call.client, call.keys.size()));
  for (std::size_t at = 0; at < call.keys.size(); ++at) {
    if (at > 0 && at % kRetrySlice == 0) co_await next_turn(server.loop);
    if (!server.core.find(call.keys[at])) co_return Reply::missing_key(call.keys[at]);
  }
  const ClientId client = call.client.empty() ? ClientId() : server.client_named(call.client);
  const std::span<const KeyView> keys = call.keys;
  absl::flat_hash_set<TaskId> seen;
  std::vector<protocol::Key> visited;
  for (std::size_t at = 0; at < keys.size(); at += kRetrySlice) {
    if (at > 0) co_await next_turn(server.loop);
    const auto slice = keys.subspan(at, std::min(kRetrySlice, keys.size() - at));
    visit_erred(server.core, slice, seen, visited);
    server.step(KeysRetried{client, slice}, Server::stimulus("stimulus-retry"));
  }
  Reply reply = Reply::written([&](MessageWriter& out) {
    out.array(static_cast<std::uint32_t>(visited.size()));
    for (const protocol::Key& key : visited) out.key(key);
  });
  server.report_again(client, std::move(visited));
  co_return reply;
}

Reply rpc_set_restrictions(Server& server, const Request& request) {
  const std::string stimulus = Server::stimulus("set-restrictions");
  for (const auto [name, workers] : request.get("worker").entries()) {
    const auto key = request.message->key(name);
    if (!key) return Reply::raise(key.error());
    if (!server.core.find(*key)) return Reply::missing_key(*key);
    RestrictionsSet event;
    event.key = *key;
    if (const auto one = workers.as_str()) event.workers.push_back(protocol::string_key(*one));
    for (const Value worker : workers.elements()) {
      auto named = protocol::canonical_key(worker.raw());
      if (!named) return Reply::raise(named.error());
      event.workers.push_back(std::move(*named));
    }
    server.step(event, stimulus);
  }
  return Reply::nil();
}

Reply rpc_check_idle(Server& server, const Request&) {
  const double since = server.idle_since();
  return Reply::written([&](MessageWriter& out) {
    if (since > 0) {
      out.real(since);
    } else {
      out.nil();
    }
  });
}

}  // namespace scheduler
