//! UTF-8 as Python's strict decoder accepts it: no overlong forms, no surrogates, <= U+10FFFF.
//!
//! A str that a stock peer could not decode would end that peer's connection, so nothing that
//! fails this check may ever be relayed.
#pragma once

#include <cstdint>
#include <cstring>

#include "protocol/base/bytes.h"

namespace protocol {

//! Checks a text that is known to hold a byte >= 0x80.
bool valid_utf8_slow(ByteView text);

//! O(size); eight bytes at a time while the text is ASCII.
inline bool valid_utf8(ByteView text) {
  const char* at = text.data();
  std::size_t left = text.size();
  std::uint64_t high = 0;
  for (; left >= 8; at += 8, left -= 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    high |= word;
  }
  unsigned char rest = 0;
  for (; left > 0; ++at, --left) rest |= static_cast<unsigned char>(*at);
  if (((high & 0x8080808080808080ULL) | (rest & 0x80)) == 0) [[likely]] return true;
  return valid_utf8_slow(text);
}

//! Takes one code point off the front of a text that is not empty; U+FFFD for a stray byte.
char32_t take_code_point(ByteView& text);

}  // namespace protocol
