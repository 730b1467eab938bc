//! One question, many answers; see ask.h.
#include "scheduler/shell/ask.h"

#include <fmt/format.h>

#include "scheduler/shell/server.h"
#include "scheduler/shell/stream.h"

namespace scheduler {
namespace {

protocol::PythonError lost(const protocol::Error& error) {
  if (error.fault == protocol::Fault::timeout) return {"TimeoutError", error.where};
  return {"CommClosedError", error.where, "distributed.comm.core"};
}

protocol::Async<Answer> ask(Server& server, Target target, Question question) {
  Answer out;
  out.worker = target.worker;
  protocol::RpcPool::Call call{target.address, std::move(question.message), question.timeout,
                               question.keep};
  auto frames = co_await server.pool.call(std::move(call));
  if (!frames) {
    out.error = lost(frames.error());
  } else {
    auto message = std::make_shared<protocol::Message>();
    if (auto parsed = message->reset(std::move(*frames)); !parsed) {
      out.error = protocol::python_error(parsed.error());
    } else if (message->root().find("status").equals("uncaught-error")) {
      // As stock: what the worker raised is not unpickled here, its text is raised instead.
      out.error = protocol::PythonError{
          "Exception", std::string(message->root().find("exception_text").as_str().value_or(""))};
    } else {
      out.message = std::move(message);
    }
  }
  if (out.error) {
    server.log.error(fmt::format("broadcast to {} failed: {}: {}", target.address, out.error->type,
                                 sample(out.error->text, 300)));
  }
  co_return out;
}

}  // namespace

protocol::Async<std::vector<Answer>> ask_all(Server& server, std::vector<Target> targets,
                                             Question question) {
  std::vector<protocol::Async<Answer>> asked;
  for (Target& target : targets) asked.push_back(ask(server, std::move(target), question));
  co_return co_await protocol::all(std::move(asked));
}

protocol::OutMessage write_answers(const std::vector<Answer>& answers) {
  protocol::MessageWriter out;
  out.map(static_cast<std::uint32_t>(answers.size()));
  for (const Answer& answer : answers) {
    out.str(answer.worker);
    if (!answer.message || !out.value(*answer.message, answer.message->root())) out.nil();
  }
  return out.finish();
}

std::vector<Target> all_workers(Server& server, bool nannies) {
  std::vector<Target> out;
  for (const auto& [id, worker] : server.peers.workers()) {
    if (!nannies) {
      out.push_back({worker->address, worker->address});
    } else if (!worker->nanny.empty()) {
      out.push_back({worker->address, worker->nanny});
    }
  }
  return out;
}

}  // namespace scheduler
