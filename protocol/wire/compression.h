//! Compressed sub-frames: lz4 and zstd as python-lz4 and zstandard write them.
//!
//! A relayed payload stays as it is; this is for a peer that opens or makes one. Decoding trusts no
//! declared size: lz4's is checked against what lz4 can possibly pack, zstd output grows as it
//! comes, and both end at the caller's limit. Answers to: distributed/protocol/compression.py.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/base/bytes.h"
#include "protocol/base/result.h"
#include "protocol/base/rng.h"

namespace protocol {

enum class Compression : std::uint8_t { lz4, zstd };

//! By the name in a sub-header; nullopt for one we do not know.
std::optional<Compression> compression_of(std::string_view name);
std::string_view compression_name(Compression compression);

Result<std::string> decompress(Compression compression, ByteView bytes, std::size_t bytes_max);
//! Empty if the library fails.
std::string compress(Compression compression, ByteView bytes);

//! Stock's rule: frames of 10 kB to 2 GiB, if a sample of five spots shrinks to 70 % and the whole
//! does, too. nullopt: send it plain.
std::optional<std::string> maybe_compress(Compression compression, ByteView bytes, Rng& rng);

}  // namespace protocol
