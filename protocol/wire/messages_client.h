//! The ops of the client stream: what a scheduler writes to clients and reads from them.
//!
//! Clients are always stock, so each op has only the direction the scheduler needs. A message to a
//! client never has a field `status`: the client would raise out of its reader. Structs borrow, as
//! in messages_worker.h.
//!
//! Answers to: distributed/client.py, _stream_handlers and _graph_to_futures; protocol.md 4.2–4.4.
#pragma once

#include <cstdint>
#include <optional>
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

// ---- scheduler to client ----------------------------------------------------------------------

//! Must be alone in its batch.
struct StreamStart {
  std::string_view warning;  //!< empty: left out
  std::string_view error;    //!< empty: left out; otherwise the client refuses to go on
};
void write(MessageWriter& writer, const StreamStart& message);

struct KeyInMemory {
  KeyView key;
  ByteView type;                          //!< pickled class; empty: left out
  std::vector<std::string_view> workers;  //!< empty: left out
};
void write(MessageWriter& writer, const KeyInMemory& message);

struct ClientTaskErred {  //!< task-erred
  KeyView key;
  PayloadRef exception;
  PayloadRef traceback;  //!< null: nil
};
void write(MessageWriter& writer, const ClientTaskErred& message);

struct LostData {
  KeyView key;
};
void write(MessageWriter& writer, const LostData& message);

struct TaskRetried {
  KeyView key;
};
void write(MessageWriter& writer, const TaskRetried& message);

struct CancelledKeys {
  std::vector<KeyView> keys;
  bool as_set = false;      //!< stock sends a set for lost dependencies, a list otherwise
  std::string_view reason;  //!< empty: left out
  std::string_view msg;     //!< empty: left out
};
void write(MessageWriter& writer, const CancelledKeys& message);

struct ClientRestart {};  //!< restart
void write(MessageWriter& writer, const ClientRestart& message);

struct TopicEvent {  //!< event
  std::string_view topic;
  double timestamp = 0;
  PayloadRef msg;
};
void write(MessageWriter& writer, const TopicEvent& message);

struct AdjustHeartbeatInterval {
  double interval_seconds = 0;
};
void write(MessageWriter& writer, const AdjustHeartbeatInterval& message);

struct StreamClosed {};
void write(MessageWriter& writer, const StreamClosed& message);

// ---- client to scheduler ----------------------------------------------------------------------

struct UpdateGraph {
  enum class Actors : std::uint8_t { none, all, listed };

  PayloadRef expr;             //!< expr_ser: only a graph process may open it
  std::vector<KeyView> keys;   //!< wanted by the client
  bool has_priorities = false; //!< false: the graph is to be ordered
  //! What `map` and `submit` send: `keys` is in order of priority, from 0 on, all of them.
  bool priorities_in_order = false;
  std::vector<std::pair<KeyView, std::int64_t>> priorities;  //!< otherwise
  bool has_submitting_task = false;
  KeyView submitting_task;
  double fifo_timeout_seconds = 0;
  //! Null, or what is not plainly a span of time: a graph process reads it or says what is wrong.
  PayloadRef fifo_timeout;
  Actors actors = Actors::none;
  std::vector<KeyView> actor_keys;
  PayloadRef code;
  PayloadRef annotations;
  PayloadRef span_metadata;
  std::string_view stimulus_id;  //!< empty: not sent
};
Status read(const Message& message, Value op, UpdateGraph& out);

struct ClientDesiresKeys {
  std::vector<KeyView> keys;
  std::string_view client;  //!< empty: the sender
};
Status read(const Message& message, Value op, ClientDesiresKeys& out);

struct ClientReleasesKeys {
  std::vector<KeyView> keys;
  std::string_view client;  //!< empty: the sender
};
Status read(const Message& message, Value op, ClientReleasesKeys& out);

struct CancelKeys {
  std::vector<KeyView> keys;
  bool force = false;  //!< as Python sees it: any value
  std::string reason;  //!< as Python would print it: may be any value, too
  std::string msg;
  std::string_view client;  //!< empty: the sender
};
Status read(const Message& message, Value op, CancelKeys& out);

struct ReportKey {
  KeyView key;
  std::string_view client;  //!< empty: the sender
};
Status read(const Message& message, Value op, ReportKey& out);

//! subscribe-topic and unsubscribe-topic.
struct TopicSubscription {
  std::string_view topic;
  std::string_view client;  //!< empty: the sender
};
Status read(const Message& message, Value op, TopicSubscription& out);

//! update-data of the stream and update_data of the RPC.
struct UpdateData {
  WhoHas who_has;
  std::string_view client;  //!< empty: the sender on a stream, nobody in an RPC
};
Status read(const Message& message, Value op, UpdateData& out);

//! A span of time as Dask writes one: a number of seconds, or a text such as "100 ms" or "60s".
std::optional<double> as_seconds(Value value);

}  // namespace protocol
