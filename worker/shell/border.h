//! What crosses the border between the native loop and Python's threads, as plain data.
//!
//! Python objects are shares to us (LiveRef). Dropping the last share never touches Python: its
//! deleter, made by the binding, queues the object for a thread that holds the GIL.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/base/bytes.h"
#include "protocol/base/ids.h"
#include "protocol/base/key.h"
#include "protocol/base/payload.h"
#include "worker/core/events.h"
#include "worker/core/task_state.h"

namespace worker {

using protocol::ByteView;
using protocol::PayloadRef;
using protocol::RunSpecRef;
using protocol::Slice;

class SpillFile;

//! A share in a Python object held by the binding; null is none.
using LiveRef = std::shared_ptr<void>;

//! One value in the worker: alive in Python, packed as bytes, spilled to disk, or several of these.
struct Value {
  LiveRef live;
  PayloadRef packed;         //!< what get_data sends; null: must be packed first
  std::uint64_t nbytes = 0;  //!< as dask.sizeof says
};

//! An input of a job. One that is neither live nor packed is on disk until read_inputs; those of a
//! lazy job are no more than names until read_input.
struct Input {
  Key key;
  ValueId id;
  Value value;
  std::shared_ptr<SpillFile> spilled;
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
  bool lazy = false;  //!< inputs stay where they are until they are asked for, one by one
  std::vector<Input> inputs;
  std::string span = {};  //!< whose time its call is; empty: nobody said
  std::vector<ValueId> lost = {};  //!< inputs of a lazy job that could not be read
};

//! A result's class as task-finished tells it.
struct TypeInfo {
  std::string name;
  Slice pickle;
};
using TypeRef = std::shared_ptr<const TypeInfo>;

//! When and where user code ran; wall time by our own clock.
struct Call {
  double start = 0;
  double stop = 0;
  std::uint64_t thread = 0;
};

//! Seconds that calls of one family of keys spent on one thing.
struct Spent {
  std::string span;       //!< empty: none
  std::string family;
  std::string_view what;  //!< by the names of stock's metrics
  double seconds = 0;
};

struct Finished {
  Value value;
  TypeRef type;
  Call call;
};

struct Failed {
  PayloadRef exception;  //!< as error_message makes it: a serialized bytes object
  PayloadRef traceback;
  std::string exception_text;
  std::string traceback_text;
  Call call;
};

//! A task changed state.
struct Transition {
  Key key;
  TaskState start = TaskState::released;
  TaskState finish = TaskState::released;
  std::string stimulus;
  double time = 0;
};

//! Something the service loop (asyncio) must do, because it is Python by nature.
struct ServiceEvent {
  enum class Kind : std::uint8_t {
    registered,      //!< `message`: the reply of register-worker (worker-plugins, time, …)
    refused,         //!< the scheduler will not have us; `text` says why
    unreachable,     //!< no scheduler there (yet); `text` says why
    request,         //!< an RPC the native table does not serve: `message`, answer with reply(token)
    stream,          //!< a stream op claimed by a plugin: `message`
    job,             //!< a job whose annotations name an executor other than the default
    log,             //!< a line for the log: `text`
    status,          //!< running / paused / closing…: `text`
    heartbeat,       //!< one was answered: `seconds` is how far the scheduler's clock is ahead
    transitions,     //!< of tasks, for plugins that watch: `transitions`
    actor_gone,      //!< `key`: an actor was released
    close,           //!< the scheduler or a lost stream ends the worker: `text` is the reason
  };
  Kind kind = Kind::close;
  std::uint64_t token = 0;
  std::vector<Slice> message;  //!< frames as distributed.protocol.loads takes them
  std::string text;
  double seconds = 0;
  Key key;
  std::optional<Job> job;
  std::vector<Transition> transitions;
};

//! Something the pack thread is asked for.
struct PackRequest {
  enum class Kind : std::uint8_t {
    pack,      //!< a value that exists only as a Python object
    describe,  //!< the class of a value that came from a peer
  };
  Kind kind = Kind::pack;
  ValueId id;
  Key key;
  Value value;
  bool actor = false;  //!< to be packed as a proxy of the actor
};

struct PackAnswer {
  ValueId id;
  PayloadRef bytes;
  std::string failure;  //!< not empty: the value cannot be pickled, and `bytes` tell readers so
};

//! What Python adds to heartbeats; msgpack maps, empty: nothing.
struct HeartbeatOffer {
  Slice extensions;  //!< sent once
  Slice digests;     //!< sent once
  Slice metrics;     //!< sent until replaced
  double net_read_bps = 0, net_write_bps = 0, disk_read_bps = 0, disk_write_bps = 0;
};

//! A task as people see it.
struct TaskView {
  Key key;
  TaskState state = TaskState::forgotten;
  RunId run;
  std::vector<double> priority;
  std::int64_t nbytes = -1;  //!< < 0: unknown
  bool actor = false;
  std::vector<Key> dependencies;
  std::vector<Key> dependents;
  std::vector<Key> waiting_for;
  std::vector<std::string> who_has;
  std::vector<std::pair<std::string, double>> resources;
  PayloadRef annotations;  //!< null: empty
};

}  // namespace worker
