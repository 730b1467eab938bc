//! The frame reader gives the same messages and the same error however its input is cut.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "protocol/wire/frames.h"
#include "tests/fuzz/input.h"

namespace {

using namespace protocol;

struct Outcome {
  std::vector<std::vector<std::string>> messages;
  std::optional<Fault> fault;
  bool mid_message = false;
  bool operator==(const Outcome&) const = default;
};

Outcome feed(ByteView bytes, FrameReader::Profile profile, std::size_t step) {
  FrameReader reader(profile);
  Outcome outcome;
  Frames frames;
  while (true) {
    const auto whole = reader.next(frames);
    if (!whole) {
      outcome.fault = whole.error().fault;
      return outcome;
    }
    if (*whole) {
      auto& message = outcome.messages.emplace_back();
      for (const Slice& frame : frames) message.emplace_back(frame.view());
      continue;
    }
    if (bytes.empty()) break;
    const auto space = reader.prepare();
    fuzz::require(space.size > 0 && space.size <= (4u << 20));
    const std::size_t count = std::min({space.size, bytes.size(), step});
    std::memcpy(space.data, bytes.data(), count);
    reader.commit(count);
    bytes.remove_prefix(count);
  }
  outcome.mid_message = reader.mid_message();
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView bytes = fuzz::view(data, size);
  for (const auto profile : {FrameReader::Profile::handshake, FrameReader::Profile::established}) {
    const Outcome whole = feed(bytes, profile, bytes.size() + 1);
    fuzz::require(whole == feed(bytes, profile, 1));
    fuzz::require(whole == feed(bytes, profile, 13));
  }
  return 0;
}
