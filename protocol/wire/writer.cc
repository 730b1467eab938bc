#include "protocol/wire/writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace protocol {
namespace {

constexpr std::size_t kOnceMax = 8;          //!< values looked for in payload_once
constexpr std::size_t kMoveMin = 64 * 1024;  //!< a larger frame 0 is handed over, not copied

void put_word(char* at, std::uint64_t word) { std::memcpy(at, &word, 8); }

void put_u32(char* at, std::uint32_t value) {
  for (int k = 0; k < 4; ++k) at[k] = static_cast<char>(value >> (8 * (3 - k)));
}

//! Lays the prelude, frame 0 and all small pieces of a message into one block.
class Block {
 public:
  explicit Block(std::size_t bytes)
      : owner_(std::make_shared_for_overwrite<char[]>(bytes)), at_(owner_.get()) {}

  char* room(std::size_t bytes) {
    char* place = at_;
    at_ += bytes;
    return place;
  }
  void copy(ByteView bytes) {
    if (!bytes.empty()) std::memcpy(room(bytes.size()), bytes.data(), bytes.size());
  }
  //! What was laid down since the last call.
  Slice cut() {
    const ByteView bytes(owner_.get() + cut_, static_cast<std::size_t>(at_ - owner_.get()) - cut_);
    cut_ += bytes.size();
    return Slice(owner_, bytes);
  }

 private:
  std::shared_ptr<char[]> owner_;
  char* at_;
  std::size_t cut_ = 0;
};

void add_piece(OutMessage& message, Slice piece) {
  if (piece.empty()) return;
  message.bytes += piece.size();
  message.pieces.push_back(std::move(piece));
}

}  // namespace

void MessageWriter::append(const Slice& piece) {
  if (piece.size() < kShareMin) {
    side_.write(piece.view());
  } else {
    segments_.push_back({side_.size(), piece});
  }
}

std::uint64_t MessageWriter::attach(const Slice& frame) {
  append(frame);
  end_frame(frame.size());
  return lengths_.size();
}

void MessageWriter::mark(Payload::Kind kind, std::uint64_t frame) {
  map(1);
  if (kind == Payload::Kind::serialized) {
    field("__Serialized__");
  } else {
    field("__Pickled__");
  }
  uinteger(frame);
}

void MessageWriter::marker(Payload::Kind kind, std::span<const Slice> bundle) {
  mark(kind, lengths_.size() + 1);
  for (const Slice& frame : bundle) attach(frame);
}

void MessageWriter::number(double value) {
  if (std::abs(value) < 0x1p53 && std::nearbyint(value) == value) {
    integer(static_cast<std::int64_t>(value));
  } else {
    real(value);
  }
}

void MessageWriter::payload(const Payload& payload) {
  switch (payload.kind) {
    case Payload::Kind::inline_value: return raw(payload.header.view());
    case Payload::Kind::serialized:
    case Payload::Kind::pickled:
      marker(payload.kind, {&payload.header, 1});
      for (const Slice& frame : payload.frames) attach(frame);
      return;
    case Payload::Kind::compound: {
      Frames frames{payload.header};
      frames.insert(frames.end(), payload.frames.begin(), payload.frames.end());
      Message message;
      Status parsed = message.reset(std::move(frames));
      // It was made by take_payload, so it holds together.
      CHECK_ALWAYS(parsed.ok() && value(message, message.root()).ok());
    }
  }
}

void MessageWriter::payload_once(const PayloadRef& payload) {
  const auto kind = payload->kind;
  if (kind != Payload::Kind::serialized && kind != Payload::Kind::pickled) {
    return this->payload(*payload);
  }
  for (const auto& [known, frame] : once_) {
    if (known == payload) return mark(kind, frame);
  }
  if (once_.size() == kOnceMax) once_.erase(once_.begin());
  once_.emplace_back(payload, lengths_.size() + 1);
  this->payload(*payload);
}

void MessageWriter::run_spec(const RunSpec& spec) {
  map(1);
  field("__Pickled__");
  uinteger(lengths_.size() + 1);
  const std::size_t before = side_.size();
  std::size_t shared = 0;
  msgpack::packer<ByteBuffer> header(side_);
  header.pack_map(3);
  header.pack_str(11).pack_str_body("pickled-obj", 11);
  header.pack_bin(static_cast<std::uint32_t>(spec.own.size() + spec.tail.size()));
  for (const Slice* part : {&spec.own, &spec.tail}) {
    append(*part);
    if (part->size() >= kShareMin) shared += part->size();
  }
  header.pack_str(11).pack_str_body("compression", 11);
  header.pack_array(static_cast<std::uint32_t>(spec.buffers.size()));
  for (std::size_t k = 0; k < spec.buffers.size(); ++k) header.pack_nil();
  header.pack_str(14).pack_str_body("num-sub-frames", 14);
  header.pack_uint64(spec.buffers.size());
  end_frame(side_.size() - before + shared);
  for (const Slice& buffer : spec.buffers) attach(buffer);
}

Status MessageWriter::value(const Message& message, Value value) {
  if (!value.exists()) return Error{Fault::bad_type, "value is missing"};
  const auto& tape = value.document()->tape();
  const ByteView bytes = value.document()->bytes();
  std::uint32_t copied = tape[value.index()].begin;
  const std::uint32_t last = tape[value.index()].next;
  for (std::uint32_t at = value.index(); at < last;) {
    const Value here(value.document(), at);
    const auto found = tape[at].type == Type::map ? as_marker(here) : std::nullopt;
    if (!found) {
      ++at;
      continue;
    }
    auto frames = message.bundle(*found);
    if (!frames) return frames.error();
    raw(bytes.substr(copied, tape[at].begin - copied));
    marker(found->kind, *frames);
    at = tape[at].next;
    copied = tape[at].begin;
  }
  raw(bytes.substr(copied, tape[last].begin - copied));
  return Done{};
}

std::size_t MessageWriter::open_array() {
  const std::size_t place = frame0_.size();
  frame0_.write("\xdd\0\0\0\0", 5);
  return place;
}

void MessageWriter::close_array(std::size_t place, std::uint32_t elements) {
  put_u32(frame0_.data() + place + 1, elements);
}

OutMessage MessageWriter::finish() {
  const std::size_t count = lengths_.size() + 1;
  const std::size_t prelude = 8 * (count + 1) + 8;
  const bool move_out = frame0_.size() >= kMoveMin;
  Block block(prelude + side_.size() + (move_out ? 0 : frame0_.size()));
  char* words = block.room(prelude);
  put_word(words, prelude - 8 + frame0_.size() + attached_);
  put_word(words + 8, count);
  put_word(words + 16, frame0_.size());
  if (!lengths_.empty()) std::memcpy(words + 24, lengths_.data(), 8 * lengths_.size());
  OutMessage message;
  message.pieces.reserve(2 + 2 * segments_.size());
  if (move_out) {
    add_piece(message, block.cut());
    add_piece(message, frame0_.take());
  } else {
    block.copy(frame0_.view());
  }
  std::size_t side = 0;
  for (Segment& segment : segments_) {
    block.copy(side_.view().substr(side, segment.side_end - side));
    side = segment.side_end;
    add_piece(message, block.cut());
    add_piece(message, std::move(segment.shared));
  }
  block.copy(side_.view().substr(side));
  add_piece(message, block.cut());
  reset();
  return message;
}

//! The attached frames, each in one piece; a large one that is a single piece stays shared.
Frames MessageWriter::take_attached() {
  Frames frames;
  std::size_t side = 0;
  auto segment = segments_.begin();
  for (const std::uint64_t length : lengths_) {
    const bool shared = segment != segments_.end() && segment->side_end == side;
    if (shared && segment->shared.size() == length) {
      frames.push_back(std::move((segment++)->shared));
      continue;
    }
    std::string flat;
    while (flat.size() < length) {
      const std::size_t end = segment == segments_.end() ? side_.size() : segment->side_end;
      const std::size_t take = std::min<std::size_t>(end - side, length - flat.size());
      flat.append(side_.view().substr(side, take));
      side += take;
      if (flat.size() < length) flat.append((segment++)->shared.view());
    }
    frames.push_back(Slice::own(std::move(flat)));
  }
  return frames;
}

PayloadRef MessageWriter::take_payload() {
  auto payload = std::make_shared<Payload>();
  payload->kind = lengths_.empty() ? Payload::Kind::inline_value : Payload::Kind::compound;
  payload->header = Slice::copy_of(frame0_.view());
  payload->frames = take_attached();
  reset();
  return payload;
}

void MessageWriter::reset() {
  frame0_.clear();
  side_.clear();
  segments_.clear();
  lengths_.clear();
  once_.clear();
  attached_ = 0;
}

}  // namespace protocol
