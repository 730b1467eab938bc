//! What the tests of the wire share: from a writer to a received message and back.
#pragma once

#include <catch2/catch.hpp>

#include <cstring>
#include <string>

#include "protocol/wire/frames.h"
#include "protocol/wire/message.h"
#include "protocol/wire/writer.h"

namespace protocol {

inline std::string flat(const OutMessage& message) {
  std::string out;
  for (const Slice& piece : message.pieces) out.append(piece.view());
  CHECK(out.size() == message.bytes);
  return out;
}

//! The frames of one whole message.
inline Frames split(const std::string& bytes) {
  FrameReader reader(FrameReader::Profile::established);
  Frames frames;
  std::size_t at = 0;
  while (true) {
    const auto whole = reader.next(frames);
    REQUIRE(whole.ok());
    if (*whole) break;
    REQUIRE(at < bytes.size());
    const auto space = reader.prepare();
    const std::size_t count = std::min(space.size, bytes.size() - at);
    std::memcpy(space.data, bytes.data() + at, count);
    reader.commit(count);
    at += count;
  }
  CHECK(at == bytes.size());
  CHECK_FALSE(reader.mid_message());
  return frames;
}

//! Sends what was written through the framing.
inline void deliver(MessageWriter& writer, Message& message) {
  REQUIRE(message.reset(split(flat(writer.finish()))).ok());
}

}  // namespace protocol
