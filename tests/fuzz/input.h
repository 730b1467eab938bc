//! How a fuzz input becomes frames: a count of extra frames, their lengths (u16), their bytes; what is
//! left is frame 0. So a mutation of one byte rarely moves all the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "protocol/wire/frames.h"

namespace fuzz {

using protocol::ByteView;
using protocol::Frames;
using protocol::Slice;

//! Ends the run with a report if a property does not hold.
inline void require(bool holds) {
  if (!holds) std::abort();
}

inline ByteView view(const std::uint8_t* data, std::size_t size) {
  return ByteView(reinterpret_cast<const char*>(data), size);
}

inline Frames frames_of(ByteView input) {
  Frames frames(1);
  if (input.empty()) return frames;
  const std::size_t extra = static_cast<unsigned char>(input[0]) % 16;
  input.remove_prefix(1);
  if (input.size() < 2 * extra) return frames;
  const ByteView lengths = input.substr(0, 2 * extra);
  input.remove_prefix(2 * extra);
  for (std::size_t k = 0; k < extra; ++k) {
    const std::size_t length = static_cast<unsigned char>(lengths[2 * k]) +
                               256u * static_cast<unsigned char>(lengths[2 * k + 1]);
    const ByteView body = input.substr(0, length);
    frames.push_back(Slice::copy_of(body));
    input.remove_prefix(body.size());
  }
  frames[0] = Slice::copy_of(input);
  return frames;
}

}  // namespace fuzz
