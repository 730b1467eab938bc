//! Keys as Python prints them.
#include <absl/container/inlined_vector.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "protocol/base/key.h"
#include "protocol/base/key_token.h"
#include "protocol/base/utf8.h"

namespace protocol {
namespace {

using Kind = KeyToken::Kind;

//! str.isprintable beyond ASCII, for the blocks that occur: separators, format and private use.
bool is_printable(char32_t c) {
  if (c < 0x7f) return c >= 0x20;
  if (c <= 0xa0 || c == 0xad) return false;
  if (c >= 0x2000 && c <= 0x200f) return false;
  if (c >= 0x2028 && c <= 0x202f) return false;
  if (c >= 0x205f && c <= 0x206f) return false;
  if (c == 0x3000 || c == 0xfeff) return false;
  if (c >= 0xe000 && c < 0xf900) return false;
  return c < 0xe0000;
}

char quote_for(ByteView text) {
  const bool single = text.find('\'') != ByteView::npos;
  return single && text.find('"') == ByteView::npos ? '"' : '\'';
}

void append_escape(std::string& out, char32_t c) {
  char text[16];
  const char* format = c <= 0xff ? "\\x%02x" : c <= 0xffff ? "\\u%04x" : "\\U%08x";
  std::snprintf(text, sizeof text, format, static_cast<unsigned>(c));
  out.append(text);
}

void append_char(std::string& out, char32_t c, char quote, bool verbatim, ByteView spelled) {
  if (c == '\\' || c == static_cast<unsigned char>(quote)) {
    out.push_back('\\');
    out.push_back(static_cast<char>(c));
  } else if (c == '\n') {
    out.append("\\n");
  } else if (c == '\r') {
    out.append("\\r");
  } else if (c == '\t') {
    out.append("\\t");
  } else if (verbatim) {
    out.append(spelled);
  } else {
    append_escape(out, c);
  }
}

void append_text_repr(std::string& out, ByteView text) {
  const char quote = quote_for(text);
  out.push_back(quote);
  while (!text.empty()) {
    const ByteView before = text;
    const char32_t c = take_code_point(text);
    append_char(out, c, quote, is_printable(c), before.substr(0, before.size() - text.size()));
  }
  out.push_back(quote);
}

void append_bytes_repr(std::string& out, ByteView bytes) {
  const char quote = quote_for(bytes);
  out.push_back('b');
  out.push_back(quote);
  for (std::size_t k = 0; k < bytes.size(); ++k) {
    const auto c = static_cast<unsigned char>(bytes[k]);
    append_char(out, c, quote, c >= 0x20 && c < 0x7f, bytes.substr(k, 1));
  }
  out.push_back(quote);
}

//! float.__repr__: shortest digits, an exponent only below 1e-4 and from 1e16 on.
void append_float_repr(std::string& out, double real) {
  if (std::isnan(real)) return void(out.append("nan"));
  if (std::isinf(real)) return void(out.append(real < 0 ? "-inf" : "inf"));
  char text[64];
  const auto made = std::to_chars(text, text + sizeof text, real, std::chars_format::scientific);
  const ByteView all(text, static_cast<std::size_t>(made.ptr - text));
  const int exponent = std::atoi(std::string(all.substr(all.find('e') + 1)).c_str());
  if (exponent >= -4 && exponent < 16) {
    const auto fixed = std::to_chars(text, text + sizeof text, real, std::chars_format::fixed);
    const ByteView plain(text, static_cast<std::size_t>(fixed.ptr - text));
    out.append(plain);
    if (plain.find('.') == ByteView::npos) out.append(".0");
    return;
  }
  out.append(all);
}

void append_scalar(std::string& out, const KeyToken& token) {
  switch (token.kind) {
    case Kind::str: return append_text_repr(out, token.body);
    case Kind::bin: return append_bytes_repr(out, token.body);
    case Kind::floating: return append_float_repr(out, token.real);
    case Kind::boolean: return void(out.append(token.number != 0 ? "True" : "False"));
    case Kind::integer:
      return void(out.append(token.negative
                                 ? std::to_string(static_cast<std::int64_t>(token.number))
                                 : std::to_string(token.number)));
    default: return void(out.append("?"));
  }
}

struct Level {
  std::uint64_t left;
  bool single;  //!< a tuple of one prints a comma
};

}  // namespace

std::string key_repr(KeyView key) {
  std::string out;
  ByteView in = key.bytes;
  absl::InlinedVector<Level, 8> levels;
  do {
    const KeyToken token = read_key_token(in);
    in.remove_prefix(token.bytes);
    if (token.kind == Kind::array && token.number > 0) {
      out.push_back('(');
      levels.push_back({token.number, token.number == 1});
      continue;
    }
    if (token.kind == Kind::array) {
      out.append("()");
    } else {
      append_scalar(out, token);
    }
    while (!levels.empty() && --levels.back().left == 0) {
      out.append(levels.back().single ? ",)" : ")");
      levels.pop_back();
    }
    if (!levels.empty()) out.append(", ");
  } while (!levels.empty() && !in.empty());
  return out;
}

std::string key_text(KeyView key) {
  const KeyToken token = read_key_token(key.bytes);
  return token.kind == Kind::str ? std::string(token.body) : key_repr(key);
}

}  // namespace protocol
