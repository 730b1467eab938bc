//! Compressed frames: stock's rule, both ways, and no trust in what a frame says of itself.
#include <catch2/catch.hpp>

#include <cstring>

#include "protocol/wire/compression.h"

using namespace protocol;

namespace {

constexpr std::size_t kMax = 1 << 24;

std::string noise(std::size_t size) {
  Rng rng(7);
  std::string out(size, '\0');
  for (char& c : out) c = static_cast<char>(rng.next());
  return out;
}

}  // namespace

TEST_CASE("what was compressed comes back", "[wire][compression]") {
  for (const Compression kind : {Compression::lz4, Compression::zstd}) {
    for (const std::size_t size : {0u, 1u, 1000u, 300'000u}) {
      for (const std::string& plain : {std::string(size, 'a'), noise(size)}) {
        const std::string packed = compress(kind, plain);
        const auto back = decompress(kind, packed, kMax);
        REQUIRE(back.ok());
        CHECK(*back == plain);
      }
    }
    CHECK(compression_of(compression_name(kind)) == kind);
  }
  CHECK_FALSE(compression_of("snappy"));
}

TEST_CASE("output ends at the caller's limit", "[wire][compression][X4]") {
  for (const Compression kind : {Compression::lz4, Compression::zstd}) {
    const std::string packed = compress(kind, std::string(200'000, 'a'));
    CHECK(decompress(kind, packed, 200'000).ok());
    CHECK(decompress(kind, packed, 199'999).error().fault == Fault::too_large);
    CHECK(decompress(kind, packed, 0).error().fault == Fault::too_large);
  }
}

TEST_CASE("broken frames are errors at every length", "[wire][compression]") {
  for (const Compression kind : {Compression::lz4, Compression::zstd}) {
    const std::string packed = compress(kind, "some text, some text, some text, some other");
    for (std::size_t length = 0; length < packed.size(); ++length) {
      CHECK_FALSE(decompress(kind, ByteView(packed).substr(0, length), kMax).ok());
    }
    CHECK_FALSE(decompress(kind, packed + "x", kMax).ok());
  }
  const std::string liar("\xff\xff\xff\x7f\x10x", 6);
  CHECK(decompress(Compression::lz4, liar, 1ull << 40).error().fault == Fault::bad_type);
}

TEST_CASE("only frames that shrink to 70 % are compressed, and no small ones", "[wire][compression]") {
  Rng rng(1);
  for (const Compression kind : {Compression::lz4, Compression::zstd}) {
    CHECK_FALSE(maybe_compress(kind, std::string(9'999, 'a'), rng));
    CHECK(maybe_compress(kind, std::string(10'000, 'a'), rng));
    CHECK_FALSE(maybe_compress(kind, noise(100'000), rng));
    const auto packed = maybe_compress(kind, std::string(100'000, 'a'), rng);
    REQUIRE(packed);
    CHECK(decompress(kind, *packed, kMax)->size() == 100'000);
  }
}
