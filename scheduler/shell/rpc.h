//! Questions and answers: the RPC side of the scheduler.
//!
//! Each connection asks one question at a time and gets one answer. A handler is a function from a
//! Request to a Reply, plain or a coroutine; the table in rpc_table.cc names the handler of each
//! op. What stock has and we have not answers with an error that says so; what nobody has answers
//! nil, as stock does.
//!
//! Answers to: distributed/core.py, Server.handle_comm.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/net/async.h"
#include "protocol/net/connection.h"
#include "protocol/net/handshake.h"
#include "protocol/wire/errors.h"
#include "protocol/wire/message.h"
#include "protocol/wire/messages_client.h"
#include "protocol/wire/messages_rpc.h"
#include "protocol/wire/ops.h"
#include "protocol/wire/writer.h"

namespace scheduler {

class Server;

using protocol::Async;
using protocol::Value;

//! One question. Copies are cheap and share the message, so a coroutine may keep one.
struct Request {
  std::shared_ptr<const protocol::Message> message;
  protocol::Call call;  //!< borrows from the message
  protocol::Connection::Ref connection;
  protocol::Hello hello;

  Value body() const { return call.body; }
  //! A parameter; one that does not exist if it is absent or nil.
  Value get(std::string_view name) const {
    const Value value = call.body.find(name);
    return value.is_nil() ? Value() : value;
  }
  std::string_view text(std::string_view name, std::string_view fallback = {}) const {
    return get(name).as_str().value_or(fallback);
  }
  bool flag(std::string_view name, bool fallback) const {
    return get(name).as_bool().value_or(fallback);
  }
  //! Seconds, given as a number or as a text such as "30s".
  double seconds(std::string_view name, double fallback) const {
    return protocol::as_seconds(get(name)).value_or(fallback);
  }
  //! Reads the typed body of the call.
  template <class Body>
  protocol::Status read(Body& out) const {
    return protocol::read(*message, call.body, out);
  }
};

//! What goes back: a message, or nothing because the handler took the connection over.
class Reply {
 public:
  Reply(protocol::OutMessage message) : message_(std::move(message)) {}  // NOLINT: by design
  static Reply nil();
  static Reply text(std::string_view text);
  static Reply taken_over() { return Reply(); }
  //! status: uncaught-error; the caller raises it.
  static Reply raise(const protocol::PythonError& error);
  static Reply raise(const protocol::Error& error) { return raise(protocol::python_error(error)); }
  //! KeyError(key), as Python raises it for a missing key.
  static Reply missing_key(protocol::KeyView key);
  static Reply unsupported(std::string_view op);
  //! What `write` writes.
  template <class Write>
  static Reply written(const Write& write) {
    protocol::MessageWriter out;
    write(out);
    return out.finish();
  }

  bool taken() const { return !message_; }
  const protocol::OutMessage& message() const { return *message_; }

 private:
  Reply() = default;
  std::optional<protocol::OutMessage> message_;
};

struct Handler {
  Reply (*plain)(Server&, const Request&) = nullptr;
  Async<Reply> (*slow)(Server&, Request) = nullptr;
};

//! The handler of an op; both empty if there is none.
Handler handler_of(protocol::Op op);
//! Stock has this op and we do not, yet.
bool known_but_missing(protocol::Op op);

//! Serves one connection until it ends or a handler takes it over.
Async<void> serve(Server& server, protocol::Connection::Ref connection, protocol::Hello hello);

//! Parses on the thread pool what would hold up the loop; order is the caller's.
Async<protocol::Status> parse(Server& server, protocol::Message& message, protocol::Frames frames);

// ---- families of handlers -------------------------------------------------------------------

// rpc_info.cc
Reply rpc_identity(Server&, const Request&);
Reply rpc_echo(Server&, const Request&);
Reply rpc_ping(Server&, const Request&);
Reply rpc_ncores(Server&, const Request&);
Reply rpc_who_has(Server&, const Request&);
Reply rpc_has_what(Server&, const Request&);
Reply rpc_processing(Server&, const Request&);
Reply rpc_nbytes(Server&, const Request&);
Async<Reply> rpc_versions(Server&, Request);
Reply rpc_get_logs(Server&, const Request&);

// rpc_tasks.cc
Reply rpc_get_task_status(Server&, const Request&);
Reply rpc_get_task_prefix_states(Server&, const Request&);
Reply rpc_get_story(Server&, const Request&);
Reply rpc_get_runspec(Server&, const Request&);
Reply rpc_get_error_cause(Server&, const Request&);
Async<Reply> rpc_retry(Server&, Request);
Reply rpc_set_restrictions(Server&, const Request&);
Reply rpc_check_idle(Server&, const Request&);

// rpc_memory.cc
Reply rpc_rask_memory(Server&, const Request&);
Reply rpc_rask_holders(Server&, const Request&);

// rpc_data.cc
Async<Reply> rpc_gather(Server&, Request);
Async<Reply> rpc_scatter(Server&, Request);
Reply rpc_update_data(Server&, const Request&);
Reply rpc_add_keys(Server&, const Request&);

// rpc_broadcast.cc
Async<Reply> rpc_broadcast(Server&, Request);
Async<Reply> rpc_proxy(Server&, Request);
Async<Reply> rpc_call_stack(Server&, Request);
Async<Reply> rpc_worker_logs(Server&, Request);

// rpc_shuffle.cc
Reply rpc_shuffle_get(Server&, const Request&);
Reply rpc_shuffle_get_or_create(Server&, const Request&);
Reply rpc_shuffle_restrict_task(Server&, const Request&);
Async<Reply> rpc_shuffle_barrier(Server&, Request);

// rpc_semaphores.cc
Reply rpc_semaphore_register(Server&, const Request&);
Async<Reply> rpc_semaphore_acquire(Server&, Request);
Reply rpc_semaphore_release(Server&, const Request&);
Reply rpc_semaphore_refresh_leases(Server&, const Request&);
Reply rpc_semaphore_close(Server&, const Request&);
Reply rpc_semaphore_value(Server&, const Request&);

// rpc_events.cc
Reply rpc_log_event(Server&, const Request&);
Reply rpc_events(Server&, const Request&);
Reply rpc_get_metadata(Server&, const Request&);
Reply rpc_set_metadata(Server&, const Request&);

// rpc_plugins.cc
Async<Reply> rpc_register_worker_plugin(Server&, Request);
Async<Reply> rpc_unregister_worker_plugin(Server&, Request);
Async<Reply> rpc_register_nanny_plugin(Server&, Request);
Async<Reply> rpc_unregister_nanny_plugin(Server&, Request);

// rpc_scheduler_plugins.cc
Async<Reply> rpc_register_scheduler_plugin(Server&, Request);
Reply rpc_unregister_scheduler_plugin(Server&, const Request&);

// rpc_workers.cc, rpc_retire.cc, rpc_restart.cc
Reply rpc_heartbeat_worker(Server&, const Request&);
Reply rpc_unregister(Server&, const Request&);
Reply rpc_set_resources(Server&, const Request&);
Reply rpc_workers_to_close(Server&, const Request&);
Reply rpc_adaptive_target(Server&, const Request&);
Async<Reply> rpc_retire_workers(Server&, Request);
Async<Reply> rpc_restart(Server&, Request);
Async<Reply> rpc_restart_workers(Server&, Request);
Reply rpc_terminate(Server&, const Request&);

// sessions
Async<Reply> rpc_register_client(Server&, Request);
Async<Reply> rpc_register_worker(Server&, Request);
Async<Reply> rpc_register_nanny(Server&, Request);
Async<Reply> rpc_subscribe_worker_status(Server&, Request);

}  // namespace scheduler
