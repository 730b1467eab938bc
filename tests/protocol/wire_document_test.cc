//! The tape: every msgpack form is read, no hostile form is, and raw bytes are exact.
#include <catch2/catch.hpp>

#include <limits>
#include <msgpack.hpp>

#include "protocol/wire/document.h"

using namespace protocol;

namespace {

using Packer = msgpack::packer<msgpack::sbuffer>;

template <class Pack>
std::string packed(Pack pack) {
  msgpack::sbuffer buffer;
  Packer packer(buffer);
  pack(packer);
  return std::string(buffer.data(), buffer.size());
}

std::string octets(std::initializer_list<int> values) {
  std::string out;
  for (const int value : values) out.push_back(static_cast<char>(value));
  return out;
}

Fault fault_of(const std::string& bytes) {
  Document document;
  const Status parsed = document.parse(bytes);
  REQUIRE_FALSE(parsed.ok());
  CHECK_FALSE(document.root().exists());
  return parsed.error().fault;
}

std::string sample_map() {
  return packed([](Packer& p) {
    p.pack_map(5);
    p.pack("op");
    p.pack("task-finished");
    p.pack("n");
    p.pack(-5);
    p.pack_array(2);  // an array as a key
    p.pack("x");
    p.pack(0);
    p.pack_array(3);
    p.pack(1);
    p.pack_map(1);
    p.pack("deep");
    p.pack_nil();
    p.pack(2.5);
    p.pack("flag");
    p.pack(true);
    p.pack("bytes");
    p.pack_bin(3).pack_bin_body("abc", 3);
  });
}

}  // namespace

TEST_CASE("values of a map are found by name and iterated with any key", "[wire][document]") {
  const std::string bytes = sample_map();
  Document document;
  REQUIRE(document.parse(bytes).ok());
  const Value root = document.root();
  CHECK(root.is_map());
  CHECK(root.size() == 5);
  CHECK(root.raw() == bytes);
  CHECK(root.find("op").as_str() == "task-finished");
  CHECK(root.find("n").as_int() == -5);
  CHECK(root.find("n").as_double() == -5.0);
  CHECK_FALSE(root.find("n").as_uint());
  CHECK(root.find("flag").as_bool() == true);
  CHECK(root.find("bytes").as_bin() == "abc");
  CHECK_FALSE(root.find("bytes").as_str());
  CHECK_FALSE(root.find("nothing").exists());
  CHECK_FALSE(root.find("nothing").find("more").as_int());
  std::vector<std::string> raws;
  for (const Entry entry : root.entries()) raws.emplace_back(entry.key.raw());
  CHECK(raws[2] == packed([](Packer& p) {
          p.pack_array(2);
          p.pack("x");
          p.pack(0);
        }));
  auto entry = root.entries().begin();
  ++entry;
  ++entry;
  std::vector<Type> types;
  for (const Value element : (*entry).value.elements()) types.push_back(element.type());
  CHECK(types == std::vector<Type>{Type::integer, Type::map, Type::floating});
}

TEST_CASE("every width of an integer is read", "[wire][document]") {
  const struct {
    std::string bytes;
    std::optional<std::int64_t> as_int;
    std::optional<std::uint64_t> as_uint;
  } rows[] = {
      {octets({0x7f}), 127, 127},
      {octets({0xe0}), -32, std::nullopt},
      {octets({0xcc, 0xff}), 255, 255},
      {octets({0xcd, 0xff, 0xff}), 65535, 65535},
      {octets({0xce, 0xff, 0xff, 0xff, 0xff}), 0xffffffffLL, 0xffffffffULL},
      {octets({0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}), std::nullopt,
       std::numeric_limits<std::uint64_t>::max()},
      {octets({0xd0, 0x80}), -128, std::nullopt},
      {octets({0xd1, 0x80, 0}), -32768, std::nullopt},
      {octets({0xd2, 0x80, 0, 0, 0}), -2147483648LL, std::nullopt},
      {octets({0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0}), std::numeric_limits<std::int64_t>::min(),
       std::nullopt},
      {octets({0xd3, 0, 0, 0, 0, 0, 0, 0, 7}), 7, 7},
      {octets({0xcb, 0x40, 0x08, 0, 0, 0, 0, 0, 0}), 3, 3},            // 3.0
      {octets({0xcb, 0x40, 0x0c, 0, 0, 0, 0, 0, 0}), std::nullopt, std::nullopt},  // 3.5
      {octets({0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0}), std::nullopt, std::nullopt},  // nan
      {octets({0xca, 0x40, 0x40, 0, 0}), 3, 3},
  };
  for (const auto& row : rows) {
    Document document;
    REQUIRE(document.parse(row.bytes).ok());
    CHECK(document.root().as_int() == row.as_int);
    CHECK(document.root().as_uint() == row.as_uint);
  }
}

TEST_CASE("sets and enums are read through their markers", "[wire][document]") {
  const std::string bytes = packed([](Packer& p) {
    p.pack_map(2);
    p.pack("keys");
    p.pack_map(2);
    p.pack("__Set__");
    p.pack(true);
    p.pack("as-list");
    p.pack_array(2);
    p.pack("a");
    p.pack("b");
    p.pack("default");
    p.pack_map(4);
    p.pack("__Enum__");
    p.pack(true);
    p.pack("name");
    p.pack("no_default");
    p.pack("__module__");
    p.pack("dask.typing");
    p.pack("__name__");
    p.pack("_NoDefault");
  });
  Document document;
  REQUIRE(document.parse(bytes).ok());
  std::string seen;
  for (const Value element : document.root().find("keys").elements()) seen += *element.as_str();
  CHECK(seen == "ab");
  CHECK(document.root().find("keys").elements().size() == 2);
  CHECK(document.root().find("default").enum_name() == "no_default");
  CHECK_FALSE(document.root().find("keys").enum_name());
}

TEST_CASE("raw bytes of every value in every encoding are exact", "[wire][document]") {
  // Long forms of short values, ext types and empty containers included.
  const std::vector<std::string> values{
      octets({0xd9, 0}),          octets({0xda, 0, 1, 'x'}),    octets({0xdb, 0, 0, 0, 1, 'y'}),
      octets({0xc4, 0}),          octets({0xc5, 0, 1, 1}),      octets({0xc6, 0, 0, 0, 1, 2}),
      octets({0xc7, 1, 5, 9}),    octets({0xc8, 0, 1, 5, 9}),   octets({0xc9, 0, 0, 0, 1, 5, 9}),
      octets({0xc7, 0, 5}),       octets({0xd4, 1, 2}),         octets({0xd5, 1, 2, 3}),
      octets({0xd6, 1, 2, 3, 4, 5}), "\xd7" + std::string(9, 'z'), "\xd8" + std::string(17, 'z'),
      octets({0xdc, 0, 0}),       octets({0xdd, 0, 0, 0, 1, 3}), octets({0xde, 0, 0}),
      octets({0xdf, 0, 0, 0, 1, 1, 2}), octets({0x80}),         octets({0x90}),
      octets({0xa0}),             octets({0xc0}),               octets({0xc2})};
  std::string bytes = octets({0xdc, 0, static_cast<int>(values.size())});
  for (const std::string& value : values) bytes += value;
  Document document;
  REQUIRE(document.parse(bytes).ok());
  std::vector<std::string> raws;
  for (const Value element : document.root().elements()) raws.emplace_back(element.raw());
  CHECK(raws == values);
}

TEST_CASE("input that ends early is truncated, wherever it ends", "[wire][document]") {
  const std::string bytes = sample_map();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CHECK(fault_of(bytes.substr(0, length)) == Fault::truncated);
  }
}

TEST_CASE("what is not one msgpack value is refused", "[wire][document]") {
  CHECK(fault_of(octets({0xc1})) == Fault::bad_type);
  CHECK(fault_of(octets({1, 2})) == Fault::bad_type);  // two values
  CHECK(fault_of(octets({0xa1, 0xff})) == Fault::bad_type);
  CHECK(fault_of(octets({0xa3, 0xed, 0xa0, 0x80})) == Fault::bad_type);
  CHECK(fault_of(octets({0xa2, 0xc0, 0x80})) == Fault::bad_type);
  CHECK(fault_of(octets({0x81, 0xa1, 0xff, 1})) == Fault::bad_type);
}

TEST_CASE("a count that the input cannot hold is refused at once", "[wire][document][X3]") {
  CHECK(fault_of(octets({0xdd, 0xff, 0xff, 0xff, 0xff})) == Fault::truncated);
  CHECK(fault_of(octets({0xdd, 0xff, 0xff, 0xff, 0xff, 1, 1, 1})) == Fault::truncated);
  CHECK(fault_of(octets({0xdf, 0, 0, 0, 2, 1, 1, 1})) == Fault::truncated);
  CHECK(fault_of(octets({0xdb, 0xff, 0xff, 0xff, 0xff, 'x'})) == Fault::truncated);
  CHECK(fault_of(octets({0xc6, 0xff, 0xff, 0xff, 0xff, 'x'})) == Fault::truncated);
  CHECK(fault_of(octets({0xc9, 0xff, 0xff, 0xff, 0xff, 1, 'x'})) == Fault::truncated);
}

TEST_CASE("nesting ends where stock's decoder ends, without recursion", "[wire][document][X3]") {
  const auto arrays = [](std::size_t depth) { return std::string(depth, '\x91') + '\x01'; };
  Document document;
  CHECK(document.parse(arrays(kLimits.msgpack_depth_max)).ok());
  CHECK(fault_of(arrays(kLimits.msgpack_depth_max + 1)) == Fault::too_deep);
  CHECK(fault_of(arrays(1'000'000)) == Fault::too_deep);
  std::string maps;
  for (int k = 0; k < 100'000; ++k) maps += octets({0x81, 1});
  CHECK(fault_of(maps + '\x01') == Fault::too_deep);
}

TEST_CASE("a document holds no more values than its limit", "[wire][document][X3]") {
  Limits limits;
  limits.document_nodes_max = 4;
  Document document;
  CHECK(document.parse(octets({0x93, 1, 2, 3}), limits).ok());
  const Status parsed = document.parse(octets({0x94, 1, 2, 3, 4}), limits);
  CHECK(parsed.error().fault == Fault::too_large);
}
