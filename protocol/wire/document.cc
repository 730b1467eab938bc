#include "protocol/wire/document.h"

#include <array>
#include <cmath>
#include <limits>
#include <msgpack.hpp>

#include "protocol/base/utf8.h"

namespace protocol {
namespace {

//! Bytes of each tag together with the fixed-size number or length after it.
constexpr std::array<std::uint8_t, 256> head_bytes() {
  std::array<std::uint8_t, 256> table{};
  for (auto& bytes : table) bytes = 1;
  constexpr std::uint8_t kAfter[] = {1, 2, 4, 2, 3, 5, 4, 8, 1, 2, 4, 8, 1, 2,
                                     4, 8, 1, 1, 1, 1, 1, 1, 2, 4, 2, 4, 2, 4};
  for (unsigned k = 0; k < sizeof kAfter; ++k) {
    table[0xc4 + k] = static_cast<std::uint8_t>(1 + kAfter[k]);
  }
  return table;
}
constexpr std::array<std::uint8_t, 256> kHeadBytes = head_bytes();

std::uint64_t load(const char* at, unsigned width) {
  std::uint64_t value = 0;
  for (unsigned k = 0; k < width; ++k) value = (value << 8) | static_cast<unsigned char>(at[k]);
  return value;
}

}  // namespace

//! Builds the tape. msgpack-cxx does not tell a visitor where a token lies, so it keeps its own
//! place: tokens are contiguous and their sizes follow from the tag.
class TapeVisitor : public msgpack::null_visitor {
 public:
  TapeVisitor(Document& document, const Limits& limits)
      : document_(document), limits_(limits), at_(document.bytes_.data()),
        end_(at_ + document.bytes_.size()) {}

  bool visit_nil() { return scalar(Type::nil); }
  bool visit_boolean(bool) { return scalar(Type::boolean); }
  bool visit_positive_integer(std::uint64_t) { return scalar(Type::integer); }
  bool visit_negative_integer(std::int64_t) { return scalar(Type::integer); }
  bool visit_float32(float) { return scalar(Type::floating); }
  bool visit_float64(double) { return scalar(Type::floating); }
  bool visit_str(const char*, std::uint32_t size) {
    const char* body = at_ + head();
    if (!valid_utf8(ByteView(body, size))) return fail(Fault::bad_type, "a str is not UTF-8");
    return blob(Type::str, size);
  }
  bool visit_bin(const char*, std::uint32_t size) { return blob(Type::bin, size); }
  bool visit_ext(const char*, std::uint32_t size) { return blob(Type::ext, size - 1); }

  bool start_array(std::uint32_t count) { return open(Type::array, count, count); }
  bool start_map(std::uint32_t count) { return open(Type::map, count, 2ULL * count); }
  bool end_array() { return close(); }
  bool end_map() { return close(); }

  void parse_error(std::size_t, std::size_t) { fail(Fault::bad_type, "not msgpack"); }
  void insufficient_bytes(std::size_t, std::size_t) { fail(Fault::truncated, "msgpack value"); }

  const std::optional<Error>& error() const { return error_; }

 private:
  std::size_t head() const { return kHeadBytes[static_cast<unsigned char>(*at_)]; }

  bool add(Type type, std::uint32_t size, std::size_t bytes) {
    auto& tape = document_.tape_;
    if (tape.size() >= limits_.document_nodes_max) return fail(Fault::too_large, "msgpack value");
    const auto index = static_cast<std::uint32_t>(tape.size());
    tape.push_back(Node{static_cast<std::uint32_t>(at_ - document_.bytes_.data()), index + 1, size,
                        type});
    at_ += bytes;
    return true;
  }
  bool scalar(Type type) { return add(type, 0, head()); }
  bool blob(Type type, std::uint32_t size) { return add(type, size, head() + size); }

  //! Every element takes at least one byte, so no count may exceed what is left.
  bool open(Type type, std::uint32_t count, std::uint64_t elements) {
    if (document_.open_.size() >= limits_.msgpack_depth_max) {
      return fail(Fault::too_deep, "msgpack value");
    }
    document_.open_.push_back(static_cast<std::uint32_t>(document_.tape_.size()));
    if (!add(type, count, head())) return false;
    if (elements > static_cast<std::uint64_t>(end_ - at_)) {
      return fail(Fault::truncated, "msgpack count beyond the input");
    }
    return true;
  }

  bool close() {
    auto& tape = document_.tape_;
    tape[document_.open_.back()].next = static_cast<std::uint32_t>(tape.size());
    document_.open_.pop_back();
    return true;
  }

  bool fail(Fault fault, const char* where) {
    if (!error_) error_ = Error{fault, where};
    return false;
  }

  Document& document_;
  const Limits& limits_;
  const char* at_;
  const char* end_;
  std::optional<Error> error_;
};

Status Document::parse(ByteView bytes, const Limits& limits) {
  tape_.clear();
  open_.clear();
  bytes_ = bytes;
  std::optional<Error> error;
  if (bytes.size() >= std::numeric_limits<std::uint32_t>::max()) {
    error = Error{Fault::too_large, "msgpack value"};
  } else {
    TapeVisitor visitor(*this, limits);
    std::size_t used = 0;
    const bool whole = msgpack::parse(bytes.data(), bytes.size(), used, visitor);
    error = visitor.error();
    if (!error && !whole) error = Error{Fault::bad_type, "not msgpack"};
    if (!error && used != bytes.size()) error = Error{Fault::bad_type, "bytes after the value"};
  }
  if (error) {
    tape_.clear();
    bytes_ = {};
    return *error;
  }
  const auto end = static_cast<std::uint32_t>(tape_.size());
  tape_.push_back(Node{static_cast<std::uint32_t>(bytes.size()), end, 0, Type::nil});
  return Done{};
}

Value Document::root() const { return tape_.empty() ? Value() : Value(this, 0); }

std::optional<bool> Value::as_bool() const {
  if (!is(Type::boolean)) return std::nullopt;
  return document_->bytes_[node().begin] == '\xc3';
}

//! The bits of an integer token; negative ones in two's complement.
std::uint64_t Value::number() const {
  const char* at = document_->bytes_.data() + node().begin;
  const auto tag = static_cast<unsigned char>(*at);
  if (tag < 0x80) return tag;
  if (tag >= 0xe0) return static_cast<std::uint64_t>(static_cast<std::int64_t>(*at | ~0xff));
  const unsigned width = 1u << (tag & 3u);
  const std::uint64_t bits = load(at + 1, width);
  if (tag < 0xd0) return bits;
  const unsigned shift = 64 - 8 * width;
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(bits << shift) >> shift);
}

double Value::real() const {
  const char* at = document_->bytes_.data() + node().begin;
  if (*at == '\xcb') {
    const std::uint64_t bits = load(at + 1, 8);
    double value;
    std::memcpy(&value, &bits, 8);
    return value;
  }
  const auto bits = static_cast<std::uint32_t>(load(at + 1, 4));
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

std::optional<std::int64_t> Value::as_int() const {
  if (is(Type::integer)) {
    const std::uint64_t bits = number();
    // Only the widest unsigned form can exceed an int64.
    if (document_->bytes_[node().begin] == '\xcf' && (bits >> 63) != 0) return std::nullopt;
    return static_cast<std::int64_t>(bits);
  }
  if (!is(Type::floating)) return std::nullopt;
  const double value = real();
  if (!(value >= -0x1p63 && value < 0x1p63) || std::nearbyint(value) != value) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

std::optional<std::uint64_t> Value::as_uint() const {
  if (is(Type::integer)) {
    const auto tag = static_cast<unsigned char>(document_->bytes_[node().begin]);
    const std::uint64_t bits = number();
    const bool can_be_negative = tag >= 0xd0;
    if (can_be_negative && (bits >> 63) != 0) return std::nullopt;
    return bits;
  }
  if (!is(Type::floating)) return std::nullopt;
  const double value = real();
  if (!(value >= 0 && value < 0x1p64) || std::nearbyint(value) != value) return std::nullopt;
  return static_cast<std::uint64_t>(value);
}

std::optional<double> Value::as_double() const {
  if (is(Type::floating)) return real();
  if (!is(Type::integer)) return std::nullopt;
  if (const auto value = as_int()) return static_cast<double>(*value);
  return static_cast<double>(number());
}

std::optional<std::string_view> Value::as_str() const {
  if (!is_str()) return std::nullopt;
  return body();
}

std::optional<ByteView> Value::as_bin() const {
  if (!is_bin()) return std::nullopt;
  return body();
}

ByteView Value::raw() const {
  if (!exists()) return {};
  return document_->bytes_.substr(node().begin, after().begin - node().begin);
}

Value Value::find(std::string_view name) const {
  for (const Entry entry : entries()) {
    if (entry.key.equals(name)) return entry.value;
  }
  return {};
}

Elements Value::elements() const {
  if (is_array()) return Elements(document_, index_ + 1, node().next, node().size);
  if (is_map() && find("__Set__").exists()) {
    const Value list = find("as-list");
    if (list.is_array()) return list.elements();
  }
  return Elements(document_, 0, 0, 0);
}

Entries Value::entries() const {
  if (!is_map()) return Entries(document_, 0, 0, 0);
  return Entries(document_, index_ + 1, node().next, node().size);
}

std::optional<std::string_view> Value::enum_name() const {
  if (!find("__Enum__").exists()) return std::nullopt;
  return find("name").as_str();
}

}  // namespace protocol
