//! RPC calls and replies: a connection on which one side asks and the other answers, in turns.
//!
//! read_call() takes what every call has; the body of each op is then read by its own struct.
//! Calls a scheduler or a worker makes itself have writers, too. Structs borrow, as in
//! messages_worker.h.
//!
//! Answers to: distributed/core.py Server.handle_comm and send_recv; protocol.md 3.1, 4.5, 6, 7.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/base/key.h"
#include "protocol/base/payload.h"
#include "protocol/base/result.h"
#include "protocol/wire/message.h"
#include "protocol/wire/ops.h"
#include "protocol/wire/who_has.h"
#include "protocol/wire/writer.h"

namespace protocol {

using Data = std::vector<std::pair<KeyView, PayloadRef>>;

struct Call {
  Op op = Op::unknown;
  std::string_view name;  //!< of the op, as sent
  bool reply = true;      //!< false: nothing is written back
  bool close = false;     //!< the connection is closed after the reply
  Value body;             //!< the whole map
  Value serializers;      //!< families for the reply; does not exist if not sent
};
//! Fails unless the message is a map with a str field `op`.
Result<Call> read_call(const Message& message);

// ---- calls on the scheduler -------------------------------------------------------------------

struct IdentityCall {
  std::int64_t n_workers = -1;  //!< < 0: all
};
Status read(const Message& message, Value body, IdentityCall& out);

struct GatherCall {
  std::vector<KeyView> keys;
};
Status read(const Message& message, Value body, GatherCall& out);

struct ScatterCall {
  Data data;
  bool has_workers = false;  //!< false: any running worker
  std::vector<std::string_view> workers;
  std::string_view client;
  bool broadcast = false;
  std::int64_t copies = 0;  //!< of a broadcast; 0: all workers
  double timeout_seconds = 2;
};
Status read(const Message& message, Value body, ScatterCall& out);

//! who_has, retry and other calls about keys.
struct KeysCall {
  bool has_keys = false;  //!< false: all
  std::vector<KeyView> keys;
  std::string_view client;
};
Status read(const Message& message, Value body, KeysCall& out);

//! has_what, ncores, ncores_running, processing.
struct WorkersCall {
  bool has_workers = false;  //!< false: all
  std::vector<std::string_view> workers;
};
Status read(const Message& message, Value body, WorkersCall& out);

struct NbytesCall {
  bool has_keys = false;  //!< false: all
  std::vector<KeyView> keys;
  bool summary = true;    //!< by prefix
};
Status read(const Message& message, Value body, NbytesCall& out);

struct VersionsCall {
  std::vector<std::string_view> packages;
};
Status read(const Message& message, Value body, VersionsCall& out);

struct BroadcastCall {
  enum class OnError : std::uint8_t { raise, return_error, return_pickle, ignore };

  Value msg;  //!< the call to make on each worker
  bool has_workers = false;
  std::vector<std::string_view> workers;
  bool has_hosts = false;
  std::vector<std::string_view> hosts;
  bool nanny = false;
  OnError on_error = OnError::raise;
};
Status read(const Message& message, Value body, BroadcastCall& out);

struct ProxyCall {
  Value msg;
  std::string_view worker;
};
Status read(const Message& message, Value body, ProxyCall& out);

struct GetMetadataCall {
  std::vector<KeyView> keys;  //!< a path
  PayloadRef fallback;        //!< null: an unknown path is a KeyError
};
Status read(const Message& message, Value body, GetMetadataCall& out);

struct SetMetadataCall {
  std::vector<KeyView> keys;  //!< a path
  PayloadRef value;
};
Status read(const Message& message, Value body, SetMetadataCall& out);

struct RetireWorkersCall {
  bool has_workers = false;
  std::vector<std::string_view> workers;
  bool has_names = false;
  std::vector<KeyView> names;
  bool close_workers = false;
  bool remove = true;
  std::string_view stimulus_id;  //!< empty: not sent
  // If neither workers nor names are given: how workers_to_close is to choose.
  double memory_ratio = 0;       //!< 0: not given
  std::int64_t n = -1;           //!< < 0: not given
  std::int64_t minimum = -1;     //!< < 0: not given
  std::int64_t target = -1;      //!< < 0: not given
  ByteView key;                  //!< pickled callable; empty: none
  std::string_view attribute = "address";
};
//! Also reads workers_to_close.
Status read(const Message& message, Value body, RetireWorkersCall& out);

struct TerminateCall {
  double timeout_seconds = -1;  //!< < 0: not given
  std::string_view reason = "unknown";
};
void write(MessageWriter& writer, const TerminateCall& message);
Status read(const Message& message, Value body, TerminateCall& out);

// ---- replies of the scheduler -----------------------------------------------------------------

struct GatherReply {
  bool ok = true;
  Data data;
  std::vector<KeyView> failed;  //!< if not ok
};
void write(MessageWriter& writer, const GatherReply& message);

//! [key…]: scatter, retry.
void write_keys(MessageWriter& writer, std::span<const KeyView> keys);
//! {address: int}: ncores, ncores_running.
void write_counts(MessageWriter& writer,
                  std::span<const std::pair<std::string_view, std::uint64_t>> counts);
//! {key: int}: nbytes.
void write_key_counts(MessageWriter& writer,
                      std::span<const std::pair<KeyView, std::uint64_t>> counts);
//! {address: [key…]}: has_what, processing.
void write_keys_by_address(
    MessageWriter& writer,
    std::span<const std::pair<std::string_view, std::vector<KeyView>>> keys);
//! Reads {key: [address…]}, the reply of who_has; write_who_has writes it.
Status read_who_has_reply(const Message& message, WhoHas& out);

//! The call inside a broadcast or proxy, as it is to be sent on: its fields, `reply` set, `close`
//! cleared, and the caller's serializers if it named any.
Status write_forward(MessageWriter& writer, const Message& message, Value msg, Value serializers);

// ---- calls on workers -------------------------------------------------------------------------

struct GetDataCall {
  std::vector<KeyView> keys;
  std::string_view who;  //!< address of the asking worker; empty: nil
  Value serializers;     //!< of the call that causes this one; written if it exists
};
void write(MessageWriter& writer, const GetDataCall& message);
Status read(const Message& message, Value body, GetDataCall& out);

//! After an OK reply the asker writes the bare str "OK" (write_ok).
struct GetDataReply {
  bool busy = false;
  Data data;  //!< keys that are not held are left out
};
void write(MessageWriter& writer, const GetDataReply& message);
Status read(const Message& message, GetDataReply& out);

struct UpdateDataCall {
  Data data;
  std::string_view stimulus_id;  //!< empty: left out
};
void write(MessageWriter& writer, const UpdateDataCall& message);
Status read(const Message& message, Value body, UpdateDataCall& out);

struct UpdateDataReply {
  std::vector<std::pair<KeyView, std::uint64_t>> nbytes;
};
void write(MessageWriter& writer, const UpdateDataReply& message);
Status read(const Message& message, UpdateDataReply& out);

struct WorkerGatherCall {
  WhoHas who_has;
};
void write(MessageWriter& writer, const WorkerGatherCall& message);
Status read(const Message& message, Value body, WorkerGatherCall& out);

struct WorkerGatherReply {
  std::vector<KeyView> failed;  //!< none: status OK
};
void write(MessageWriter& writer, const WorkerGatherReply& message);
Status read(const Message& message, WorkerGatherReply& out);

struct FreeKeysCall {
  std::vector<KeyView> keys;
  std::string_view stimulus_id;
};
void write(MessageWriter& writer, const FreeKeysCall& message);
Status read(const Message& message, Value body, FreeKeysCall& out);

// ---- small replies ----------------------------------------------------------------------------

//! The bare str "OK".
void write_ok(MessageWriter& writer);
//! {"status": "OK"}
void write_status_ok(MessageWriter& writer);

}  // namespace protocol
