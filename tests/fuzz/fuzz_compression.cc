//! No compressed frame makes us write more than its limit, and what we compress we can undo.
#include "protocol/wire/compression.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace protocol;
  constexpr std::size_t kMax = 1 << 20;
  const ByteView bytes = fuzz::view(data, size);
  for (const Compression kind : {Compression::lz4, Compression::zstd}) {
    const auto plain = decompress(kind, bytes, kMax);
    fuzz::require(!plain.ok() || plain->size() <= kMax);
    const auto back = decompress(kind, compress(kind, bytes), kMax + size);
    fuzz::require(back.ok() && *back == bytes);
  }
  return 0;
}
