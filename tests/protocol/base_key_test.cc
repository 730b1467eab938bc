//! Keys: Python's equality and Dask's names for families of keys.
#include <catch2/catch.hpp>

#include "protocol/base/key.h"

using namespace protocol;

TEST_CASE("a plain string is its own canonical key", "[base][key]") {
  const Key key = string_key("inc-123");
  CHECK(*check_key(key.bytes));
  CHECK(canonical_key(key.bytes)->bytes == key.bytes);
  CHECK(key_text(key) == "inc-123");
  CHECK(key_repr(key) == "'inc-123'");
}
