//! See graph_request.h.
#include "scheduler/frontend/graph_request.h"

#include <fcntl.h>

#include <memory>
#include <utility>

#include "protocol/wire/message.h"
#include "protocol/wire/shared_memory.h"
#include "protocol/wire/writer.h"

namespace scheduler {

using protocol::MessageWriter;
using protocol::Payload;
using protocol::Slice;

namespace {

constexpr std::size_t kMemfdMin = 1u << 20;
constexpr std::size_t kMemfdsMax = 64;  //!< descriptors in one message

bool out_of_line(const PayloadRef& payload) {
  return payload != nullptr &&
         (payload->kind == Payload::Kind::serialized || payload->kind == Payload::Kind::pickled);
}

//! Collects frames while their numbers are still to be written.
struct Frames {
  GraphRequest& request;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> listed;  //!< (frame, length) of memfds

  //! The frame as it goes through the socket: empty if it goes as a memfd.
  Slice add(const Slice& frame) {
    const std::uint64_t number = request.frames.size();
    request.frames.push_back(frame);
    if (frame.size() < kMemfdMin || request.fds.size() >= kMemfdsMax) return frame;
    if (!protocol::shared_descriptor(frame)) {
      auto copy = protocol::shared_copy_of(frame.view());
      if (!copy) return frame;
      request.frames.back() = std::move(*copy);
    }
    const auto descriptor = protocol::shared_descriptor(request.frames.back());
    Fd fd(::fcntl(*descriptor, F_DUPFD_CLOEXEC, 0));
    if (!fd.valid()) return frame;
    listed.emplace_back(number, frame.size());
    request.fds.push_back(std::move(fd));
    return Slice();
  }

  //! The bundle of an out-of-line payload; nothing for one that is written in place.
  std::vector<Slice> bundle(const PayloadRef& payload) {
    std::vector<Slice> frames;
    if (!out_of_line(payload)) return frames;
    frames.push_back(add(payload->header));
    for (const Slice& frame : payload->frames) frames.push_back(add(frame));
    return frames;
  }
};

void write_bundle(MessageWriter& writer, const PayloadRef& payload,
                  const std::vector<Slice>& bundle) {
  if (!bundle.empty()) {
    writer.marker(payload->kind, bundle);
  } else if (payload != nullptr && payload->kind == Payload::Kind::inline_value) {
    writer.raw(payload->header.view());
  } else {
    writer.nil();
  }
}

void write_fds(MessageWriter& writer, const Frames& frames) {
  writer.field("fds");
  writer.array(static_cast<std::uint32_t>(frames.listed.size()));
  for (const auto& [number, length] : frames.listed) {
    writer.array(2);
    writer.uinteger(number);
    writer.uinteger(length);
  }
}

void write_workers(MessageWriter& writer, const GraphWorkers& workers) {
  writer.map(3);
  writer.field("memory");
  writer.uinteger(workers.memory);
  writer.field("threads");
  writer.uinteger(workers.threads);
  writer.field("all-threads");
  writer.uinteger(workers.all_threads);
}

//! The same payload with the frames that are in `request` now, so that their old memory can go.
PayloadRef moved(const PayloadRef& payload, const GraphRequest& request, std::size_t first) {
  if (!out_of_line(payload)) return payload;
  auto copy = std::make_shared<Payload>(*payload);
  for (std::size_t i = 0; i < copy->frames.size(); ++i) {
    copy->frames[i] = request.frames[first + 1 + i];
  }
  return copy;
}

}  // namespace

GraphRequest graph_request(GraphSubmission& submission) {
  GraphRequest request;
  request.frames.emplace_back();  // frame 0
  Frames frames{request, {}};
  const std::vector<Slice> expr = frames.bundle(submission.expr);
  const std::vector<Slice> annotations = frames.bundle(submission.annotations);
  const std::vector<Slice> fifo_timeout = frames.bundle(submission.fifo_timeout);
  const std::uint64_t keys = request.frames.size();
  const Slice wanted = frames.add(submission.wanted);

  MessageWriter writer;
  writer.map(submission.fifo_timeout != nullptr ? 10 : 9);
  writer.field("op");
  writer.literal("graph");
  writer.field("id");
  writer.uinteger(submission.id.value);
  writer.field("expr");
  write_bundle(writer, submission.expr, expr);
  writer.field("annotations");
  write_bundle(writer, submission.annotations, annotations);
  if (submission.fifo_timeout != nullptr) {
    writer.field("fifo_timeout");
    write_bundle(writer, submission.fifo_timeout, fifo_timeout);
  }
  writer.field("order");
  writer.boolean(submission.order);
  writer.field("keys");
  writer.uinteger(keys);
  writer.field("settings");
  submission.settings.empty() ? writer.nil() : writer.raw(submission.settings);
  writer.field("workers");
  write_workers(writer, submission.workers);
  write_fds(writer, frames);
  writer.attach(wanted);
  request.message = writer.finish();
  if (!request.fds.empty()) {
    submission.annotations = moved(submission.annotations, request, 1 + expr.size());
    submission.expr = moved(submission.expr, request, 1);
  }
  return request;
}

protocol::OutMessage drop_request(SubmissionId id) {
  MessageWriter writer;
  writer.map(2);
  writer.field("op");
  writer.literal("drop");
  writer.field("id");
  writer.uinteger(id.value);
  return writer.finish();
}

protocol::OutMessage homes_answer(SubmissionId id, std::span<const std::uint32_t> homes) {
  MessageWriter writer;
  writer.map(2);
  writer.field("op");
  writer.literal("homes");
  writer.field("id");
  writer.uinteger(id.value);
  writer.attach(Slice::copy_of({reinterpret_cast<const char*>(homes.data()), homes.size_bytes()}));
  return writer.finish();
}

GraphRequest upload_request(Upload& upload, const std::string& directory) {
  GraphRequest request;
  request.frames.emplace_back();  // frame 0
  Frames frames{request, {}};
  const Slice plugin = frames.add(upload.plugin);
  upload.plugin = request.frames[1];

  MessageWriter writer;
  writer.map(4);
  writer.field("op");
  writer.literal("upload");
  writer.field("id");
  writer.uinteger(upload.id);
  writer.field("directory");
  writer.str(directory);
  write_fds(writer, frames);
  writer.attach(plugin);
  request.message = writer.finish();
  return request;
}

}  // namespace scheduler
