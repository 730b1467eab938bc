//! Everything that can happen to the scheduler's core, as plain data.
//!
//! The shell turns wire messages, timers and answers of the graph process into these and calls
//! Core::step. Nothing here is trusted: a key may be unknown, a run id stale, a message late or
//! doubled; each such case has a defined answer. Views (KeyView, span, string_view) are borrowed
//! for the duration of the step; what the core keeps it copies, and PayloadRef / Slice / RunSpecRef
//! are shares it may hold on to.
//!
//! Ids of workers, clients and submissions are given out by the shell, ascending, never reused.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/base/bytes.h"
#include "protocol/base/ids.h"
#include "protocol/base/key.h"
#include "protocol/base/payload.h"
#include "scheduler/core/config.h"
#include "scheduler/core/shuffle_data.h"
#include "scheduler/core/spec_ref.h"

namespace scheduler {

using protocol::ByteView;
using protocol::ClientId;
using protocol::Key;
using protocol::KeyView;
using protocol::PayloadRef;
using protocol::RunId;
using protocol::Slice;
using protocol::SubmissionId;
using protocol::TaskId;
using protocol::WorkerId;

using Resources = std::vector<std::pair<std::string, double>>;  //!< name -> amount, sorted by name

enum class WorkerStatus : std::uint8_t { init, running, paused, closing_gracefully, closing, closed };

// ---- workers -------------------------------------------------------------------------------

//! register-worker succeeded. The worker starts in `init`; nothing is sent to it before it runs.
struct WorkerAdded {
  WorkerId worker;
  std::string address;   //!< canonical, e.g. tcp://127.0.0.1:4000
  std::string host;      //!< host part of the address, for host restrictions
  Key name;              //!< any scalar; the alias clients may restrict to
  std::uint32_t nthreads = 1;
  std::uint64_t memory_limit = 0;  //!< 0: none
  Resources resources;
  bool rask = false;     //!< speaks our denser messages
};

struct WorkerStatusChanged {
  WorkerId worker;
  WorkerStatus status;
};

//! The worker is gone. `expected` losses (retired, told to close) never blame its tasks.
struct WorkerLost {
  WorkerId worker;
  bool expected = false;
};

//! The worker is gone, and much was on it: some of that is taken off it, ahead of WorkerLost.
struct WorkerFading {
  WorkerId worker;
  bool expected = false;
};

struct Executing {
  KeyView key;
  double seconds;
};

//! What the core uses of heartbeat_worker.
struct WorkerHeartbeat {
  WorkerId worker;
  std::uint64_t memory_rss = 0;
  std::uint64_t spilled_bytes = 0;   //!< spilled_bytes.disk
  std::uint64_t spilled_memory = 0;  //!< spilled_bytes.memory
  double bandwidth = 0;  //!< bytes/s measured by this worker's transfers; 0: none since last time
  std::span<const Executing> executing;
};

struct WorkerResourcesSet {
  WorkerId worker;
  Resources resources;
};

// ---- messages of a worker's stream ----------------------------------------------------------

struct StartStop {
  enum class Kind : std::uint8_t { compute, transfer, disk_read, disk_write, deserialize, other };
  Kind kind;
  double start;
  double stop;
};

struct TaskFinished {
  WorkerId worker;
  KeyView key;
  RunId run;
  std::uint64_t nbytes = 0;
  Slice type;                  //!< pickled class of the result, forwarded to clients as it is
  std::string_view type_name;
  std::span<const StartStop> startstops;
};

struct TaskErred {
  WorkerId worker;
  KeyView key;
  RunId run;
  PayloadRef exception;
  PayloadRef traceback;
  std::string_view exception_text;
  std::string_view traceback_text;
  std::span<const StartStop> startstops;
};

struct ReplicasAdded {  //!< add-keys
  WorkerId worker;
  std::span<const KeyView> keys;
};

struct ReplicaDropped {  //!< release-worker-data
  WorkerId worker;
  KeyView key;
};

struct WhoHasRequested {  //!< request-refresh-who-has
  WorkerId worker;
  std::span<const KeyView> keys;
};

struct TaskSeceded {  //!< long-running
  WorkerId worker;
  KeyView key;
  RunId run;
  double compute_seconds = -1;  //!< < 0: not told
};

struct TaskRescheduled {  //!< the task raised Reschedule
  WorkerId worker;
  KeyView key;
};

//! States a stock worker may name in steal-response.
enum class VictimState : std::uint8_t { none, released, waiting, ready, constrained, executing,
                                        long_running, memory, cancelled, resumed, other };

struct StealAnswered {
  WorkerId worker;
  KeyView key;
  std::uint64_t theft;  //!< id from SendStealRequest; any other is stale
  VictimState state;
};

// ---- clients ----------------------------------------------------------------------------------

//! A client, or a pseudo-client (fire-and-forget, variable-…, queue-…, published-…).
struct ClientAdded {
  ClientId client;
  std::string name;
};

struct ClientRemoved {
  ClientId client;
};

struct KeysDesired {
  ClientId client;
  std::span<const KeyView> keys;
};

struct KeysReleased {
  ClientId client;
  std::span<const KeyView> keys;
};

struct KeysCancelled {
  ClientId client;
  std::span<const KeyView> keys;
  bool force = false;
  std::string_view reason;
  std::string_view message;
};

struct KeyReported {  //!< report-key: the client asks for the state of one key
  ClientId client;
  KeyView key;
};

struct KeysRetried {
  ClientId client;
  std::span<const KeyView> keys;
};

//! Data that arrived on workers without a task (scatter, update_data).
struct ScatteredKey {
  KeyView key;
  std::uint64_t nbytes;
  std::vector<WorkerId> workers;
  ByteView spelled;  //!< empty: canonical
};

struct DataScattered {
  ClientId client;  //!< invalid: nobody wants it yet
  std::vector<ScatteredKey> keys;
};

// ---- graphs -----------------------------------------------------------------------------------
// A submission arrives in slices: Opened, then Keys / Records / Wants in any number, then
// Committed or Dropped. Until it is committed its new keys are `staged`: known, never scheduled.

//! What dask.annotate and the submission's own annotations say about a task; shared by siblings.
struct Annotations {
  double priority = 0;               //!< user priority; larger runs earlier
  std::uint32_t retries = 0;
  std::vector<Key> workers;          //!< names, addresses or hosts, as given
  bool allow_other_workers = false;
  bool lazy = false;  //!< a rask worker reads its inputs one at a time
  Resources resources;
  std::uint64_t memory = 0;          //!< bytes it needs while it runs and for its result; 0: not said
  std::string io_device;             //!< what `io_concurrency` is a limit of
  std::uint32_t io_concurrency = 0;  //!< most tasks of that device at once on a worker; 0: no limit
  PayloadRef raw;                    //!< the map for compute-task; null: empty
};
using AnnotationsRef = std::shared_ptr<const Annotations>;

struct GraphOpened {
  SubmissionId submission;
  ClientId client;
  double fifo_timeout = 0;            //!< seconds
  bool has_submitting_task = false;
  KeyView submitting_task;            //!< the task inside which this graph was made
  //! Cannot fail as a whole once open (map, submit): each slice of records takes effect at once.
  bool append = false;
};

//! A key its client did not spell canonically (1.0 for 1); rare.
struct KeySpelling {
  std::uint32_t key;  //!< index in GraphKeys::keys
  ByteView spelled;   //!< one msgpack value
};

//! Numbers the keys of the submission in order of arrival, from 0 over all GraphKeys.
//! `outside` keys are dependencies the graph does not define.
struct GraphKeys {
  SubmissionId submission;
  std::span<const KeyView> keys;
  bool outside = false;
  std::span<const KeySpelling> spellings;
};

struct GraphTask {
  std::uint32_t key;                           //!< number of its key
  std::span<const std::uint32_t> dependencies; //!< numbers of keys
  SpecRef spec;
  AnnotationsRef annotations;                  //!< null: none
  std::int64_t priority = 0;                   //!< place in the graph's order
  bool data_producer = false;                  //!< root-ish whatever its group looks like
  bool actor = false;
};

struct GraphRecords {
  SubmissionId submission;
  std::vector<GraphTask> tasks;
};

//! P2P barrier tasks among the keys; comes after the keys and before their records.
struct GraphBarrier {
  std::uint32_t key;  //!< number of its key
  ShuffleSpecRef spec;
};

struct GraphBarriers {
  SubmissionId submission;
  std::vector<GraphBarrier> barriers;
};

struct GraphWants {
  SubmissionId submission;
  std::span<const KeyView> keys;  //!< keys the client asked for
};

struct GraphCommitted {
  SubmissionId submission;
};

//! The graph could not be read, the client left, or the cluster restarts: forget what was staged.
struct GraphDropped {
  SubmissionId submission;
};

// ---- operations asked for by RPC ------------------------------------------------------------

struct RestrictionsSet {  //!< set_restrictions
  KeyView key;
  std::vector<Key> workers;  //!< empty: unrestricted
};

struct MemoryBudgetSet {
  double fraction;  //!< of workers' memory limits, which admission may fill
  std::optional<Duration> patience = std::nullopt;  //!< see Config
  std::optional<Duration> too_large_grace = std::nullopt;
};

// ---- P2P shuffles: what workers ask for by RPC; see shuffle.h ----

//! A transfer task needs the run of its shuffle; the first one begins it.
struct ShuffleStarted {
  std::string_view shuffle;
  KeyView transfer;
  WorkerId worker;
};

struct ShuffleJoined {  //!< shuffle_get
  std::string_view shuffle;
  WorkerId worker;
};

struct ShuffleRestarted {  //!< its transfers belong to different runs
  std::string_view shuffle;
  std::uint64_t run;
};

struct ShuffleTaskPinned {  //!< shuffle_restrict_task: this output belongs on that worker
  std::string_view shuffle;
  std::uint64_t run;
  KeyView key;
  WorkerId worker;
};

struct ReplicasWanted {  //!< acquire-replicas: copy these keys to that worker
  WorkerId worker;
  std::span<const KeyView> keys;
};

struct ReplicasUnwanted {  //!< drop these replicas unless one is the last
  WorkerId worker;
  std::span<const KeyView> keys;
};

struct Restarted {};  //!< forget every task; clients are told

//! Switches that may change while the scheduler runs; what is not given stays.
struct ConfigChanged {
  std::optional<Automatic> automatic;
  std::optional<Duration> prefetch;
  std::optional<Scheme> batches = std::nullopt;
};

//! More of the core's own queued work (see WantsTurn). Bounded by `budget` units.
struct Turn {
  std::uint32_t budget = 4096;
};

//! Periodic. Stealing, replica reduction, liveness of learned durations: whatever is due at Now.
struct Tick {};

using Event = std::variant<
    WorkerAdded, WorkerStatusChanged, WorkerFading, WorkerLost, WorkerHeartbeat, WorkerResourcesSet,
    TaskFinished, TaskErred, ReplicasAdded, ReplicaDropped, WhoHasRequested, TaskSeceded,
    TaskRescheduled, StealAnswered,
    ClientAdded, ClientRemoved, KeysDesired, KeysReleased, KeysCancelled, KeyReported, KeysRetried,
    DataScattered,
    GraphOpened, GraphKeys, GraphBarriers, GraphRecords, GraphWants, GraphCommitted, GraphDropped,
    ShuffleStarted, ShuffleJoined, ShuffleRestarted, ShuffleTaskPinned,
    RestrictionsSet, MemoryBudgetSet, ReplicasWanted, ReplicasUnwanted, Restarted,
    ConfigChanged, Turn, Tick>;

}  // namespace scheduler
