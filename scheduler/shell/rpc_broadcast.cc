//! Messages to workers on behalf of a client: broadcast, proxy, and what is built on them.
//!
//! Answers to: Scheduler.broadcast, proxy, get_call_stack and get_worker_logs.
#include <algorithm>
#include <map>

#include "scheduler/core/state.h"
#include "scheduler/shell/ask.h"
#include "scheduler/shell/rpc.h"
#include "scheduler/shell/server.h"

namespace scheduler {

using protocol::BroadcastCall;
using protocol::MessageWriter;

namespace {

//! An exception as a Python object: what stock sends for on_error="return".
void write_pickled(MessageWriter& out, std::string_view pickle) {
  MessageWriter header;
  header.map(3);
  header.field("pickled-obj");
  header.bin(pickle);
  header.field("num-sub-frames");
  header.integer(0);
  header.field("compression");
  header.array(0);
  const protocol::Slice frame = header.take_payload()->header;
  out.marker(protocol::Payload::Kind::pickled, std::span(&frame, 1));
}

protocol::Result<std::vector<Target>> targets_of(Server& server, const BroadcastCall& call) {
  std::vector<std::string> names;
  if (call.has_workers) {
    names.assign(call.workers.begin(), call.workers.end());
  } else if (!call.has_hosts) {
    return all_workers(server, call.nanny);
  }
  for (const std::string_view host : call.hosts) {
    for (const auto& [id, worker] : server.peers.workers()) {
      if (worker->host == host) names.push_back(worker->address);
    }
  }
  std::vector<Target> out;
  for (const std::string& name : names) {
    const WorkerPeer* worker = server.find_worker(name);
    if (!call.nanny) {
      out.push_back({name, worker ? worker->address : name});
    } else if (worker == nullptr) {
      return protocol::Error{protocol::Fault::bad_type, name};
    } else if (!worker->nanny.empty()) {
      out.push_back({name, worker->nanny});
    }
  }
  return out;
}

Reply summary(const std::vector<Answer>& answers, BroadcastCall::OnError on_error) {
  std::vector<const Answer*> shown;
  for (const Answer& answer : answers) {
    if (answer.error && on_error == BroadcastCall::OnError::raise) {
      return Reply::raise(*answer.error);
    }
    if (!answer.error || on_error != BroadcastCall::OnError::ignore) shown.push_back(&answer);
  }
  MessageWriter out;
  out.map(static_cast<std::uint32_t>(shown.size()));
  for (const Answer* answer : shown) {
    out.str(answer->worker);
    if (!answer->error) {
      auto written = out.value(*answer->message, answer->message->root());
      if (!written) return Reply::raise(written.error());
    } else if (on_error == BroadcastCall::OnError::return_pickle) {
      out.bin(protocol::pickle_exception(*answer->error));
    } else {
      write_pickled(out, protocol::pickle_exception(*answer->error));
    }
  }
  return out.finish();
}

}  // namespace

Async<Reply> rpc_broadcast(Server& server, Request request) {
  BroadcastCall call;
  if (auto read = request.read(call); !read) co_return Reply::raise(read.error());
  auto targets = targets_of(server, call);
  if (!targets) {
    co_return Reply::missing_key(protocol::string_key(targets.error().where));
  }
  MessageWriter forward;
  auto written =
      protocol::write_forward(forward, *request.message, call.msg, request.call.serializers);
  if (!written) co_return Reply::raise(written.error());
  Question question(forward.finish());
  question.keep = server.settings.reuse_broadcast;
  const auto answers = co_await ask_all(server, std::move(*targets), std::move(question));
  co_return summary(answers, call.on_error);
}

Async<Reply> rpc_proxy(Server& server, Request request) {
  protocol::ProxyCall call;
  if (auto read = request.read(call); !read) co_return Reply::raise(read.error());
  MessageWriter forward;
  auto written =
      protocol::write_forward(forward, *request.message, call.msg, request.call.serializers);
  if (!written) co_return Reply::raise(written.error());
  std::vector<Target> target{{std::string(call.worker), std::string(call.worker)}};
  Question question(forward.finish());
  const auto answers = co_await ask_all(server, std::move(target), std::move(question));
  if (answers[0].error) co_return Reply::raise(*answers[0].error);
  MessageWriter out;
  const protocol::Message& message = *answers[0].message;
  if (auto copied = out.value(message, message.root()); !copied) {
    co_return Reply::raise(copied.error());
  }
  co_return out.finish();
}

Async<Reply> rpc_worker_logs(Server& server, Request request) {
  protocol::WorkersCall call;
  if (auto read = request.read(call); !read) co_return Reply::raise(read.error());
  BroadcastCall whom;
  whom.has_workers = call.has_workers;
  whom.workers = call.workers;
  whom.nanny = request.flag("nanny", false);
  auto targets = targets_of(server, whom);
  if (!targets) co_return Reply::missing_key(protocol::string_key(targets.error().where));
  MessageWriter question;
  question.map(3);
  question.field("op");
  question.str("get_logs");
  question.field("n");
  const Value n = request.get("n");
  question.raw(n.exists() ? n.raw() : ByteView("\xc0", 1));
  question.field("reply");
  question.boolean(true);
  Question whole(question.finish());
  const auto answers = co_await ask_all(server, std::move(*targets), std::move(whole));
  co_return summary(answers, BroadcastCall::OnError::raise);
}

namespace {

protocol::OutMessage call_stack_question(const std::vector<protocol::KeyView>* keys) {
  MessageWriter out;
  out.map(3);
  out.field("op");
  out.str("call_stack");
  out.field("keys");
  if (keys == nullptr) {
    out.nil();
  } else {
    protocol::write_keys(out, *keys);
  }
  out.field("reply");
  out.boolean(true);
  return out.finish();
}

//! Processing tasks among these keys and, for waiting ones, among what they wait for.
std::map<WorkerId, std::vector<protocol::KeyView>> processing_of(const Core& core,
                                                                 std::vector<TaskId> stack) {
  std::map<WorkerId, std::vector<protocol::KeyView>> out;
  absl::flat_hash_set<TaskId> seen;
  while (!stack.empty()) {
    const TaskId id = stack.back();
    stack.pop_back();
    if (!seen.insert(id).second) continue;
    const Task& task = core.task(id);
    if (task.state == TaskState::waiting) {
      for (const Edge& edge : task.dependencies) stack.push_back(edge.task);
    } else if (task.state == TaskState::processing) {
      out[task.processing_on].push_back(KeyView{task.spelled_key()});
    }
  }
  return out;
}

}  // namespace

Async<Reply> rpc_call_stack(Server& server, Request request) {
  protocol::KeysCall call;
  if (auto read = request.read(call); !read) co_return Reply::raise(read.error());
  std::vector<Async<std::vector<Answer>>> asked;
  if (!call.has_keys) {
    asked.push_back(
        ask_all(server, all_workers(server, false), Question(call_stack_question(nullptr))));
  } else {
    std::vector<TaskId> tasks;
    for (const KeyView key : call.keys) {
      const auto id = server.core.find(key);
      if (!id) co_return Reply::missing_key(key);
      tasks.push_back(*id);
    }
    for (const auto& [worker, keys] : processing_of(server.core, tasks)) {
      const std::string& address = server.core.worker(worker).address;
      std::vector<Target> target{{address, address}};
      asked.push_back(ask_all(server, std::move(target), Question(call_stack_question(&keys))));
    }
  }
  std::vector<Answer> answers;
  auto groups = co_await protocol::all(std::move(asked));
  for (auto& group : groups) {
    for (Answer& answer : group) {
      // Workers that run nothing are left out, as stock does.
      if (answer.error || answer.message->root().size() > 0) answers.push_back(std::move(answer));
    }
  }
  co_return summary(answers, BroadcastCall::OnError::raise);
}

}  // namespace scheduler
