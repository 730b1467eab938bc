//! The codec as a program, for pytests/test_wire_golden.py: messages in Dask's framing on stdin, what
//! we make of them on stdout.
//!
//!   echo     each message again, frame 0 rewritten value by value
//!   reread   each op of a worker-stream batch read into its struct and written from it
//!   samples  one batch with every op we write to workers, schedulers and clients, and pickles
//!   keys     for an array of keys: [canonical bytes, prefix, group, repr, str] of each
//!   pack, unpack   {"name": lz4|zstd, "data": bytes} -> compressed or plain bytes
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>

#include "protocol/wire/compression.h"
#include "protocol/wire/errors.h"
#include "protocol/wire/messages_client.h"
#include "protocol/wire/messages_register.h"
#include "protocol/wire/messages_rpc.h"
#include "protocol/wire/messages_worker.h"
#include "protocol/wire/ops.h"
#include "protocol/wire/pickles.h"

namespace {

using namespace protocol;

[[noreturn]] void give_up(const Error& error) {
  std::fprintf(stderr, "%s\n", error.text().c_str());
  std::exit(1);
}

void check(const Status& status) {
  if (!status) give_up(status.error());
}

void send(const OutMessage& message) {
  for (const Slice& piece : message.pieces) {
    std::fwrite(piece.data(), 1, piece.size(), stdout);
  }
}

void for_each_message(const std::function<void(const Message&)>& handle) {
  FrameReader reader(FrameReader::Profile::established);
  Message message;
  Frames frames;
  while (true) {
    const auto whole = reader.next(frames);
    if (!whole) give_up(whole.error());
    if (*whole) {
      check(message.reset(std::move(frames)));
      handle(message);
      continue;
    }
    const auto space = reader.prepare();
    const std::size_t count = std::fread(space.data, 1, space.size, stdin);
    if (count == 0) break;
    reader.commit(count);
  }
  if (reader.mid_message()) give_up({Fault::truncated, "stdin"});
}

void echo(const Message& message) {
  MessageWriter writer;
  check(writer.value(message, message.root()));
  send(writer.finish());
}

template <class Struct>
void again(const Message& message, Value op, MessageWriter& writer) {
  Struct parsed;
  check(read(message, op, parsed));
  write(writer, parsed);
}

void reread_op(const Message& message, Value op, MessageWriter& writer) {
  switch (op_of(op.find("op").as_str().value_or(""))) {
    case Op::compute_task: return again<ComputeTask>(message, op, writer);
    case Op::free_keys: return again<FreeKeys>(message, op, writer);
    case Op::remove_replicas: return again<RemoveReplicas>(message, op, writer);
    case Op::acquire_replicas: return again<AcquireReplicas>(message, op, writer);
    case Op::refresh_who_has: return again<RefreshWhoHas>(message, op, writer);
    case Op::steal_request: return again<StealRequest>(message, op, writer);
    case Op::worker_status_change: return again<WorkerStatusChange>(message, op, writer);
    case Op::remove_worker: return again<RemoveWorker>(message, op, writer);
    case Op::close: return again<CloseWorker>(message, op, writer);
    case Op::task_finished: return again<TaskFinished>(message, op, writer);
    case Op::task_erred: return again<TaskErred>(message, op, writer);
    case Op::release_worker_data: return again<ReleaseWorkerData>(message, op, writer);
    case Op::add_keys: return again<AddKeys>(message, op, writer);
    case Op::request_refresh_who_has: return again<RequestRefreshWhoHas>(message, op, writer);
    case Op::steal_response: return again<StealResponse>(message, op, writer);
    case Op::long_running: return again<LongRunning>(message, op, writer);
    case Op::reschedule: return again<Reschedule>(message, op, writer);
    case Op::log_event: return again<LogEvent>(message, op, writer);
    case Op::register_worker: return again<RegisterWorker>(message, op, writer);
    case Op::heartbeat_worker: return again<HeartbeatWorker>(message, op, writer);
    case Op::get_data: return again<GetDataCall>(message, op, writer);
    case Op::update_data_rpc: return again<UpdateDataCall>(message, op, writer);
    case Op::gather: return again<WorkerGatherCall>(message, op, writer);
    case Op::free_keys_rpc: return again<FreeKeysCall>(message, op, writer);
    default: give_up({Fault::unknown_op, std::string(op.raw())});
  }
}

void reread(const Message& message) {
  StreamBatch batch;
  for (const Value op : message.root().elements()) reread_op(message, op, batch.next());
  send(batch.close());
}

WhoHas who_has(KeyView key, KeyView other) {
  WhoHas out;
  out.add_key(key, 10);
  out.add_address("tcp://127.0.0.1:1");
  out.add_key(other, 20);
  out.add_address("tcp://127.0.0.1:2");
  return out;
}

void write_worker_samples(StreamBatch& batch, KeyView key, KeyView other) {
  RunSpec spec;  // a pickle of the pair (text, out-of-band buffer)
  spec.own = Slice::of_static("\x80\x05\x8c\x04spec");
  spec.tail = Slice::of_static("\x97\x86.");
  spec.buffers = {Slice::own(std::string(5000, 'b'))};
  ComputeTask compute;
  compute.key = key;
  compute.run_id = 7;
  compute.priority = {0, 1, 2};
  compute.dependencies = who_has(key, other);
  compute.spec = &spec;
  compute.stimulus_id = "compute-task-1";
  write(batch.next(), compute);
  compute.resources = {{"GPU", 1}, {"MEM", 0.5}};
  compute.span_id = "span";
  compute.actor = true;
  write(batch.next(), compute);
  write(batch.next(), FreeKeys{{key, other}, "s"});
  write(batch.next(), RemoveReplicas{{key}, "s"});
  write(batch.next(), AcquireReplicas{who_has(key, other), "s"});
  write(batch.next(), RefreshWhoHas{who_has(key, other), "s"});
  write(batch.next(), StealRequest{key, "s"});
  write(batch.next(), WorkerStatusChange{"closing_gracefully", "s"});
  write(batch.next(), RemoveWorker{"tcp://127.0.0.1:1", "s"});
  write(batch.next(), CloseWorker{"scheduler-close"});
  write(batch.next(), CloseStream{});
}

void write_scheduler_samples(StreamBatch& batch, KeyView key, KeyView other) {
  const std::vector<StartStop> spans{{StartStop::Action::compute, 1, 2, ""}};
  write(batch.next(), TaskFinished{key, 7, 28, "type", "int", nullptr, 5, spans, "s"});
  TaskErred erred;
  erred.key = key;
  erred.exception = bin_payload(pickle_exception({"ValueError", "bad"}));
  erred.startstops = spans;
  erred.stimulus_id = "s";
  write(batch.next(), erred);
  write(batch.next(), ReleaseWorkerData{key, "s"});
  write(batch.next(), AddKeys{{key, other}, "s"});
  write(batch.next(), RequestRefreshWhoHas{{key}, "s"});
  write(batch.next(), StealResponse{key, "ready", "s"});
  write(batch.next(), LongRunning{key, 7, 0.5, "s"});
  write(batch.next(), Reschedule{key, "s"});
  write(batch.next(), LogEvent{{"topic"}, str_payload("msg")});
  write(batch.next(), KeepAlive{});
  RegisterWorker worker;
  worker.address = "tcp://127.0.0.1:1";
  worker.name = key;
  worker.stimulus_id = "s";
  worker.server_id = "Worker-1";
  write(batch.next(), worker);
  HeartbeatWorker beat;
  beat.address = "tcp://127.0.0.1:1";
  beat.executing = {{key, 0.5}};
  write(batch.next(), beat);
}

void write_client_samples(StreamBatch& batch, KeyView key, KeyView other) {
  write(batch.next(), KeyInMemory{key, "type", {"tcp://127.0.0.1:1"}});
  write(batch.next(), KeyInMemory{key, "", {}});
  write(batch.next(), ClientTaskErred{key, bin_payload("e"), nullptr});
  write(batch.next(), LostData{key});
  write(batch.next(), TaskRetried{key});
  write(batch.next(), CancelledKeys{{key, other}, true, "reason", "msg"});
  write(batch.next(), CancelledKeys{{key}, false, "", ""});
  write(batch.next(), ClientRestart{});
  write(batch.next(), TopicEvent{"topic", 1.5, str_payload("msg")});
  write(batch.next(), AdjustHeartbeatInterval{5});
}

void write_pickles(MessageWriter& writer, KeyView key, KeyView other) {
  const std::string names[] = {"one", "two"};
  const std::pair<std::string, double> resources[] = {{"GPU", 1}};
  const std::string pickles[] = {
      pickle_exception({"ValueError", "it's " + std::string(300, 'x')}),
      pickle_key_error(other),
      pickle_killed_worker(key, "tcp://127.0.0.1:1", 3),
      pickle_no_valid_worker(other, names, {}, resources, 2.5),
      pickle_no_worker(key, 30),
      pickle_shuffle_worker_plugin(),
      pickle_exception({"P2PConsistencyError", "text", "distributed.shuffle._exceptions"})};
  writer.array(std::size(pickles));
  for (const std::string& pickle : pickles) writer.bin(pickle);
}

void samples() {
  const Key key = string_key("x-1");
  const Key other =  // ("y", 0.5, 0x1234)
      *canonical_key(ByteView("\x93\xa1y\xcb\x3f\xe0\0\0\0\0\0\0\xcd\x12\x34", 15));
  StreamBatch batch;
  write_worker_samples(batch, key, other);
  send(batch.close());
  write_scheduler_samples(batch, key, other);
  send(batch.close());
  write_client_samples(batch, key, other);
  send(batch.close());
  MessageWriter writer;
  write_pickles(writer, key, other);
  send(writer.finish());
  write_error(writer, {"KeyError", "gone"});
  send(writer.finish());
}

void keys(const Message& message) {
  MessageWriter writer;
  const Elements elements = message.root().elements();
  writer.array(static_cast<std::uint32_t>(elements.size()));
  for (const Value element : elements) {
    const auto key = message.key(element);
    if (!key) give_up(key.error());
    writer.array(6);
    writer.bin(key->bytes);
    writer.str(prefix_name(*key));
    writer.str(group_name(*key));
    writer.str(key_repr(*key));
    writer.str(key_text(*key));
    PickleWriter pickle;
    pickle.key(*key);
    writer.bin(pickle.finish());
  }
  send(writer.finish());
}

void convert(const Message& message, bool packing) {
  const auto kind = compression_of(message.root().find("name").as_str().value_or(""));
  if (!kind) give_up({Fault::bad_type, "name"});
  const ByteView data = message.root().find("data").as_bin().value_or(ByteView());
  MessageWriter writer;
  if (packing) {
    writer.bin(compress(*kind, data));
  } else {
    const auto plain = decompress(*kind, data, 1u << 30);
    if (!plain) give_up(plain.error());
    writer.bin(*plain);
  }
  send(writer.finish());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view task = argc > 1 ? argv[1] : "";
  if (task == "echo") {
    for_each_message(echo);
  } else if (task == "reread") {
    for_each_message(reread);
  } else if (task == "samples") {
    samples();
  } else if (task == "keys") {
    for_each_message(keys);
  } else if (task == "pack" || task == "unpack") {
    for_each_message([&](const Message& message) { convert(message, task == "pack"); });
  } else {
    std::fprintf(stderr, "wire_tool echo|reread|samples|keys|pack|unpack\n");
    return 2;
  }
  return 0;
}
