//! The family names of keys. Answers to: dask.utils.key_split, distributed.utils.key_split_group,
//! quirks included; where those raise (an empty tuple, an empty string) the name is "Other".
#include <cctype>

#include "protocol/base/key.h"
#include "protocol/base/key_token.h"
#include "protocol/base/utf8.h"

namespace protocol {
namespace {

using Kind = KeyToken::Kind;

//! str.isalpha for one code point. Beyond ASCII everything is a letter except the blocks that
//! hold only digits, signs and symbols; that is Python's answer for every script in use.
bool is_alpha(char32_t c) {
  if (c < 0x80) return std::isalpha(static_cast<int>(c)) != 0;
  if (c < 0xc0) return c == 0xaa || c == 0xb5 || c == 0xba;
  if (c == 0xd7 || c == 0xf7) return false;
  if (c >= 0x2000 && c < 0x2070) return false;   // punctuation
  if (c >= 0x20a0 && c < 0x2100) return false;   // currency, combining signs
  if (c >= 0x2190 && c < 0x2c00) return false;   // arrows, mathematics, shapes, dingbats
  if (c >= 0x3000 && c < 0x3005) return false;
  if (c >= 0xe000 && c < 0xf900) return false;   // private use
  return c < 0x1f000 || c >= 0x20000;            // between lie pictures
}

bool all_alpha(ByteView word) {
  if (word.empty()) return false;
  while (!word.empty()) {
    if (!is_alpha(take_code_point(word))) return false;
  }
  return true;
}

bool is_hex_digest(ByteView text) {
  if (text.size() != 32) return false;
  for (const char c : text) {
    if (!((c >= 'a' && c <= 'f') || (c >= '0' && c <= '9'))) return false;
  }
  return true;
}

ByteView strip(ByteView text, ByteView unwanted) {
  const std::size_t first = text.find_first_not_of(unwanted);
  if (first == ByteView::npos) return {};
  return text.substr(first, text.find_last_not_of(unwanted) - first + 1);
}

//! "<module.Class object at 0x…>" -> "Class"; empty if there is no word.
ByteView class_of_repr(ByteView text) {
  constexpr ByteView kBlank = " \t\n\r\v\f\x1c\x1d\x1e\x1f";
  text = strip(text, "<>");
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == ByteView::npos) return {};
  text = text.substr(first);
  text = text.substr(0, text.find_first_of(kBlank));
  const std::size_t dot = text.rfind('.');
  return dot == ByteView::npos ? text : text.substr(dot + 1);
}

bool starts_alpha(ByteView word) { return is_alpha(take_code_point(word)); }

std::string split_text(ByteView text) {
  std::size_t dash = text.find('-');
  ByteView first = text.substr(0, dash);
  if (first.empty()) return "Other";
  if (!starts_alpha(first)) first = strip(first.substr(0, first.find(',')), "_'()\"");
  std::string result(first);
  while (dash != ByteView::npos) {
    const std::size_t next = text.find('-', dash + 1);
    const ByteView word = text.substr(dash + 1, next == ByteView::npos ? next : next - dash - 1);
    const bool hex_like = word.size() == 8 && word[0] >= 'a' && word[0] <= 'f';
    if (!all_alpha(word) || hex_like) break;
    result.push_back('-');
    result.append(word);
    dash = next;
  }
  if (is_hex_digest(result)) return "data";
  if (result.empty()) return "Other";
  if (result[0] != '<') return result;
  return class_of_repr(result).empty() ? "Other" : std::string(class_of_repr(result));
}

std::string split_text_group(ByteView text) {
  if (text.empty()) return "Other";
  if (text[0] == '(') return std::string(strip(text.substr(0, text.find(',')), "()\"'"));
  if (is_hex_digest(text)) return "data";
  if (text[0] == '<') {
    const ByteView name = class_of_repr(text);
    return name.empty() ? "Other" : std::string(name);
  }
  return split_text(text);
}

//! The bytes of the first element of an array.
ByteView first_element(ByteView array, const KeyToken& header) {
  array.remove_prefix(header.bytes);
  std::size_t at = 0;
  std::uint64_t open = 1;
  while (open > 0) {
    const KeyToken token = read_key_token(array.substr(at));
    at += token.bytes;
    open += token.kind == Kind::array ? token.number : 0;
    --open;
  }
  return array.substr(0, at);
}

}  // namespace

std::string prefix_name(KeyView key) {
  ByteView bytes = key.bytes;
  KeyToken token = read_key_token(bytes);
  while (token.kind == Kind::array && token.number > 0) {
    bytes.remove_prefix(token.bytes);
    token = read_key_token(bytes);
  }
  const bool text = token.kind == Kind::str || token.kind == Kind::bin;
  if (!text || (token.kind == Kind::bin && !valid_utf8(token.body))) return "Other";
  return split_text(token.body);
}

std::string group_name(KeyView key) {
  const KeyToken token = read_key_token(key.bytes);
  if (token.kind == Kind::str) return split_text_group(token.body);
  if (token.kind == Kind::bin && valid_utf8(token.body)) return split_text_group(token.body);
  if (token.kind != Kind::array || token.number == 0) return "Other";
  return key_text(KeyView{first_element(key.bytes, token)});
}

}  // namespace protocol
