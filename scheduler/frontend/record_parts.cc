//! The rarer parts of a submission's answer: annotation sets and P2P barriers. See records.h.
#include <cmath>
#include <memory>
#include <string>

#include "protocol/wire/message.h"
#include "protocol/wire/writer.h"
#include "scheduler/frontend/records.h"

namespace scheduler {

using protocol::Error;
using protocol::Fault;
using protocol::Payload;
using protocol::Result;
using protocol::Slice;
using protocol::Status;
using protocol::Value;

namespace {

constexpr std::uint64_t kMemoryMax = 1ull << 60;       //!< bytes; sums of these must not overflow
constexpr std::uint64_t kShuffleOutputsMax = 1 << 26;  //!< each also has a task in the graph

Error broken(std::string where) { return Error{Fault::bad_type, std::move(where)}; }

//! The map that compute-task carries. It is written into other messages as it is, so it must be
//! one well-formed value without references to frames.
Result<PayloadRef> inline_map(ByteView packed) {
  protocol::Document document;
  if (auto parsed = document.parse(packed); !parsed) return parsed.error();
  if (!document.root().is_map() || protocol::holds_marker(document.root())) {
    return broken("annotations that are not a plain map");
  }
  auto payload = std::make_shared<Payload>();
  payload->header = Slice::copy_of(packed);
  return PayloadRef(std::move(payload));
}

//! Whether {"rask": {"lazy": number}} is among the annotations, and not that the task puts together
//! what it reads ("joins").
bool is_lazy(ByteView packed) {
  protocol::Document document;
  if (!document.parse(packed)) return false;
  const Value told = document.root().find("rask");
  return told.find("lazy").as_uint().has_value() && !told.find("joins").as_bool().value_or(false);
}

PayloadRef pickled_map(ByteView pickle) {
  protocol::MessageWriter header;
  header.map(2);
  header.field("pickled-obj");
  header.bin(pickle);
  header.field("num-sub-frames");
  header.uinteger(0);
  auto payload = std::make_shared<Payload>();
  payload->kind = Payload::Kind::pickled;
  payload->header = header.take_payload()->header;
  return payload;
}

Result<Resources> resources_of(Value map) {
  Resources resources;
  for (const protocol::Entry entry : map.entries()) {
    const auto name = entry.key.as_str();
    const auto amount = entry.value.as_double();
    if (!name || !amount || std::isnan(*amount)) return broken("a resource");
    resources.emplace_back(std::string(*name), *amount);
  }
  std::sort(resources.begin(), resources.end());
  return resources;
}

//! Both are optional: a graph process of another version may not know them.
Status memory_bound(Value set, Annotations& out) {
  if (const Value memory = set.find("memory"); memory.exists()) {
    const auto bytes = memory.as_uint();
    if (!bytes || *bytes > kMemoryMax) return broken("a need for memory");
    out.memory = *bytes;
  }
  if (const Value io = set.find("io"); io.exists()) {
    const auto device = io.find("device").as_str();
    const auto concurrency = io.find("concurrency").as_uint();
    if (!device || !concurrency) return broken("a limit of loads");
    out.io_device = std::string(*device);
    out.io_concurrency =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(*concurrency, 0xffffffff));
  }
  return protocol::Done{};
}

Status frame_outputs(Value value, ShuffleSpec& out) {
  out.kind = ShuffleSpec::Kind::dataframe;
  const auto npartitions = value.find("npartitions").as_uint();
  if (!npartitions || *npartitions == 0 || *npartitions > kShuffleOutputsMax) {
    return broken("a barrier's number of partitions");
  }
  out.npartitions = *npartitions;
  for (Value part : value.find("parts_out").elements()) {
    const auto number = part.as_uint();
    if (!number) return broken("a partition");
    out.parts_out.push_back(*number);
  }
  return protocol::Done{};
}

Status array_outputs(Value value, ShuffleSpec& out) {
  out.kind = ShuffleSpec::Kind::array;
  std::uint64_t product = 1;
  for (Value axis : value.find("chunks").elements()) {
    const auto count = axis.as_uint();
    if (!count || *count == 0 || *count > kShuffleOutputsMax / product) {
      return broken("a chunk count");
    }
    product *= *count;
    out.chunks.push_back(static_cast<std::uint32_t>(*count));
  }
  return protocol::Done{};
}

Status shuffle_outputs(Value value, ShuffleSpec& out) {
  if (value.find("kind").equals("dataframe")) return frame_outputs(value, out);
  if (value.find("kind").equals("array")) return array_outputs(value, out);
  return broken("a barrier of unknown kind");
}

}  // namespace

Status GraphDecoder::annotations(Value sets) {
  if (!sets.is_array()) return broken("annotation sets that are not an array");
  for (Value set : sets.elements()) {
    auto annotations = annotation_set(set);
    if (!annotations) return annotations.error();
    sets_.push_back(std::move(*annotations));
  }
  return protocol::Done{};
}

Result<AnnotationsRef> GraphDecoder::annotation_set(Value set) {
  const auto priority = set.find("priority").as_double();
  const auto retries = set.find("retries").as_uint();
  const auto loose = set.find("allow_other_workers").as_bool();
  const Value workers = set.find("workers");
  if (!priority || std::isnan(*priority) || !retries || !loose || !workers.is_array()) {
    return broken("an annotation set");
  }
  auto annotations = std::make_shared<Annotations>();
  annotations->priority = *priority;
  annotations->retries = static_cast<std::uint32_t>(std::min<std::uint64_t>(*retries, 0xffffffff));
  annotations->allow_other_workers = *loose;
  for (Value worker : workers.elements()) {
    auto key = protocol::canonical_key(worker.raw());
    if (!key) return key.error();
    annotations->workers.push_back(std::move(*key));
  }
  auto resources = resources_of(set.find("resources"));
  if (!resources) return resources.error();
  annotations->resources = std::move(*resources);
  if (auto memory = memory_bound(set, *annotations); !memory) return memory.error();
  if (const auto raw = set.find("raw").as_bin()) {
    auto map = inline_map(*raw);
    if (!map) return map.error();
    annotations->raw = std::move(*map);
    annotations->lazy = is_lazy(annotations->raw->header.view());
  } else if (const auto pickle = set.find("pickled").as_bin()) {
    annotations->raw = pickled_map(*pickle);
  }
  return AnnotationsRef(std::move(annotations));
}

Result<std::vector<GraphBarrier>> GraphDecoder::barriers(Value list) {
  if (!list.is_array()) return broken("barriers that are not an array");
  std::vector<GraphBarrier> barriers;
  for (Value value : list.elements()) {
    auto one = barrier(value);
    if (!one) return one.error();
    barriers.push_back(std::move(*one));
  }
  return barriers;
}

Result<GraphBarrier> GraphDecoder::barrier(Value value) const {
  const auto key = value.find("key").as_uint();
  const auto id = value.find("shuffle").as_str();
  const auto spec = value.find("spec").as_uint();
  if (!key || *key >= inside_ || !id || !spec || *spec >= blobs_.size()) return broken("a barrier");
  auto shuffle = std::make_shared<ShuffleSpec>();
  shuffle->id = std::string(*id);
  auto pickle = std::make_shared<protocol::RunSpec>();
  pickle->own = blobs_[*spec];
  shuffle->pickle = std::move(pickle);
  if (auto outputs = shuffle_outputs(value, *shuffle); !outputs) return outputs.error();
  return GraphBarrier{static_cast<std::uint32_t>(*key), std::move(shuffle)};
}

}  // namespace scheduler
