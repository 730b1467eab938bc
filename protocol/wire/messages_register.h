//! How peers introduce themselves: the handshake, register-client, register-worker, heartbeats and
//! identity.
//!
//! A worker's metrics and its extra information are shown to clients as they came; the scheduler
//! reads only the few numbers it needs out of them (WorkerMetrics).
//!
//! Answers to: distributed/comm/core.py handshake_info, worker.py _register_with_scheduler and
//! heartbeat, scheduler.py add_worker, heartbeat_worker and identity; protocol.md 1.2, 4.1, 5.1, 5.2.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/base/key.h"
#include "protocol/base/payload.h"
#include "protocol/base/result.h"
#include "protocol/wire/message.h"
#include "protocol/wire/messages_worker.h"
#include "protocol/wire/writer.h"

namespace protocol {

//! The first message each side writes.
struct Handshake {
  std::string_view compression;  //!< empty: nil
  std::array<std::int64_t, 3> python{3, 11, 0};
  std::int64_t pickle_protocol = 5;
  std::int64_t rask = 0;         //!< version of our denser messages; 0: left out, a stock peer
};
void write(MessageWriter& writer, const Handshake& message);
Status read(const Message& message, Handshake& out);

struct RegisterClient {
  std::string_view client;
  Value versions;
};
Status read(const Message& message, Value op, RegisterClient& out);

using Port = std::pair<std::string_view, std::int64_t>;  //!< of a service

//! What the scheduler uses of a worker's metrics, and what a rask worker measures.
struct WorkerMetrics {
  double cpu = 0;
  std::uint64_t memory = 0;  //!< resident bytes of the process
  double time = 0;
  std::uint64_t managed_bytes = 0;
  std::uint64_t spilled_memory = 0;
  std::uint64_t spilled_disk = 0;
  double bandwidth_total = 0;
  //! address -> (bytes per second summed, count)
  std::vector<std::pair<std::string_view, std::pair<double, std::uint64_t>>> bandwidth_workers;
  std::vector<std::pair<std::string_view, std::pair<double, std::uint64_t>>> bandwidth_types;
  double event_loop_interval = 0;
  std::vector<std::pair<std::string_view, std::uint64_t>> task_counts;
  std::uint64_t incoming_bytes = 0, incoming_count = 0, incoming_count_total = 0;
  std::uint64_t outgoing_bytes = 0, outgoing_count = 0, outgoing_count_total = 0;
  double net_read_bps = 0, net_write_bps = 0, disk_read_bps = 0, disk_write_bps = 0;
  std::uint64_t num_fds = 0;
  PayloadRef digests;  //!< digests_total_since_heartbeat; null: the empty map
  PayloadRef extra;    //!< a map of further metrics under other names; null: none
};
//! Writes the map every stock scheduler and dashboard expects.
void write(MessageWriter& writer, const WorkerMetrics& metrics);
//! Reads what is there; nothing is required, and the digests are left alone.
void read(Value metrics, WorkerMetrics& out);

struct RegisterWorker {
  std::string_view address;
  std::string_view status = "init";
  std::uint64_t nthreads = 1;
  KeyView name;  //!< any scalar
  double now = 0;
  std::vector<Amount> resources;
  std::uint64_t memory_limit = 0;  //!< 0: nil
  std::string_view local_directory;
  std::vector<Port> services;
  std::string_view nanny;  //!< empty: nil
  std::int64_t pid = 0;
  PayloadRef versions;
  PayloadRef metrics;
  PayloadRef extra;  //!< null: the empty map
  std::string_view stimulus_id;
  std::string_view server_id;
  WorkerMetrics measured;  //!< read from `metrics`; written instead of it if that is null
};
void write(MessageWriter& writer, const RegisterWorker& message);
Status read(const Message& message, Value op, RegisterWorker& out);

struct RegisterWorkerReply {
  bool ok = true;
  std::string_view message;  //!< why not, if not ok
  double time = 0;
  double heartbeat_interval_seconds = 0.5;
  std::vector<std::pair<std::string_view, ByteView>> worker_plugins;  //!< name -> pickle
  std::string_view warning;  //!< empty: left out
};
void write(MessageWriter& writer, const RegisterWorkerReply& message);
Status read(const Message& message, RegisterWorkerReply& out);

struct HeartbeatWorker {
  std::string_view address;
  double now = 0;
  PayloadRef metrics;  //!< as read
  std::vector<std::pair<KeyView, double>> executing;  //!< key -> seconds
  PayloadRef extensions;  //!< null: the empty map
  WorkerMetrics measured;  //!< read from `metrics`; written instead of it if that is null
};
void write(MessageWriter& writer, const HeartbeatWorker& message);
Status read(const Message& message, Value op, HeartbeatWorker& out);

struct HeartbeatReply {
  bool missing = false;  //!< the scheduler does not know the worker: it closes
  double time = 0;
  double heartbeat_interval_seconds = 0.5;
};
void write(MessageWriter& writer, const HeartbeatReply& message);
Status read(const Message& message, HeartbeatReply& out);

//! One worker as clients see it.
struct WorkerIdentity {
  std::string_view address;
  std::string_view host;
  KeyView name;
  std::vector<Amount> resources;
  std::string_view local_directory;
  std::uint64_t nthreads = 1;
  std::uint64_t memory_limit = 0;
  double last_seen = 0;
  std::vector<Port> services;
  PayloadRef metrics;       //!< null: the empty map
  PayloadRef more_metrics;  //!< a map whose entries are merged into them; null: none
  std::string_view status;
  std::string_view nanny;  //!< empty: nil
  PayloadRef extra;        //!< a map whose entries are merged in; null: none
  bool live = true;        //!< false: without metrics and last_seen (subscribe_worker_status)
};
//! Writes the map of one worker (without its address).
void write(MessageWriter& writer, const WorkerIdentity& worker);

struct Identity {
  std::string_view type = "Scheduler";
  std::string_view id;
  std::string_view address;
  std::vector<Port> services;
  double started = 0;
  std::uint64_t n_workers = 0;  //!< all there are, which may be more than are listed
  std::uint64_t total_threads = 0;
  std::uint64_t total_memory = 0;
  std::span<const WorkerIdentity> workers;
};
void write(MessageWriter& writer, const Identity& identity);

}  // namespace protocol
