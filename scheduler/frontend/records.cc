//! See records.h.
#include "scheduler/frontend/records.h"

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "protocol/wire/message.h"

namespace scheduler {

using protocol::Error;
using protocol::Fault;
using protocol::Result;
using protocol::Slice;
using protocol::Status;
using protocol::Value;

namespace {

constexpr std::uint32_t kNone = 0xffffffff;
constexpr std::uint64_t kKeysMax = 0xfffffff0;

Error broken(std::string where) { return Error{Fault::bad_type, std::move(where)}; }

//! A slice that does not pin the read block it arrived in.
Slice kept(const Slice& slice) {
  return slice.size() <= protocol::FrameReader::kBlockFrameMax ? Slice::copy_of(slice.view())
                                                               : slice;
}

//! Offsets of n ranges within `total` elements: n + 1 numbers from 0 to total that never fall.
bool good_offsets(const Column<std::uint32_t>& offsets, std::size_t n, std::size_t total) {
  if (offsets.empty()) return total == 0;
  if (!offsets.whole() || offsets.size() != n + 1) return false;
  if (offsets[0] != 0 || offsets[n] != total) return false;
  for (std::size_t i = 0; i < n; ++i) {
    if (offsets[i] > offsets[i + 1]) return false;
  }
  return true;
}

bool all_below(const Column<std::uint32_t>& numbers, std::uint64_t limit) {
  if (!numbers.whole()) return false;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] >= limit) return false;
  }
  return true;
}

bool all_below_or_none(const Column<std::uint32_t>& numbers, std::uint64_t limit) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] >= limit && numbers[i] != kNone) return false;
  }
  return true;
}

}  // namespace

// ---- keys, blobs ------------------------------------------------------------------------------

Result<std::span<const KeyView>> GraphDecoder::keys(ByteView packed, bool outside) {
  if (!outside && outside_ > 0) return broken("keys of the graph after outside keys");
  auto read = asked(packed);
  if (!read) return read;
  (outside ? outside_ : inside_) += views_.size();
  if (keys_total() > kKeysMax) return broken("too many keys");
  return read;
}

Result<std::span<const KeyView>> GraphDecoder::asked(ByteView packed) {
  if (auto parsed = packed_.parse(packed); !parsed) return parsed.error();
  const Value root = packed_.root();
  if (!root.is_array()) return broken("keys that are not an array");
  views_.clear();
  spelled_.clear();
  views_.reserve(root.size());
  for (Value key : root.elements()) {
    auto canonical = protocol::check_key(key.raw());
    if (!canonical) return canonical.error();
    if (*canonical) {
      views_.push_back(KeyView{key.raw()});
      continue;
    }
    auto spelled = protocol::canonical_key(key.raw());
    if (!spelled) return spelled.error();
    views_.push_back(spelled_.emplace_back(std::move(*spelled)).view());
  }
  return std::span<const KeyView>(views_);
}

Status GraphDecoder::blobs(std::span<const Slice> frames, Value refs) {
  const std::size_t first = blobs_.size();
  if (first + frames.size() > kKeysMax) return broken("too many blobs");
  for (const Slice& frame : frames) blobs_.push_back(kept(frame));
  if (!refs.exists()) return protocol::Done{};
  if (!refs.is_array()) return broken("refs that are not an array");
  for (Value ref : refs.elements()) {
    if (!ref.is_array() || ref.size() != 4) return broken("a ref that is not four numbers");
    const auto frame = (*ref.elements().begin()).as_uint();
    if (!frame || *frame == 0 || *frame > frames.size()) return broken("a ref to no frame");
    auto slice = inside_request(ref);
    if (!slice) return slice.error();
    blobs_[first + *frame - 1] = *slice;
  }
  return protocol::Done{};
}

Result<Slice> GraphDecoder::inside_request(Value ref) const {
  auto element = ref.elements().begin();
  const auto source = (*++element).as_uint();
  const auto offset = (*++element).as_uint();
  const auto length = (*++element).as_uint();
  if (!source || !offset || !length) return broken("a ref that is not four numbers");
  if (*source >= request_.size()) return broken("a ref to a frame that was not sent");
  const Slice& frame = request_[*source];
  if (*offset > frame.size() || *length > frame.size() - *offset) {
    return broken("a ref beyond its frame");
  }
  return frame.sub(*offset, *length);
}

// ---- records ----------------------------------------------------------------------------------

struct GraphDecoder::Columns {
  std::uint64_t n = 0;
  std::uint64_t first = 0;
  std::uint32_t tail = kNone;
  Column<std::uint32_t> lengths;
  Slice own;
  Column<std::uint32_t> dependency_ends;
  Column<std::uint32_t> dependencies;
  Column<std::uint32_t> buffer_ends;
  Column<std::uint32_t> buffers;
  ByteView flags;
  Column<std::uint32_t> sets;
  Column<std::int64_t> priorities;
  Column<std::uint32_t> tails;
};

Status GraphDecoder::check(const Columns& c) const {
  if (c.n == 0 || c.n > kSliceMax) return broken("a slice of no or too many records");
  if (c.first != recorded_ || c.first + c.n > inside_) return broken("records of other keys");
  if (c.tail != kNone && c.tail >= blobs_.size()) return broken("a tail that is no blob");
  if (!c.lengths.whole() || c.lengths.size() != c.n) return broken("lengths of own bytes");
  std::uint64_t own = 0;
  for (std::size_t i = 0; i < c.n; ++i) own += c.lengths[i];
  if (own != c.own.size()) return broken("own bytes that do not add up");
  if (own > UINT32_MAX) return broken("a slice of more than 4 GiB");  // SpecBlock counts in 32 bits
  if (!all_below(c.dependencies, keys_total())) return broken("a dependency that is no key");
  if (!good_offsets(c.dependency_ends, c.n, c.dependencies.size())) {
    return broken("dependency offsets");
  }
  if (!all_below(c.buffers, blobs_.size())) return broken("a buffer that is no blob");
  if (!good_offsets(c.buffer_ends, c.n, c.buffers.size())) return broken("buffer offsets");
  if (!c.flags.empty() && c.flags.size() != c.n) return broken("flags");
  if (!c.sets.empty() && (!c.sets.whole() || c.sets.size() != c.n ||
                          !all_below_or_none(c.sets, sets_.size()))) {
    return broken("annotation sets");
  }
  if (!c.priorities.empty() && (!c.priorities.whole() || c.priorities.size() != c.n)) {
    return broken("priorities");
  }
  if (!c.tails.empty() && (!c.tails.whole() || c.tails.size() != c.n ||
                           !all_below_or_none(c.tails, blobs_.size()))) {
    return broken("tails");
  }
  return protocol::Done{};
}

//! The run specs of the slice. Blobs are numbered anew: the block keeps only those its tasks use.
SpecRef GraphDecoder::spec_block(const Columns& c) const {
  auto* block = new SpecBlock;
  absl::flat_hash_map<std::uint32_t, std::uint32_t> numbers;
  const auto number = [&](std::uint32_t blob) {
    if (blob == kNone) return SpecBlock::kNoBlob;
    const auto [found, made] = numbers.try_emplace(blob, block->blobs.size());
    if (made) block->blobs.push_back(blobs_[blob]);
    return found->second;
  };
  block->own = c.own;
  block->ends.reserve(c.n);
  std::uint32_t end = 0;
  for (std::size_t i = 0; i < c.n; ++i) block->ends.push_back(end += c.lengths[i]);
  if (c.tails.empty()) {
    block->tail = number(c.tail);
  } else {
    block->tails.reserve(c.n);
    for (std::size_t i = 0; i < c.n; ++i) block->tails.push_back(number(c.tails[i]));
  }
  if (!c.buffer_ends.empty()) {
    block->buffers.reserve(c.buffers.size());
    for (std::size_t b = 0; b < c.buffers.size(); ++b) block->buffers.push_back(number(c.buffers[b]));
    block->buffer_ends.reserve(c.n);
    for (std::size_t i = 1; i <= c.n; ++i) block->buffer_ends.push_back(c.buffer_ends[i]);
  }
  block->blobs.shrink_to_fit();
  return SpecRef(block);
}

Result<std::vector<GraphTask>> GraphDecoder::records(Value header,
                                                     std::span<const Slice> frames) {
  const auto n = header.find("n").as_uint();
  const auto first = header.find("first").as_uint();
  const Value tail = header.find("tail");
  const auto tail_number = tail.as_uint();
  if (!n || !first || frames.size() != kColumns) return broken("columns of records");
  if (!tail.is_nil() && (!tail_number || *tail_number >= kNone)) return broken("a tail");
  const Columns c{*n,
                  *first,
                  tail_number ? static_cast<std::uint32_t>(*tail_number) : kNone,
                  Column<std::uint32_t>(frames[0].view()),
                  kept(frames[1]),
                  Column<std::uint32_t>(frames[2].view()),
                  Column<std::uint32_t>(frames[3].view()),
                  Column<std::uint32_t>(frames[4].view()),
                  Column<std::uint32_t>(frames[5].view()),
                  frames[6].view(),
                  Column<std::uint32_t>(frames[7].view()),
                  Column<std::int64_t>(frames[8].view()),
                  Column<std::uint32_t>(frames[9].view())};
  if (auto good = check(c); !good) return good.error();

  const SpecRef specs = spec_block(c);
  dependencies_.resize(c.dependencies.size());
  if (!dependencies_.empty()) {
    std::memcpy(dependencies_.data(), c.dependencies.bytes().data(), c.dependencies.bytes().size());
  }
  std::vector<GraphTask> tasks(c.n);
  for (std::size_t i = 0; i < c.n; ++i) {
    GraphTask& task = tasks[i];
    task.key = static_cast<std::uint32_t>(c.first + i);
    task.spec = specs.at(static_cast<std::uint32_t>(i));
    if (!c.dependency_ends.empty()) {
      const std::size_t begin = c.dependency_ends[i];
      task.dependencies = std::span<const std::uint32_t>(dependencies_)
                              .subspan(begin, c.dependency_ends[i + 1] - begin);
    }
    if (!c.sets.empty() && c.sets[i] != kNone) task.annotations = sets_[c.sets[i]];
    task.priority = c.priorities.empty() ? static_cast<std::int64_t>(c.first + i)
                                         : c.priorities[i];
    task.data_producer = !c.flags.empty() && (c.flags[i] & 1) != 0;
  }
  recorded_ += c.n;
  return tasks;
}

Status GraphDecoder::complete() const {
  if (recorded_ != inside_) return broken("a commit before the last record");
  return protocol::Done{};
}

}  // namespace scheduler
