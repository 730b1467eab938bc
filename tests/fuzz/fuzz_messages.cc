//! Every reader takes every map without harm; what it accepts, its writer can write and it reads again.
#include <string>

#include "protocol/wire/compression.h"
#include "protocol/wire/errors.h"
#include "protocol/wire/messages_client.h"
#include "protocol/wire/messages_dense.h"
#include "protocol/wire/messages_register.h"
#include "protocol/wire/messages_rpc.h"
#include "protocol/wire/messages_worker.h"
#include "tests/fuzz/input.h"

namespace {

using namespace protocol;

template <class... Structs>
void read_all(const Message& message, Value op) {
  (
      [&] {
        Structs parsed;
        (void)read(message, op, parsed).ok();
      }(),
      ...);
}

template <class Struct>
void repeat(const Message& message, Value op) {
  Struct parsed;
  if (!read(message, op, parsed)) return;
  MessageWriter writer;
  write(writer, parsed);
  const PayloadRef made = writer.take_payload();
  Frames frames{made->header};
  frames.insert(frames.end(), made->frames.begin(), made->frames.end());
  Message again;
  fuzz::require(again.reset(std::move(frames)).ok());
  Struct second;
  fuzz::require(read(again, again.root(), second).ok());
}

template <class... Structs>
void repeat_all(const Message& message, Value op) {
  (repeat<Structs>(message, op), ...);
}

template <class... Structs>
void read_replies(const Message& message) {
  (
      [&] {
        Structs parsed;
        (void)read(message, parsed).ok();
      }(),
      ...);
}

void try_dense(const Message& message, Value op) {
  DenseCompute head;
  Value tasks;
  if (!read(message, op, head, tasks)) return;
  std::size_t left = 20;
  for (const Value record : tasks.elements()) {
    DenseTask task;
    if (left-- == 0 || !read(message, record, task)) break;
    MessageWriter writer;
    head.tasks = 1;
    write(writer, head);
    write(writer, task);
    const PayloadRef made = writer.take_payload();
    Frames frames{made->header};
    frames.insert(frames.end(), made->frames.begin(), made->frames.end());
    Message again;
    fuzz::require(again.reset(std::move(frames)).ok());
    fuzz::require(read(again, again.root(), head, tasks).ok() && tasks.size() == 1);
    for (const Value second : tasks.elements()) fuzz::require(read(again, second, task).ok());
    return;  // `message` is not looked at again: head and tasks are of another one now
  }
}

void try_op(const Message& message, Value op) {
  try_dense(message, op);
  repeat_all<ComputeTask, FreeKeys, RemoveReplicas, AcquireReplicas, RefreshWhoHas, StealRequest,
             WorkerStatusChange, RemoveWorker, CloseWorker, TaskFinished, TaskErred,
             ReleaseWorkerData, AddKeys, RequestRefreshWhoHas, StealResponse, LongRunning,
             Reschedule, LogEvent, DenseFinished, ForgetBlobs, RegisterWorker, HeartbeatWorker,
             GetDataCall, UpdateDataCall,
             WorkerGatherCall, FreeKeysCall, TerminateCall>(message, op);
  read_all<UpdateGraph, ClientDesiresKeys, ClientReleasesKeys, CancelKeys, ReportKey,
           TopicSubscription, UpdateData, RegisterClient, IdentityCall, GatherCall, ScatterCall,
           KeysCall, WorkersCall, NbytesCall, VersionsCall, BroadcastCall, ProxyCall,
           GetMetadataCall, SetMetadataCall, RetireWorkersCall>(message, op);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Message message;
  if (!message.reset(fuzz::frames_of(fuzz::view(data, size)))) return 0;
  (void)read_call(message).ok();
  (void)as_error(message);
  read_replies<Handshake, RegisterWorkerReply, HeartbeatReply, GetDataReply, UpdateDataReply,
               WorkerGatherReply>(message);
  WhoHas who_has;
  (void)read_who_has_reply(message, who_has).ok();
  try_op(message, message.root());
  std::size_t left = 20;
  for (const Value op : message.root().elements()) {
    if (left-- == 0) break;
    try_op(message, op);
  }
  return 0;
}
