//! The ops of the worker stream, in both directions, each as a plain struct.
//!
//! write() emits exactly the fields Dask defines: a stock worker shuts down on one field too many
//! or too few. read() ignores what it does not know and names what it misses. Structs borrow: views
//! point into the Message that was read, or into whatever the writer's caller keeps alive. Reuse one
//! struct for many messages and its lists keep their memory.
//!
//! Answers to: distributed/worker_state_machine.py, the StateMachineEvent and SendMessageToScheduler
//! records; protocol.md 5.3 and 5.4.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/base/key.h"
#include "protocol/base/payload.h"
#include "protocol/base/result.h"
#include "protocol/wire/message.h"
#include "protocol/wire/who_has.h"
#include "protocol/wire/writer.h"

namespace protocol {

using Amount = std::pair<std::string_view, double>;  //!< of a resource

// ---- scheduler to worker ----------------------------------------------------------------------

struct ComputeTask {
  KeyView key;
  std::uint64_t run_id = 0;
  std::vector<double> priority;
  WhoHas dependencies;            //!< every dependency, with its size and at least one address
  const RunSpec* spec = nullptr;  //!< to write; if null, `run_spec` is written
  PayloadRef run_spec;            //!< as read
  std::vector<Amount> resources;  //!< none: nil
  bool actor = false;
  PayloadRef annotations;         //!< null: the empty map
  std::string_view span_id;       //!< empty: nil
  std::string_view stimulus_id;
};
void write(MessageWriter& writer, const ComputeTask& message);
Status read(const Message& message, Value op, ComputeTask& out);

struct FreeKeys {
  std::vector<KeyView> keys;
  std::string_view stimulus_id;
};
void write(MessageWriter& writer, const FreeKeys& message);
Status read(const Message& message, Value op, FreeKeys& out);

struct RemoveReplicas {
  std::vector<KeyView> keys;
  std::string_view stimulus_id;
};
void write(MessageWriter& writer, const RemoveReplicas& message);
Status read(const Message& message, Value op, RemoveReplicas& out);

struct AcquireReplicas {
  WhoHas who_has;
  std::string_view stimulus_id;
};
void write(MessageWriter& writer, const AcquireReplicas& message);
Status read(const Message& message, Value op, AcquireReplicas& out);

struct RefreshWhoHas {
  WhoHas who_has;  //!< sizes are not sent
  std::string_view stimulus_id;
};
void write(MessageWriter& writer, const RefreshWhoHas& message);
Status read(const Message& message, Value op, RefreshWhoHas& out);

struct StealRequest {
  KeyView key;
  std::string_view stimulus_id;
};
void write(MessageWriter& writer, const StealRequest& message);
Status read(const Message& message, Value op, StealRequest& out);

//! A P2P run is over.
struct ShuffleFail {
  std::string_view shuffle_id;
  std::uint64_t run_id;
  std::string_view message;
};
void write(MessageWriter& writer, const ShuffleFail& message);

//! Sent by the scheduler, echoed by the worker; the worker also reports changes of its own.
struct WorkerStatusChange {
  std::string_view status;
  std::string_view stimulus_id;
};
void write(MessageWriter& writer, const WorkerStatusChange& message);
Status read(const Message& message, Value op, WorkerStatusChange& out);

//! A peer is gone: drop its connections and replicas.
struct RemoveWorker {
  std::string_view worker;
  std::string_view stimulus_id;
};
void write(MessageWriter& writer, const RemoveWorker& message);
Status read(const Message& message, Value op, RemoveWorker& out);

//! Shut down. Of the four fields a stock worker takes only the reason is ever sent by stock.
struct CloseWorker {
  std::string_view reason;
};
void write(MessageWriter& writer, const CloseWorker& message);
Status read(const Message& message, Value op, CloseWorker& out);

// ---- worker to scheduler ----------------------------------------------------------------------

struct StartStop {
  enum class Action : std::uint8_t { compute, transfer, disk_read, disk_write, deserialize, other };
  Action action = Action::compute;
  double start = 0;
  double stop = 0;
  std::string_view source;  //!< of a transfer; empty: left out
};

struct TaskFinished {
  KeyView key;
  std::uint64_t run_id = 0;
  std::uint64_t nbytes = 0;
  ByteView type;                      //!< pickled class of the result
  std::string_view type_name;
  PayloadRef metadata;                //!< null: the empty map
  std::int64_t thread = 0;            //!< 0: nil
  std::vector<StartStop> startstops;  //!< stock's task stream wants at least one
  std::string_view stimulus_id;
};
void write(MessageWriter& writer, const TaskFinished& message);
Status read(const Message& message, Value op, TaskFinished& out);

struct TaskErred {
  KeyView key;
  std::uint64_t run_id = 0;
  PayloadRef exception;
  PayloadRef traceback;  //!< may be nil
  std::string_view exception_text;
  std::string_view traceback_text;
  std::int64_t thread = 0;  //!< 0: nil
  std::vector<StartStop> startstops;
  std::string_view stimulus_id;
};
void write(MessageWriter& writer, const TaskErred& message);
Status read(const Message& message, Value op, TaskErred& out);

struct ReleaseWorkerData {
  KeyView key;
  std::string_view stimulus_id;
};
void write(MessageWriter& writer, const ReleaseWorkerData& message);
Status read(const Message& message, Value op, ReleaseWorkerData& out);

struct AddKeys {
  std::vector<KeyView> keys;
  std::string_view stimulus_id;
};
void write(MessageWriter& writer, const AddKeys& message);
Status read(const Message& message, Value op, AddKeys& out);

struct RequestRefreshWhoHas {
  std::vector<KeyView> keys;
  std::string_view stimulus_id;
};
void write(MessageWriter& writer, const RequestRefreshWhoHas& message);
Status read(const Message& message, Value op, RequestRefreshWhoHas& out);

struct StealResponse {
  KeyView key;
  std::string_view state;  //!< a worker task state; empty: nil, the key is unknown there
  std::string_view stimulus_id;
};
void write(MessageWriter& writer, const StealResponse& message);
Status read(const Message& message, Value op, StealResponse& out);

struct LongRunning {
  KeyView key;
  std::uint64_t run_id = 0;
  double compute_seconds = -1;  //!< < 0: nil
  std::string_view stimulus_id;
};
void write(MessageWriter& writer, const LongRunning& message);
Status read(const Message& message, Value op, LongRunning& out);

struct Reschedule {
  KeyView key;
  std::string_view stimulus_id;
};
void write(MessageWriter& writer, const Reschedule& message);
Status read(const Message& message, Value op, Reschedule& out);

struct LogEvent {
  std::vector<std::string_view> topics;  //!< one is sent as a str
  PayloadRef msg;
};
void write(MessageWriter& writer, const LogEvent& message);
Status read(const Message& message, Value op, LogEvent& out);

struct KeepAlive {};
void write(MessageWriter& writer, const KeepAlive& message);

// ---- both directions --------------------------------------------------------------------------

struct CloseStream {};
void write(MessageWriter& writer, const CloseStream& message);

}  // namespace protocol
