//! A graph process may send anything: the decoder of its answers takes every stream without harm,
//! and what it accepts keeps its promises (records.h).
#include <cstring>
#include <vector>

#include "protocol/wire/frames.h"
#include "protocol/wire/message.h"
#include "scheduler/frontend/graph_errors.h"
#include "scheduler/frontend/records.h"
#include "tests/fuzz/input.h"

namespace {

using namespace scheduler;
using protocol::Slice;
using protocol::Value;

std::uint64_t keys_told = 0;

void hear(GraphDecoder& decoder, const protocol::Message& message) {
  const Value header = message.root();
  const std::span<const Slice> rest = std::span<const Slice>(message.frames()).subspan(1);
  const auto op = header.find("op").as_str().value_or("");
  if (op == "keys" && !rest.empty()) {
    const auto keys = decoder.keys(rest[0].view(), header.find("outside").as_bool().value_or(false));
    if (keys.ok()) keys_told += keys->size();
  } else if (op == "homes" && !rest.empty()) {
    (void)decoder.asked(rest[0].view()).ok();
  } else if (op == "blobs") {
    (void)decoder.blobs(rest, header.find("refs")).ok();
  } else if (op == "annotations") {
    (void)decoder.annotations(header.find("sets")).ok();
  } else if (op == "barriers") {
    (void)decoder.barriers(header.find("barriers")).ok();
  } else if (op == "error") {
    (void)reported_error(header);
  } else if (op == "records") {
    const auto tasks = decoder.records(header, rest);
    if (!tasks.ok()) return;
    for (const GraphTask& task : *tasks) {
      fuzz::require(task.key < keys_told && bool(task.spec));
      (void)task.spec.get();  // reads every column at this task's place
      for (const std::uint32_t dependency : task.dependencies) {
        fuzz::require(dependency < keys_told);
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  protocol::FrameReader reader(protocol::FrameReader::Profile::established);
  GraphDecoder decoder({Slice(), Slice::of_static("0123456789")});
  keys_told = 0;
  protocol::Message message;
  while (size > 0) {
    const auto space = reader.prepare();
    const std::size_t count = std::min(space.size, size);
    std::memcpy(space.data, data, count);
    reader.commit(count);
    data += count;
    size -= count;
    protocol::Frames frames;
    while (true) {
      const auto whole = reader.next(frames);
      if (!whole.ok()) return 0;
      if (!*whole) break;
      if (message.reset(std::move(frames)).ok()) hear(decoder, message);
    }
  }
  (void)decoder.complete().ok();
  return 0;
}
