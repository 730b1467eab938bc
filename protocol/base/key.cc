#include "protocol/base/key.h"

#include <absl/container/inlined_vector.h>

#include <cmath>

#include "protocol/base/key_token.h"
#include "protocol/base/limits.h"
#include "protocol/base/utf8.h"

namespace protocol {
namespace {

using Kind = KeyToken::Kind;

//! How many elements are still to come at each level of nesting.
class Nesting {
 public:
  //! False if an array opens beyond the permitted depth.
  bool took(const KeyToken& token) {
    if (token.kind == Kind::array && token.number > 0) {
      if (levels_.size() >= kLimits.msgpack_depth_max) return false;
      levels_.push_back(token.number);
      return true;
    }
    while (!levels_.empty() && --levels_.back() == 0) levels_.pop_back();
    return true;
  }
  bool done() const { return levels_.empty(); }

 private:
  absl::InlinedVector<std::uint64_t, 8> levels_;
};

bool integral(double real) {
  return real >= -0x1p63 && real < 0x1p64 && std::nearbyint(real) == real;
}

bool canonical(const KeyToken& token) {
  return token.minimal && !(token.kind == Kind::floating && integral(token.real));
}

void append_canonical(std::string& out, const KeyToken& token) {
  switch (token.kind) {
    case Kind::str: return append_str(out, token.body);
    case Kind::bin: return append_bin(out, token.body);
    case Kind::integer: return append_integer(out, token.number, token.negative);
    case Kind::boolean: return append_integer(out, token.number, false);
    case Kind::array: return append_array_header(out, static_cast<std::uint32_t>(token.number));
    case Kind::floating:
      if (!integral(token.real)) return append_double(out, token.real);
      if (token.real >= 0) {  // also -0.0, which equals 0
        return append_integer(out, static_cast<std::uint64_t>(token.real), false);
      }
      return append_integer(out, static_cast<std::uint64_t>(static_cast<std::int64_t>(token.real)),
                            true);
    case Kind::illegal:
    case Kind::truncated: return;
  }
}

Error key_error(Fault fault, const char* what) { return Error{fault, what}; }

//! Walks one value; `visit` sees every token. Fails on what is not a legal key.
template <class Visit>
Status walk(ByteView spelled, Visit visit) {
  if (spelled.size() > kLimits.key_bytes_max) return key_error(Fault::too_large, "key");
  Nesting nesting;
  do {
    const KeyToken token = read_key_token(spelled);
    if (token.kind == Kind::truncated) return key_error(Fault::truncated, "key");
    if (token.kind == Kind::illegal) {
      return key_error(Fault::bad_type, "key is not a str, number, bytes or tuple of those");
    }
    spelled.remove_prefix(token.bytes);
    // Every element takes a byte: no count can promise more than there is.
    if (token.kind == Kind::array && token.number > spelled.size()) {
      return key_error(Fault::truncated, "key");
    }
    if (token.kind == Kind::str && !valid_utf8(token.body)) {
      return key_error(Fault::bad_type, "key is not UTF-8");
    }
    if (!nesting.took(token)) return key_error(Fault::too_deep, "key");
    visit(token);
  } while (!nesting.done());
  if (!spelled.empty()) return key_error(Fault::bad_type, "bytes after the key");
  return Done{};
}

}  // namespace

Key string_key(std::string_view text) {
  Key key;
  append_str(key.bytes, text);
  return key;
}

Result<bool> check_key(ByteView spelled) {
  bool same = true;
  Status walked = walk(spelled, [&](const KeyToken& token) { same = same && canonical(token); });
  if (!walked) return walked.error();
  return same;
}

Result<Key> canonical_key(ByteView spelled) {
  Key key;
  key.bytes.reserve(spelled.size());
  Status walked =
      walk(spelled, [&](const KeyToken& token) { append_canonical(key.bytes, token); });
  if (!walked) return walked.error();
  return key;
}

}  // namespace protocol
