//! The native half of a worker, as its Python half sees it.
//!
//! One loop thread (libuv) owns the worker core, every socket, heartbeats, transfers and spill
//! files. It never takes the GIL: Python threads come here and *pull* — executors pull jobs, the
//! pack thread pulls values to pickle, the service loop pulls what is Python by nature — and push
//! answers back. Every function below may be called from any thread and none calls into Python.
//!
//! Python objects are shares to us (LiveRef). Dropping the last share never touches Python: its
//! deleter, made by the binding, queues the object for a thread that holds the GIL.
//!
//! Answers to: distributed/worker.py, Worker (the parts that are not Python by nature).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/base/bytes.h"
#include "protocol/base/ids.h"
#include "protocol/base/key.h"
#include "protocol/base/payload.h"
#include "protocol/base/result.h"
#include "worker/core/events.h"

namespace worker {

using protocol::ByteView;
using protocol::PayloadRef;
using protocol::RunSpecRef;
using protocol::Slice;

//! A share in a Python object held by the binding; null is none.
using LiveRef = std::shared_ptr<void>;

struct Options {
  std::string id;                      //!< Worker-<uuid>, unique per incarnation
  std::string scheduler_address;
  std::string listen_host;             //!< empty: the interface that reaches the scheduler
  std::uint16_t listen_port = 0;
  std::string contact_address;         //!< empty: where we listen
  Slice name;                          //!< msgpack scalar; empty: the address
  std::uint32_t nthreads = 1;
  std::uint64_t memory_limit = 0;      //!< 0: none
  double memory_target = 0.6;          //!< fractions of the limit; <= 0: off
  double memory_spill = 0.7;
  double memory_pause = 0.8;
  double memory_transfer = 0.1;        //!< of the limit: bytes in flight to us
  std::uint64_t max_spill = 0;         //!< bytes on disk; 0: no bound
  std::vector<std::pair<std::string, double>> resources;
  std::string local_directory;
  std::string nanny_address;           //!< empty: none
  Slice versions;                      //!< msgpack map for register-worker
  double heartbeat_seconds = 1.0;
  double connect_timeout_seconds = 30;
  std::uint32_t incoming_connections = 10;
  std::uint32_t outgoing_connections = 50;
  std::uint64_t message_bytes_limit = 50'000'000;
  std::string pin;                     //!< none | core | numa
};

//! One value in the worker: alive in Python, packed as bytes, spilled to disk, or several of these.
struct Value {
  LiveRef live;
  PayloadRef packed;         //!< what get_data sends; null: must be packed first
  std::uint64_t nbytes = 0;  //!< as dask.sizeof says
};

//! An input of a job. At least one of live/packed is set: spilled inputs are read back before the
//! job is handed out, on the executor's thread and without the GIL.
struct Input {
  Key key;
  ValueId id;
  Value value;
  bool actor = false;  //!< an actor that lives here: Python makes a proxy
};

//! A task to run now.
struct Job {
  TaskId task;
  RunId run;
  Key key;
  RunSpecRef spec;         //!< null: open `packed_spec` instead
  PayloadRef packed_spec;
  PayloadRef annotations;  //!< null: empty
  bool actor = false;
  std::vector<Input> inputs;
};

struct Finished {
  Value value;
  std::string type_name;
  Slice type;        //!< pickled class
  double start = 0;  //!< wall time of the call, Unix seconds
  double stop = 0;
  std::uint64_t thread = 0;
};

struct Failed {
  PayloadRef exception;  //!< as error_message makes it: a serialized bytes object
  PayloadRef traceback;
  std::string exception_text;
  std::string traceback_text;
  double start = 0;
  double stop = 0;
  std::uint64_t thread = 0;
};

//! Something the service loop (asyncio) must do, because it is Python by nature.
struct ServiceEvent {
  enum class Kind : std::uint8_t {
    registered,      //!< `message`: the reply of register-worker (worker-plugins, time, …)
    refused,         //!< could not register; `text` says why
    request,         //!< an RPC the native table does not serve: `message`, answer with reply(token)
    stream,          //!< a stream op claimed by a plugin: `message`
    job,             //!< a job whose annotations name an executor other than the default
    log,             //!< a line for the log: `text`
    status,          //!< running / paused / closing…: `text`
    close,           //!< the scheduler, a signal or a lost stream ends the worker: `text` is the reason
  };
  Kind kind = Kind::close;
  std::uint64_t token = 0;
  std::vector<Slice> message;  //!< frames as distributed.protocol.loads takes them
  std::string text;
  std::optional<Job> job;
};

//! A value somebody asked for that exists only as a Python object.
struct PackRequest {
  ValueId value;
  Key key;
  LiveRef live;
  bool actor = false;  //!< to be packed as a proxy of the actor
};

class Runtime {
 public:
  explicit Runtime(Options options);
  ~Runtime();

  //! Starts the loop thread and listens; address() is known afterwards.
  protocol::Status listen();
  //! Connects to the scheduler and registers. The outcome is a ServiceEvent.
  void start();
  //! Registered and set up: tells the scheduler that we run; work may come from now on.
  void run();
  //! Tells the scheduler that we are closing; no new work is taken.
  void announce_closing();
  //! Leaves the cluster: closes the stream, stops serving, ends the loop thread. Blocks.
  void stop();
  //! In a forked child: gives up every descriptor; the runtime is dead there.
  void after_fork_in_child();

  // ---- executors --------------------------------------------------------------------------------
  //! Binds the calling thread as the `pin` option says; call once per executor, before its jobs.
  protocol::Status pin_executor();
  //! Waits for a job of the default pool. None: interrupted, or the worker closes.
  std::optional<Job> next_job();
  void finished(const Job& job, Finished result);
  void failed(const Job& job, Failed failure);
  void rescheduled(const Job& job);
  void seceded(const Key& key, double compute_seconds);
  //! An input was turned into a live object; later readers use it instead of the packed form.
  void set_live(ValueId value, LiveRef live);
  //! Makes one thread that waits in next_job (now or next) come back without a job.
  void interrupt_executor();

  // ---- pack thread ------------------------------------------------------------------------------
  //! Waits for a value to pack, or for wake_pack (then the request names no value). None: closing.
  std::optional<PackRequest> next_pack();
  //! Makes next_pack return, so that its thread can drop references.
  void wake_pack();
  void packed(ValueId value, PayloadRef bytes);
  void pack_failed(ValueId value, std::string text);

  // ---- service loop -----------------------------------------------------------------------------
  //! Readable whenever service events wait.
  int service_fd() const;
  std::vector<ServiceEvent> take_service_events();
  void reply(std::uint64_t token, std::vector<Slice> frames);
  void reply_and_close(std::uint64_t token, std::vector<Slice> frames);
  //! Queues one op-map on the scheduler stream (frames of distributed.protocol.dumps of one dict).
  void send_to_scheduler(std::vector<Slice> frames);
  //! RPC ops that Python handlers serve from now on although the native side could.
  void claim_op(std::string op);
  //! msgpack map, sent as `extensions` of every heartbeat until replaced.
  void set_heartbeat_extensions(Slice bytes);

  // ---- data, as Worker.data shows it ------------------------------------------------------------
  std::vector<Key> keys() const;
  std::optional<Value> value(const Key& key) const;
  //! Stores a value without a task (update_data, scatter from inside a task).
  void put(const Key& key, Value value);

  //! What Worker.get_metrics would say, as a msgpack map.
  Slice metrics() const;
  //! (name, value): executing, ready, waiting, in_flight, stored, …
  std::vector<std::pair<std::string, std::uint64_t>> counts() const;
  std::string address() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace worker
