#include "protocol/base/key_token.h"

#include <cstring>

namespace protocol {
namespace {

using Kind = KeyToken::Kind;

std::uint64_t load_big_endian(const char* at, unsigned width) {
  std::uint64_t value = 0;
  for (unsigned k = 0; k < width; ++k) value = (value << 8) | static_cast<unsigned char>(at[k]);
  return value;
}

void append_big_endian(std::string& out, std::uint64_t value, unsigned width) {
  for (unsigned k = width; k-- > 0;) out.push_back(static_cast<char>(value >> (8 * k)));
}

KeyToken with_body(ByteView in, Kind kind, std::size_t head, std::uint64_t length, bool minimal) {
  KeyToken token;
  if (length > in.size() - head) {
    token.kind = Kind::truncated;
    return token;
  }
  token.kind = kind;
  token.minimal = minimal;
  token.body = in.substr(head, length);
  token.bytes = head + length;
  return token;
}

KeyToken scalar(Kind kind, std::uint64_t number, std::size_t bytes, bool minimal, bool negative) {
  KeyToken token;
  token.kind = kind;
  token.number = number;
  token.bytes = bytes;
  token.minimal = minimal;
  token.negative = negative;
  return token;
}

KeyToken floating(ByteView in, unsigned width) {
  KeyToken token = scalar(Kind::floating, 0, 1 + width, width == 8, false);
  const std::uint64_t bits = load_big_endian(in.data() + 1, width);
  if (width == 8) {
    std::memcpy(&token.real, &bits, 8);
  } else {
    const auto narrow = static_cast<std::uint32_t>(bits);
    float real;
    std::memcpy(&real, &narrow, 4);
    token.real = real;
  }
  return token;
}

//! 0xcc…0xcf; the shortest form depends on the value.
KeyToken unsigned_token(ByteView in, unsigned width) {
  const std::uint64_t value = load_big_endian(in.data() + 1, width);
  const std::uint64_t floor = width == 1 ? 0x80 : 1ULL << (4 * width);
  return scalar(Kind::integer, value, 1 + width, value >= floor, false);
}

//! 0xd0…0xd3; never minimal for values >= 0, which Python packs as unsigned.
KeyToken signed_token(ByteView in, unsigned width) {
  const unsigned shift = 64 - 8 * width;
  const auto value = static_cast<std::int64_t>(load_big_endian(in.data() + 1, width) << shift) >>
                     shift;
  const std::int64_t ceiling = width == 1 ? -33 : -(1LL << (4 * width - 1)) - 1;
  return scalar(Kind::integer, static_cast<std::uint64_t>(value), 1 + width,
                value < 0 && value <= ceiling, value < 0);
}

//! Width of the number after the tag, 0 if there is none.
unsigned width_after(unsigned char tag) {
  switch (tag) {
    case 0xc4: case 0xcc: case 0xd0: case 0xd9: return 1;
    case 0xc5: case 0xcd: case 0xd1: case 0xda: case 0xdc: return 2;
    case 0xc6: case 0xca: case 0xce: case 0xd2: case 0xdb: case 0xdd: return 4;
    case 0xcb: case 0xcf: case 0xd3: return 8;
    default: return 0;
  }
}

KeyToken long_token(ByteView in, unsigned char tag, unsigned width) {
  const std::size_t head = 1 + width;
  const std::uint64_t value = load_big_endian(in.data() + 1, width);
  switch (tag) {
    case 0xc4: return with_body(in, Kind::bin, head, value, true);
    case 0xc5: return with_body(in, Kind::bin, head, value, value > 0xff);
    case 0xc6: return with_body(in, Kind::bin, head, value, value > 0xffff);
    case 0xca: case 0xcb: return floating(in, width);
    case 0xcc: case 0xcd: case 0xce: case 0xcf: return unsigned_token(in, width);
    case 0xd0: case 0xd1: case 0xd2: case 0xd3: return signed_token(in, width);
    case 0xd9: return with_body(in, Kind::str, head, value, value > 31);
    case 0xda: return with_body(in, Kind::str, head, value, value > 0xff);
    case 0xdb: return with_body(in, Kind::str, head, value, value > 0xffff);
    case 0xdc: return scalar(Kind::array, value, head, value > 15, false);
    default: return scalar(Kind::array, value, head, value > 0xffff, false);
  }
}

}  // namespace

KeyToken read_key_token(ByteView in) {
  KeyToken token;
  if (in.empty()) {
    token.kind = Kind::truncated;
    return token;
  }
  const auto tag = static_cast<unsigned char>(in[0]);
  if (tag >= 0xa0 && tag < 0xc0) return with_body(in, Kind::str, 1, tag & 0x1fu, true);
  if (tag < 0x80) return scalar(Kind::integer, tag, 1, true, false);
  if (tag >= 0xe0) {
    const auto value = static_cast<std::int64_t>(static_cast<signed char>(tag));
    return scalar(Kind::integer, static_cast<std::uint64_t>(value), 1, true, true);
  }
  if (tag >= 0x90 && tag < 0xa0) return scalar(Kind::array, tag & 0x0fu, 1, true, false);
  if (tag == 0xc2 || tag == 0xc3) return scalar(Kind::boolean, tag & 1u, 1, false, false);
  const unsigned width = width_after(tag);
  if (width == 0) return token;  // nil, maps, ext
  if (in.size() < 1 + width) {
    token.kind = Kind::truncated;
    return token;
  }
  return long_token(in, tag, width);
}

void append_integer(std::string& out, std::uint64_t number, bool negative) {
  if (negative) {
    const auto value = static_cast<std::int64_t>(number);
    if (value >= -32) {
      out.push_back(static_cast<char>(value));
      return;
    }
    unsigned log = 0;  // width is 1 << log
    while (log < 3 && value < -(1LL << ((8u << log) - 1))) ++log;
    out.push_back(static_cast<char>(0xd0 + log));
    append_big_endian(out, number, 1u << log);
    return;
  }
  if (number < 0x80) {
    out.push_back(static_cast<char>(number));
    return;
  }
  unsigned log = 0;
  while (log < 3 && (number >> (8u << log)) != 0) ++log;
  out.push_back(static_cast<char>(0xcc + log));
  append_big_endian(out, number, 1u << log);
}

void append_double(std::string& out, double real) {
  std::uint64_t bits;
  std::memcpy(&bits, &real, 8);
  out.push_back('\xcb');
  append_big_endian(out, bits, 8);
}

void append_str(std::string& out, ByteView text) {
  if (text.size() < 32) {
    out.push_back(static_cast<char>(0xa0 + text.size()));
  } else {
    const unsigned log = text.size() <= 0xff ? 0 : text.size() <= 0xffff ? 1 : 2;
    out.push_back(static_cast<char>(0xd9 + log));
    append_big_endian(out, text.size(), 1u << log);
  }
  out.append(text);
}

void append_bin(std::string& out, ByteView bytes) {
  const unsigned log = bytes.size() <= 0xff ? 0 : bytes.size() <= 0xffff ? 1 : 2;
  out.push_back(static_cast<char>(0xc4 + log));
  append_big_endian(out, bytes.size(), 1u << log);
  out.append(bytes);
}

void append_array_header(std::string& out, std::uint32_t count) {
  if (count < 16) {
    out.push_back(static_cast<char>(0x90 + count));
    return;
  }
  const unsigned log = count <= 0xffff ? 0 : 1;
  out.push_back(static_cast<char>(0xdc + log));
  append_big_endian(out, count, 2u << log);
}

}  // namespace protocol
