#include "protocol/wire/message.h"

#include <cstring>
#include <utility>

#include "protocol/base/key_token.h"
#include "protocol/wire/writer.h"

namespace protocol {
namespace {

//! Copies small pieces into one block of their own; shares large ones.
class Keeper {
 public:
  void expect(const Slice& piece) {
    if (small(piece)) bytes_ += piece.size();
  }
  Slice keep(const Slice& piece) {
    if (!small(piece)) return piece;
    if (piece.empty()) return {};
    if (block_ == nullptr) block_ = std::make_shared_for_overwrite<char[]>(bytes_);
    char* at = block_.get() + used_;
    std::memcpy(at, piece.data(), piece.size());
    used_ += piece.size();
    return Slice(block_, ByteView(at, piece.size()));
  }

 private:
  static bool small(const Slice& piece) { return piece.size() <= FrameReader::kBlockFrameMax; }

  std::shared_ptr<char[]> block_;
  std::size_t bytes_ = 0;
  std::size_t used_ = 0;
};

PayloadRef keep_bundle(Payload::Kind kind, std::span<const Slice> bundle) {
  Keeper keeper;
  for (const Slice& piece : bundle) keeper.expect(piece);
  auto payload = std::make_shared<Payload>();
  payload->kind = kind;
  payload->header = keeper.keep(bundle[0]);
  payload->frames.reserve(bundle.size() - 1);
  for (const Slice& piece : bundle.subspan(1)) payload->frames.push_back(keeper.keep(piece));
  return payload;
}

}  // namespace

std::optional<Marker> as_marker(Value value) {
  if (!value.is_map() || value.size() != 1) return std::nullopt;
  const Entry entry = *value.entries().begin();
  const bool serialized = entry.key.equals("__Serialized__");
  if (!serialized && !entry.key.equals("__Pickled__")) return std::nullopt;
  const auto header = entry.value.is(Type::integer) ? entry.value.as_uint() : std::nullopt;
  if (!header || *header == 0) return std::nullopt;
  return Marker{serialized ? Payload::Kind::serialized : Payload::Kind::pickled, *header,
                value.index()};
}

bool holds_marker(Value value) {
  if (!value.exists()) return false;
  const auto& tape = value.document()->tape();
  for (std::uint32_t at = value.index(); at < tape[value.index()].next; ++at) {
    if (tape[at].type == Type::map && as_marker(Value(value.document(), at))) return true;
  }
  return false;
}

void Message::clear() {
  frames_ = {};
  document_ = {};
  sub_header_ = {};
  spelled_ = {};
  owners_ = {};
}

Status Message::reset(Frames frames, const Limits& limits) {
  frames_ = std::move(frames);
  spelled_.clear();
  owners_.clear();
  if (frames_.empty()) return Error{Fault::truncated, "a message without frames"};
  return document_.parse(frames_[0].view(), limits);
}

Result<std::span<const Slice>> Message::bundle(Marker marker) const {
  if (marker.header >= frames_.size()) return Error{Fault::truncated, "frame of a marker"};
  Status parsed = sub_header_.parse(frames_[marker.header].view());
  if (!parsed) return Error{parsed.error().fault, "sub-header: " + parsed.error().where};
  const auto count = sub_header_.root().find("num-sub-frames").as_uint();
  if (!count) return Error{Fault::bad_type, "sub-header: num-sub-frames"};
  if (*count > frames_.size() - marker.header - 1) {
    return Error{Fault::truncated, "sub-frames of a marker"};
  }
  if (!claim(marker, *count + 1)) return Error{Fault::bad_type, "markers that share frames"};
  return std::span<const Slice>(frames_).subspan(marker.header, *count + 1);
}

//! False if one of the frames belongs to another marker.
bool Message::claim(Marker marker, std::uint64_t frames) const {
  owners_.resize(frames_.size());
  const std::uint32_t owner = marker.node + 1;
  for (std::uint64_t k = marker.header; k < marker.header + frames; ++k) {
    if (owners_[k] != 0 && owners_[k] != owner) return false;
    owners_[k] = owner;
  }
  return true;
}

Result<PayloadRef> Message::payload(Value value) const {
  if (!value.exists()) return Error{Fault::bad_type, "payload is missing"};
  if (const auto marker = as_marker(value)) {
    auto frames = bundle(*marker);
    if (!frames) return frames.error();
    return keep_bundle(marker->kind, *frames);
  }
  if (value.is_nil()) return nil_payload();
  if (holds_marker(value)) return compound(value);
  auto payload = std::make_shared<Payload>();
  payload->header = Slice::copy_of(value.raw());
  return PayloadRef(std::move(payload));
}

Result<PayloadRef> Message::compound(Value value) const {
  MessageWriter writer;
  Status copied = writer.value(*this, value);
  if (!copied) return copied.error();
  return writer.take_payload();
}

Result<KeyView> Message::key(Value value) const {
  if (!value.exists()) return Error{Fault::bad_type, "key is missing"};
  const ByteView raw = value.raw();
  Result<bool> same = check_key(raw);
  if (!same) return same.error();
  if (*same) return KeyView{raw};
  Result<Key> made = canonical_key(raw);
  if (!made) return made.error();
  return spelled_.emplace_back(std::move(*made)).view();
}

const PayloadRef& nil_payload() {
  static const PayloadRef nil = [] {
    auto payload = std::make_shared<Payload>();
    payload->header = Slice::of_static(ByteView("\xc0", 1));
    return payload;
  }();
  return nil;
}

PayloadRef bin_payload(ByteView bytes) {
  auto payload = std::make_shared<Payload>();
  std::string packed;
  append_bin(packed, bytes);
  payload->header = Slice::own(std::move(packed));
  return payload;
}

PayloadRef pickled_bytes_payload(ByteView bytes) {
  // PROTO 4, BINBYTES, STOP.
  std::string pickle("\x80\x04" "B");
  for (const int shift : {0, 8, 16, 24}) pickle.push_back(static_cast<char>(bytes.size() >> shift));
  pickle += bytes;
  pickle += '.';
  std::string header;
  header += '\x83';  // a map of three
  append_str(header, "pickled-obj");
  append_bin(header, pickle);
  append_str(header, "compression");
  append_array_header(header, 0);
  append_str(header, "num-sub-frames");
  header += '\0';  // the number 0
  auto payload = std::make_shared<Payload>();
  payload->kind = Payload::Kind::pickled;
  payload->header = Slice::own(std::move(header));
  return payload;
}

PayloadRef str_payload(std::string_view text) {
  auto payload = std::make_shared<Payload>();
  std::string packed;
  append_str(packed, text);
  payload->header = Slice::own(std::move(packed));
  return payload;
}

}  // namespace protocol
