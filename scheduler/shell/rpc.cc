//! Serving one connection, and the replies every handler uses; see rpc.h.
#include "scheduler/shell/rpc.h"

#include <fmt/format.h>

#include "scheduler/shell/server.h"
#include "scheduler/shell/stream.h"

namespace scheduler {

using protocol::Error;
using protocol::Fault;
using protocol::MessageWriter;
using protocol::Status;

Reply Reply::nil() {
  return written([](MessageWriter& out) { out.nil(); });
}

Reply Reply::text(std::string_view text) {
  return written([&](MessageWriter& out) { out.str(text); });
}

Reply Reply::raise(const protocol::PythonError& error) {
  return written([&](MessageWriter& out) { protocol::write_error(out, error); });
}

Reply Reply::missing_key(protocol::KeyView key) {
  const std::string repr = "KeyError(" + protocol::key_repr(key) + ")";
  protocol::ErrorReply error;
  error.exception = protocol::bin_payload(protocol::pickle_key_error(key));
  error.exception_text = repr;
  return written([&](MessageWriter& out) { protocol::write(out, error); });
}

Reply Reply::unsupported(std::string_view op) {
  return raise({"NotImplementedError",
                fmt::format("'{}' is not supported by rask-scheduler yet; docs/COMPATIBILITY.md "
                            "lists what is",
                            op)});
}

Async<Status> parse(Server& server, protocol::Message& message, protocol::Frames frames) {
  if (!frames.empty() && frames[0].size() >= kLargeHeader) {
    Status status = protocol::Done{};
    const auto work = [&] { status = message.reset(std::move(frames)); };
    co_await offload(server.loop, work);
    co_return status;
  }
  co_return message.reset(std::move(frames));
}

namespace {

Async<Reply> answer(Server& server, Request request) {
  const std::string_view name = request.call.name;
  if (server.settings.blocked_handlers.contains(std::string(name))) {
    co_return Reply::raise(
        {"ValueError", fmt::format("The '{}' handler has been explicitly disallowed in Scheduler, "
                                   "possibly due to security concerns.",
                                   name)});
  }
  const Handler handler = handler_of(request.call.op);
  if (handler.plain != nullptr) co_return handler.plain(server, request);
  if (handler.slow != nullptr) co_return co_await handler.slow(server, std::move(request));
  if (known_but_missing(request.call.op)) {
    server.log.once(name, fmt::format("'{}' is not supported yet; see docs/COMPATIBILITY.md", name));
    co_return Reply::unsupported(name);
  }
  server.log.once(name, fmt::format("No handler {} found in Scheduler", sample(name)));
  co_return Reply::nil();
}

//! The connection sent something that is no question: it ends, with one line in the log.
void reject(Server& server, protocol::Connection& connection, const Error& error) {
  server.log.error(fmt::format("Closing the connection of {}: {}", connection.peer().text(),
                               sample(error.text(), 300)));
  connection.abort(error);
}

}  // namespace

Async<void> serve(Server& server, protocol::Connection::Ref connection, protocol::Hello hello) {
  while (true) {
    auto frames = co_await connection->read();
    if (!frames) {
      // An end between two questions is how peers leave; anything else is worth a line.
      if (frames.error().fault != Fault::closed) reject(server, *connection, frames.error());
      co_return;
    }
    auto message = std::make_shared<protocol::Message>();
    if (auto parsed = co_await parse(server, *message, std::move(*frames)); !parsed) {
      reject(server, *connection, parsed.error());
      co_return;
    }
    const auto call = protocol::read_call(*message);
    if (!call) {
      reject(server, *connection, call.error());
      co_return;
    }
    if (call->op == protocol::Op::close) {
      if (call->reply) connection->send(Reply::text("OK").message());
      connection->close();
      co_return;
    }
    const bool wants_reply = call->reply;
    const bool close = call->close;
    Request request{message, *call, connection, hello};
    const Reply reply = co_await answer(server, std::move(request));
    if (reply.taken()) co_return;
    if (wants_reply) connection->send(reply.message());
    if (close) {
      connection->close();
      co_return;
    }
  }
}

}  // namespace scheduler
