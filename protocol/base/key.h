//! Dask keys: the names of tasks.
//!
//! A key is a str, int, float, bytes or a (nested) tuple of those, compared as Python compares:
//! 1 == 1.0 == True. Here a key is the msgpack encoding of its *canonical* form (integral floats
//! and bools become ints, encodings are minimal), so equality and hashing are those of bytes and
//! a key that arrives on the wire is usually used as it is. The spelling a client chose is echoed
//! back only where it differs (KeySpelling), which is rare.
#pragma once

#include <string>
#include <string_view>

#include "protocol/base/bytes.h"
#include "protocol/base/result.h"

namespace protocol {

//! A canonical key somebody else owns.
struct KeyView {
  ByteView bytes;
  auto operator<=>(const KeyView&) const = default;
  bool operator==(const KeyView&) const = default;
};

//! A canonical key with its own storage.
struct Key {
  std::string bytes;
  KeyView view() const { return KeyView{bytes}; }
  operator KeyView() const { return view(); }  // NOLINT: a Key is usable wherever a view is
  auto operator<=>(const Key&) const = default;
  bool operator==(const Key&) const = default;
};

//! The key of a plain string, for tests and for names made by the runtime itself.
Key string_key(std::string_view text);

//! True if `spelled` (one msgpack value) is canonical already, so that it may be used without a copy.
//! Fails on anything that is not a legal key: maps, nil, ext, or nesting beyond limits.h.
Result<bool> check_key(ByteView spelled);

//! The canonical form of one msgpack value. Fails as check_key does.
Result<Key> canonical_key(ByteView spelled);

//! Dask's names for the family of a key: `key_split` (prefix) and `key_split_group` (group).
std::string prefix_name(KeyView key);
std::string group_name(KeyView key);

//! The key as Python's repr would print it, for messages and logs.
std::string key_repr(KeyView key);
//! The key as Python's str would print it (a str key without quotes).
std::string key_text(KeyView key);

}  // namespace protocol
