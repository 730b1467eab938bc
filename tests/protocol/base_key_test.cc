//! Keys: Python's equality, Dask's names for families of keys, and Python's way to print them.
#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

#include "protocol/base/key.h"
#include "protocol/base/key_token.h"
#include "protocol/base/limits.h"

using namespace protocol;

namespace {

std::string integer(std::int64_t value) {
  std::string out;
  append_integer(out, static_cast<std::uint64_t>(value), value < 0);
  return out;
}

std::string real(double value) {
  std::string out;
  append_double(out, value);
  return out;
}

std::string bytes(ByteView value) {
  std::string out;
  append_bin(out, value);
  return out;
}

std::string text(std::string_view value) { return string_key(value).bytes; }

std::string tuple(std::initializer_list<std::string> parts) {
  std::string out;
  append_array_header(out, static_cast<std::uint32_t>(parts.size()));
  for (const std::string& part : parts) out += part;
  return out;
}

std::string raw(std::initializer_list<int> octets) {
  std::string out;
  for (const int octet : octets) out.push_back(static_cast<char>(octet));
  return out;
}

std::string canonical(const std::string& spelled) {
  auto key = canonical_key(spelled);
  REQUIRE(key.ok());
  CHECK(*check_key(spelled) == (key->bytes == spelled));
  CHECK(*check_key(key->bytes));
  return key->bytes;
}

Fault fault_of(const std::string& spelled) {
  const auto checked = check_key(spelled);
  REQUIRE_FALSE(checked.ok());
  const auto made = canonical_key(spelled);
  REQUIRE_FALSE(made.ok());
  CHECK(made.error().fault == checked.error().fault);
  return checked.error().fault;
}

std::string prefix(std::string_view name) { return prefix_name(string_key(name)); }
std::string group(std::string_view name) { return group_name(string_key(name)); }
std::string repr(const std::string& key) { return key_repr(KeyView{key}); }

}  // namespace

TEST_CASE("a plain string is its own canonical key", "[base][key]") {
  const Key key = string_key("inc-123");
  CHECK(*check_key(key.bytes));
  CHECK(canonical_key(key.bytes)->bytes == key.bytes);
  CHECK(key_text(key) == "inc-123");
  CHECK(key_repr(key) == "'inc-123'");
}

TEST_CASE("1, 1.0 and True are one key, also inside tuples", "[base][key]") {
  const std::string one = integer(1);
  CHECK(canonical(real(1.0)) == one);
  CHECK(canonical(raw({0xc3})) == one);
  CHECK(canonical(raw({0xca, 0x3f, 0x80, 0, 0})) == one);  // float32
  CHECK(canonical(raw({0xd3, 0, 0, 0, 0, 0, 0, 0, 1})) == one);
  CHECK(canonical(tuple({text("x"), real(1.0)})) == tuple({text("x"), one}));
  CHECK(canonical(raw({0xc2})) == integer(0));
  CHECK(canonical(real(-0.0)) == integer(0));
  CHECK(canonical(real(-5.0)) == integer(-5));
}

TEST_CASE("a float with a fraction or beyond 64 bits stays a float", "[base][key]") {
  for (const double value : {0.5, -1.25, 1e300, 0x1p64, -0x1.8p63 * 2}) {
    CHECK(canonical(real(value)) == real(value));
  }
  CHECK(canonical(real(std::numeric_limits<double>::infinity())) ==
        real(std::numeric_limits<double>::infinity()));
  CHECK(canonical(real(0x1p63)) == raw({0xcf, 0x80, 0, 0, 0, 0, 0, 0, 0}));
  CHECK(canonical(real(-0x1p63)) == integer(std::numeric_limits<std::int64_t>::min()));
}

TEST_CASE("every integer has one shortest form", "[base][key]") {
  const std::int64_t edges[] = {0,     127,     128,     255,        256,        65535,
                                65536, -1,      -32,     -33,        -128,       -129,
                                -32768, -32769, 0xffffffffLL, 0x100000000LL, -2147483648LL,
                                -2147483649LL, std::numeric_limits<std::int64_t>::max()};
  for (const std::int64_t value : edges) {
    const std::string shortest = integer(value);
    CHECK(canonical(shortest) == shortest);
    std::string widest = "\xd3";
    for (int shift = 56; shift >= 0; shift -= 8) {
      widest.push_back(static_cast<char>(static_cast<std::uint64_t>(value) >> shift));
    }
    CHECK(canonical(widest) == shortest);
    const KeyToken token = read_key_token(shortest);
    CHECK(static_cast<std::int64_t>(token.number) == value);
    CHECK(token.negative == (value < 0));
  }
}

TEST_CASE("texts and tuples of every size class keep their shortest header", "[base][key]") {
  for (const std::size_t size : {0u, 31u, 32u, 255u, 256u, 65535u, 65536u}) {
    const std::string body(size, 'x');
    CHECK(canonical(text(body)) == text(body));
    CHECK(canonical(bytes(body)) == bytes(body));
  }
  std::string wide = raw({0xdd, 0, 0, 0, 1}) + raw({0xdb, 0, 0, 0, 1, 'x'});
  CHECK(canonical(wide) == tuple({text("x")}));
  CHECK(canonical(text("x")) != canonical(bytes("x")));
}

TEST_CASE("what Python would not take for a key is refused", "[base][key][X5]") {
  CHECK(fault_of(raw({0xc0})) == Fault::bad_type);                // nil
  CHECK(fault_of(raw({0x80})) == Fault::bad_type);                // map
  CHECK(fault_of(raw({0xd4, 1, 1})) == Fault::bad_type);          // ext
  CHECK(fault_of(raw({0xc1})) == Fault::bad_type);
  CHECK(fault_of("") == Fault::truncated);
  CHECK(fault_of(raw({0xa2, 'x'})) == Fault::truncated);
  CHECK(fault_of(raw({0xdb, 0xff, 0xff, 0xff, 0xff, 'x'})) == Fault::truncated);
  CHECK(fault_of(raw({0xdd, 0xff, 0xff, 0xff, 0xff})) == Fault::truncated);
  CHECK(fault_of(raw({0x92, 1})) == Fault::truncated);
  CHECK(fault_of(raw({1, 1})) == Fault::bad_type);                // two values
  CHECK(fault_of(text("\xff")) == Fault::bad_type);
  CHECK(fault_of(text("\xed\xa0\x80")) == Fault::bad_type);       // a surrogate
  CHECK(fault_of(text(std::string(kLimits.key_bytes_max, 'x'))) == Fault::too_large);
}

TEST_CASE("tuples nest as deep as stock's decoder goes and no deeper", "[base][key]") {
  const auto nested = [](std::size_t depth) { return std::string(depth, '\x91') + integer(1); };
  CHECK(*check_key(nested(kLimits.msgpack_depth_max)));
  CHECK(fault_of(nested(kLimits.msgpack_depth_max + 1)) == Fault::too_deep);
  CHECK(key_repr(*canonical_key(nested(kLimits.msgpack_depth_max))).size() > 2000);
}

TEST_CASE("prefixes are those of dask.utils.key_split", "[base][key]") {
  CHECK(prefix("x") == "x");
  CHECK(prefix("x-1") == "x");
  CHECK(prefix("x-1-2-3") == "x");
  CHECK(prefix("('x-2', 1)") == "x");
  CHECK(prefix("hello-world-1") == "hello-world");
  CHECK(prefix("ae05086432ca935f6eba409a8ecd4896") == "data");
  CHECK(prefix("<module.submodule.myclass object at 0xdaf372") == "myclass");
  CHECK(prefix("x-abcdefab") == "x");
  CHECK(prefix("x-abcdefgh") == "x");  // the quirk: only the first letter is looked at
  CHECK(prefix("x-zbcdefab") == "x-zbcdefab");
  CHECK(prefix("_(x)") == "x");
  CHECK(prefix("") == "Other");
  CHECK(prefix("-x") == "Other");
  CHECK(prefix("été-ñandú-1") == "été-ñandú");
  CHECK(prefix_name(KeyView{integer(1)}) == "Other");
  const std::string inner = tuple({tuple({text("x-2"), integer(1)}), integer(1)});
  CHECK(prefix_name(KeyView{inner}) == "x");
  CHECK(prefix_name(KeyView{bytes("hello-world-1")}) == "hello-world");
}

TEST_CASE("groups are those of distributed.utils.key_split_group", "[base][key]") {
  CHECK(group_name(KeyView{tuple({text("x-2"), integer(1)})}) == "x-2");
  CHECK(group("('x-2', 1)") == "x-2");
  CHECK(group("ae05086432ca935f6eba409a8ecd4896") == "data");
  CHECK(group("<module.submodule.myclass object at 0xdaf372") == "myclass");
  CHECK(group("x") == "x");
  CHECK(group("x-1") == "x");
  CHECK(group_name(KeyView{tuple({integer(5), integer(1)})}) == "5");
  CHECK(group_name(KeyView{tuple({tuple({text("a"), integer(1)}), integer(1)})}) == "('a', 1)");
  CHECK(group_name(KeyView{real(0.5)}) == "Other");
  CHECK(group_name(KeyView{tuple({})}) == "Other");
}

TEST_CASE("keys print as Python prints them", "[base][key]") {
  CHECK(repr(text("it's")) == "\"it's\"");
  CHECK(repr(text("it's \"so\"")) == "'it\\'s \"so\"'");
  CHECK(repr(text("a\nb\t\\\x01")) == "'a\\nb\\t\\\\\\x01'");
  CHECK(repr(text("é\xc2\xa0")) == "'é\\xa0'");
  CHECK(repr(text("\xe2\x80\xa8")) == "'\\u2028'");
  CHECK(repr(bytes(std::string("a\0\xff'", 4))) == "b\"a\\x00\\xff'\"");
  CHECK(repr(tuple({})) == "()");
  CHECK(repr(tuple({integer(-7)})) == "(-7,)");
  CHECK(repr(tuple({text("x"), tuple({integer(1), real(0.5)}), integer(2)})) ==
        "('x', (1, 0.5), 2)");
  CHECK(repr(real(1e-5)) == "1e-05");
  CHECK(repr(real(0.0001)) == "0.0001");
  CHECK(repr(real(1e300)) == "1e+300");
  CHECK(repr(real(0.1)) == "0.1");
  CHECK(repr(real(1234567890.5)) == "1234567890.5");
  CHECK(repr(real(std::nan(""))) == "nan");
  CHECK(key_text(KeyView{tuple({text("x"), integer(1)})}) == "('x', 1)");
}
