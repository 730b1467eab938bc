//! Reads the fields of one op-map, tolerantly: unknown fields are ignored, a missing or ill-typed
//! one is remembered and reported once, at the end, with the op and the field in its text.
//!
//! Lookups roll: the search for a field begins after the one found last. Stock writes the fields of
//! an op always in the same order, so a reader that asks in that order finds each at once.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "protocol/base/key.h"
#include "protocol/base/payload.h"
#include "protocol/base/result.h"
#include "protocol/wire/message.h"

namespace protocol {

class Fields {
 public:
  Fields(const Message& message, Value map, std::string_view op);

  //! The value of a field; one that does not exist if there is none.
  Value find(std::string_view name);
  //! As find, but nil counts as absent.
  Value maybe(std::string_view name);
  //! As find, but the field must be there.
  Value require(std::string_view name);

  // Required fields. On failure they answer with nothing and the error is kept.
  KeyView key(std::string_view name);
  std::string_view str(std::string_view name);
  ByteView bin(std::string_view name);
  double real(std::string_view name);
  std::int64_t integer(std::string_view name);
  std::uint64_t uinteger(std::string_view name);
  PayloadRef payload(std::string_view name);
  void keys(std::string_view name, std::vector<KeyView>& out);

  // Optional fields: absent and nil give the fallback, a wrong type is an error.
  std::string_view str_or(std::string_view name, std::string_view fallback);
  ByteView bin_or(std::string_view name, ByteView fallback);
  double real_or(std::string_view name, double fallback);
  std::int64_t integer_or(std::string_view name, std::int64_t fallback);
  std::uint64_t uinteger_or(std::string_view name, std::uint64_t fallback);
  bool boolean_or(std::string_view name, bool fallback);
  //! Nil if absent.
  PayloadRef payload_or_nil(std::string_view name);
  //! False if absent or nil; `out` is then empty.
  bool keys_or_none(std::string_view name, std::vector<KeyView>& out);
  bool strings_or_none(std::string_view name, std::vector<std::string_view>& out);

  //! Reads a key that is not a field of its own (a map key, an element).
  KeyView key_at(std::string_view name, Value value);
  //! Notes a failure found by the caller.
  void wrong(std::string_view name, std::string_view what, Fault fault = Fault::bad_type);

  const Message& message() const { return message_; }
  bool ok() const { return !error_; }
  //! The first failure, or success.
  Status status() const;

 private:
  Value find_from(std::uint32_t from, std::uint32_t to, std::string_view name);
  void all_keys(std::string_view name, Value value, std::vector<KeyView>& out);

  const Message& message_;
  const Document* document_ = nullptr;
  std::uint32_t first_ = 0;  //!< node of the first entry's key
  std::uint32_t last_ = 0;   //!< node after the last entry
  std::uint32_t place_ = 0;  //!< where the next search begins
  std::string_view op_;
  std::optional<Error> error_;
};

}  // namespace protocol
