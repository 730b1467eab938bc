#include "protocol/base/utf8.h"

namespace protocol {
namespace {

//! Length of the sequence a lead byte opens and the range its second byte must lie in; length 0
//! for bytes that open nothing.
struct Lead {
  unsigned length;
  unsigned char low;
  unsigned char high;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xc2) return {0, 0, 0};  // continuation bytes and overlong two-byte forms
  if (byte < 0xe0) return {2, 0x80, 0xbf};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};  // beyond lie the surrogates
  if (byte < 0xf0) return {3, 0x80, 0xbf};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte < 0xf4) return {4, 0x80, 0xbf};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {0, 0, 0};
}

}  // namespace

bool valid_utf8_slow(ByteView text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Lead lead = lead_of(static_cast<unsigned char>(text[at]));
    if (lead.length == 0 || lead.length > text.size() - at) return false;
    if (lead.length > 1) {
      const auto second = static_cast<unsigned char>(text[at + 1]);
      if (second < lead.low || second > lead.high) return false;
    }
    for (unsigned k = 2; k < lead.length; ++k) {
      if ((static_cast<unsigned char>(text[at + k]) & 0xc0) != 0x80) return false;
    }
    at += lead.length;
  }
  return true;
}

char32_t take_code_point(ByteView& text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const unsigned length = lead_of(first).length;
  if (length == 0 || length > text.size()) {  // not UTF-8 after all: never loop, never overrun
    text.remove_prefix(1);
    return 0xfffd;
  }
  char32_t point = length == 1 ? first : first & (0x7fu >> length);
  for (unsigned k = 1; k < length; ++k) {
    point = (point << 6) | (static_cast<unsigned char>(text[k]) & 0x3fu);
  }
  text.remove_prefix(length);
  return point;
}

}  // namespace protocol
