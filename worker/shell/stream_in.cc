#include "worker/shell/stream_in.h"

#include <memory>
#include <utility>

#include "protocol/wire/document.h"
#include "protocol/wire/fields.h"
#include "protocol/wire/ops.h"

namespace worker {

using protocol::Document;
using protocol::Done;
using protocol::Error;
using protocol::Fault;
using protocol::Message;
using protocol::Op;
using protocol::Status;
using protocol::WhoHas;

namespace {

void fill(const WhoHas& who_has, std::vector<Replica>& out) {
  out.clear();
  for (const protocol::Holders& holders : who_has.keys) {
    out.push_back({holders.key, holders.nbytes, who_has.workers(holders)});
  }
}

bool compressed(protocol::Value list) {
  for (const protocol::Value name : list.elements()) {
    if (!name.is_nil()) return true;
  }
  return false;
}

//! The pickle inside a `__Pickled__` bundle, without a copy; null if only Python can open it.
RunSpecRef open_spec(const protocol::Payload& payload) {
  if (payload.kind != protocol::Payload::Kind::pickled) return nullptr;
  Document header;
  if (!header.parse(payload.header.view())) return nullptr;
  const auto pickle = header.root().find("pickled-obj").as_bin();
  if (!pickle || compressed(header.root().find("compression"))) return nullptr;
  auto spec = std::make_shared<protocol::RunSpec>();
  spec->own = payload.header.sub(static_cast<std::size_t>(pickle->data() - payload.header.data()),
                                 pickle->size());
  spec->buffers = payload.frames;
  return spec;
}

//! What annotations say to the worker itself. Unless they surely leave the task on the default
//! executor, Python looks at them.
void heed(const protocol::Payload& annotations, Work& work) {
  work.named_executor = true;
  if (annotations.kind != protocol::Payload::Kind::inline_value) return;
  Document map;
  if (!map.parse(annotations.header.view())) return;
  const protocol::Value executor = map.root().find("executor");
  work.named_executor = executor.exists() && !executor.equals("default");
  work.lazy = !work.named_executor && map.root().find("rask").find("lazy").as_uint().has_value();
}

void annotate(Work& work, const PayloadRef& annotations) {
  if (!annotations || annotations->header.view() == ByteView("\x80", 1)) return;
  work.annotations = annotations;
  heed(*annotations, work);
}

WorkRef work_of(const protocol::ComputeTask& message) {
  auto work = std::make_shared<Work>();
  work->spec = open_spec(*message.run_spec);
  if (!work->spec) work->packed_spec = message.run_spec;
  work->span = message.span_id;
  annotate(*work, message.annotations);
  return work;
}

}  // namespace

Status StreamIn::on_message(const Message& message) {
  if (message.root().is_map()) return on_op(message, message.root());
  for (const protocol::Value op : message.root().elements()) {
    if (op.equals("OK")) break;  // as in stock: ends the batch
    const Status status = on_op(message, op);
    if (!status) return status;
  }
  return Done{};
}

template <class Read, class Make>
Status StreamIn::forward(const Message& message, protocol::Value op, const Make& make) {
  Read in;
  Status status = read(message, op, in);
  if (status) driver_.step(make(in), in.stimulus_id);
  return status;
}

Status StreamIn::on_compute(const Message& message, protocol::Value op) {
  Status status = read(message, op, compute_);
  if (!status) return status;
  fill(compute_.dependencies, replicas_);
  driver_.step(ComputeTask{compute_.key, RunId(compute_.run_id), Priority(compute_.priority),
                           replicas_, compute_.resources, compute_.actor, work_of(compute_)},
               compute_.stimulus_id);
  return status;
}

Status StreamIn::on_dense_compute(const Message& message, protocol::Value op) {
  protocol::Value tasks;
  Status status = read(message, op, dense_, tasks);
  if (!status) return status;
  for (protocol::NumberedBlob& blob : dense_.blobs) blobs_[blob.number] = std::move(blob.bytes);
  for (const protocol::Value record : tasks.elements()) {
    status = on_dense_task(message, record);
    if (!status) return status;
  }
  return status;
}

Status StreamIn::on_dense_task(const Message& message, protocol::Value record) {
  Status status = read(message, record, task_);
  if (!status) return status;
  auto spec = std::make_shared<protocol::RunSpec>();
  spec->own = task_.own;
  const auto blob = [this, &status](protocol::BlobNumber number) {
    const auto found = blobs_.find(number);
    if (found != blobs_.end()) return found->second;
    status = Error{Fault::bad_type, "rask-compute: a blob that was never sent"};
    return protocol::Slice();
  };
  if (task_.tail != 0) spec->tail = blob(task_.tail);
  for (const protocol::Part& part : task_.buffers) {
    spec->buffers.push_back(part.number != 0 ? blob(part.number) : part.bytes);
  }
  if (!status) return status;
  auto work = std::make_shared<Work>();
  work->spec = std::move(spec);
  annotate(*work, task_.annotations);
  fill(task_.dependencies, replicas_);
  driver_.step(ComputeTask{task_.key, RunId(task_.run_id), Priority(task_.priority), replicas_,
                           task_.resources, task_.actor, std::move(work)},
               dense_.stimulus_id);
  return status;
}

Status StreamIn::on_forget(const Message& message, protocol::Value op) {
  protocol::ForgetBlobs in;
  Status status = read(message, op, in);
  for (const protocol::BlobNumber number : in.numbers) blobs_.erase(number);
  return status;
}

Status StreamIn::on_op(const Message& message, protocol::Value op) {
  const std::string_view name = op.find("op").as_str().value_or("");
  switch (protocol::op_of(name)) {
    case Op::compute_task:
      return on_compute(message, op);
    case Op::rask_compute:
      return on_dense_compute(message, op);
    case Op::rask_forget:
      return on_forget(message, op);
    case Op::free_keys:
      return forward<protocol::FreeKeys>(message, op, [](auto& m) { return FreeKeys{m.keys}; });
    case Op::remove_replicas:
      return forward<protocol::RemoveReplicas>(message, op,
                                               [](auto& m) { return RemoveReplicas{m.keys}; });
    case Op::acquire_replicas:
      return forward<protocol::AcquireReplicas>(message, op, [this](auto& m) {
        fill(m.who_has, replicas_);
        return AcquireReplicas{replicas_};
      });
    case Op::refresh_who_has:
      return forward<protocol::RefreshWhoHas>(message, op, [this](auto& m) {
        fill(m.who_has, replicas_);
        return RefreshWhoHas{replicas_};
      });
    case Op::steal_request:
      return forward<protocol::StealRequest>(message, op,
                                             [](auto& m) { return StealRequest{m.key}; });
    case Op::remove_worker: {
      hooks_.peer_gone(std::string(op.find("worker").as_str().value_or("")));
      return forward<protocol::RemoveWorker>(message, op,
                                             [](auto& m) { return RemoveWorker{m.worker}; });
    }
    case Op::worker_status_change: {
      protocol::WorkerStatusChange in;
      Status status = read(message, op, in);
      if (status) hooks_.status_change(in.status, in.stimulus_id);
      return status;
    }
    case Op::cancel_compute:
      return forward<protocol::StealRequest>(message, op,
                                             [](auto& m) { return CancelCompute{m.key}; });
    case Op::close:
      hooks_.close(std::string(op.find("reason").as_str().value_or("scheduler-close")));
      return Done{};
    case Op::close_stream:
      return Error{Fault::closed, "the scheduler closed the stream"};
    default:
      if (name.empty()) return Error{Fault::unknown_op, "stream message without op"};
      hooks_.other(message, op);
      return Done{};
  }
}

}  // namespace worker
