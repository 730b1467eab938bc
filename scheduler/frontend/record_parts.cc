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
  if (const auto raw = set.find("raw").as_bin()) {
    auto map = inline_map(*raw);
    if (!map) return map.error();
    annotations->raw = std::move(*map);
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
  GraphBarrier barrier;
  barrier.key = static_cast<std::uint32_t>(*key);
  barrier.id = std::string(*id);
  auto run_spec = std::make_shared<protocol::RunSpec>();
  run_spec->own = blobs_[*spec];
  for (Value buffer : value.find("buffers").elements()) {
    const auto number = buffer.as_uint();
    if (!number || *number >= blobs_.size()) return broken("a barrier's buffer");
    run_spec->buffers.push_back(blobs_[*number]);
  }
  barrier.spec = std::move(run_spec);
  if (value.find("kind").equals("dataframe")) {
    barrier.kind = GraphBarrier::Kind::dataframe;
    const auto npartitions = value.find("npartitions").as_uint();
    if (!npartitions || *npartitions == 0) return broken("a barrier without partitions");
    barrier.npartitions = *npartitions;
    for (Value part : value.find("parts_out").elements()) {
      const auto number = part.as_uint();
      if (!number) return broken("a partition");
      barrier.parts_out.push_back(*number);
    }
    return barrier;
  }
  if (!value.find("kind").equals("array")) return broken("a barrier of unknown kind");
  barrier.kind = GraphBarrier::Kind::array;
  for (Value axis : value.find("chunks").elements()) {
    const auto count = axis.as_uint();
    if (!count || *count == 0 || *count > 0xffffffff) return broken("a chunk count");
    barrier.chunks.push_back(static_cast<std::uint32_t>(*count));
  }
  return barrier;
}

}  // namespace scheduler
