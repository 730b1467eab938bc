#include "protocol/wire/compression.h"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

namespace protocol {
namespace {

constexpr std::size_t kSizeMin = 10'000;
constexpr std::size_t kSizeMax = std::size_t{1} << 31;
constexpr std::size_t kSampleBytes = 10'000;
constexpr int kSamples = 5;
constexpr double kRatio = 0.7;
constexpr std::size_t kLz4Factor = 255;  //!< no lz4 block unpacks to more than this many times itself
constexpr std::size_t kPrefix = 4;       //!< python-lz4 puts the size first, little-endian

struct FreeContext {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

Result<std::string> unpack_lz4(ByteView bytes, std::size_t bytes_max) {
  if (bytes.size() < kPrefix) return Error{Fault::truncated, "lz4 frame"};
  std::uint32_t size;
  std::memcpy(&size, bytes.data(), kPrefix);
  bytes.remove_prefix(kPrefix);
  if (size > bytes_max || bytes.size() > std::numeric_limits<int>::max() ||
      size > std::numeric_limits<int>::max()) {
    return Error{Fault::too_large, "lz4 frame"};
  }
  if (size / kLz4Factor > bytes.size()) return Error{Fault::bad_type, "lz4 frame lies"};
  std::string out(size, '\0');
  const int made = LZ4_decompress_safe(bytes.data(), out.data(), static_cast<int>(bytes.size()),
                                       static_cast<int>(size));
  if (made < 0 || static_cast<std::uint32_t>(made) != size) {
    return Error{Fault::bad_type, "lz4 frame is broken"};
  }
  return out;
}

Result<std::string> unpack_zstd(ByteView bytes, std::size_t bytes_max) {
  const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  if (context == nullptr) return Error{Fault::io, "zstd: out of memory"};
  std::string out;
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  std::size_t filled = 0;
  std::size_t hint = 1;
  while (hint != 0) {
    if (filled > bytes_max) return Error{Fault::too_large, "zstd frame"};
    if (filled == out.size()) {  // one byte of room beyond the limit shows whether it is passed
      out.resize(std::min(bytes_max + 1, std::max(ZSTD_DStreamOutSize(), 2 * out.size())));
    }
    ZSTD_outBuffer room{out.data(), out.size(), filled};
    const std::size_t before = in.pos;
    hint = ZSTD_decompressStream(context.get(), &room, &in);
    if (ZSTD_isError(hint)) return Error{Fault::bad_type, "zstd frame is broken"};
    if (hint != 0 && room.pos == filled && in.pos == before) {
      return Error{Fault::truncated, "zstd frame"};
    }
    filled = room.pos;
  }
  if (filled > bytes_max) return Error{Fault::too_large, "zstd frame"};
  if (in.pos != in.size) return Error{Fault::bad_type, "bytes after the zstd frame"};
  out.resize(filled);
  return out;
}

std::string sample(ByteView bytes, Rng& rng) {
  const std::size_t spots = bytes.size() - kSampleBytes + 1;
  std::string out;
  std::size_t start = rng.below(spots);
  for (int k = 1; k < kSamples; ++k) {
    const std::size_t next = rng.below(spots);
    const std::size_t end = std::min(start + kSampleBytes, next);
    if (end > start) out.append(bytes.substr(start, end - start));
    start = next;
  }
  out.append(bytes.substr(start, kSampleBytes));
  return out;
}

bool shrinks(const std::string& packed, std::size_t size) {
  return !packed.empty() && static_cast<double>(packed.size()) <= kRatio * static_cast<double>(size);
}

}  // namespace

std::optional<Compression> compression_of(std::string_view name) {
  if (name == "lz4") return Compression::lz4;
  if (name == "zstd") return Compression::zstd;
  return std::nullopt;
}

std::string_view compression_name(Compression compression) {
  return compression == Compression::lz4 ? "lz4" : "zstd";
}

Result<std::string> decompress(Compression compression, ByteView bytes, std::size_t bytes_max) {
  return compression == Compression::lz4 ? unpack_lz4(bytes, bytes_max)
                                         : unpack_zstd(bytes, bytes_max);
}

std::string compress(Compression compression, ByteView bytes) {
  if (compression == Compression::zstd) {
    std::string out(ZSTD_compressBound(bytes.size()), '\0');
    const std::size_t made = ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(),
                                           ZSTD_CLEVEL_DEFAULT);
    if (ZSTD_isError(made)) return {};
    out.resize(made);
    return out;
  }
  if (bytes.size() > LZ4_MAX_INPUT_SIZE) return {};
  const int size = static_cast<int>(bytes.size());
  std::string out(kPrefix + static_cast<std::size_t>(LZ4_compressBound(size)), '\0');
  const auto prefix = static_cast<std::uint32_t>(size);
  std::memcpy(out.data(), &prefix, kPrefix);
  const int made = LZ4_compress_default(bytes.data(), out.data() + kPrefix, size,
                                        static_cast<int>(out.size() - kPrefix));
  if (made <= 0) return {};
  out.resize(kPrefix + static_cast<std::size_t>(made));
  return out;
}

std::optional<std::string> maybe_compress(Compression compression, ByteView bytes, Rng& rng) {
  if (bytes.size() < kSizeMin || bytes.size() > kSizeMax) return std::nullopt;
  const std::string spots = sample(bytes, rng);
  if (!shrinks(compress(compression, spots), spots.size())) return std::nullopt;
  std::string packed = compress(compression, bytes);
  if (!shrinks(packed, bytes.size())) return std::nullopt;
  return packed;
}

}  // namespace protocol
