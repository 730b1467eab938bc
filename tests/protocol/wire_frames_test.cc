//! Framing: what arrives in any pieces comes out whole, and no declared length is believed.
#include <catch2/catch.hpp>

#include <cstring>
#include <limits>

#include "protocol/wire/frames.h"

using namespace protocol;

namespace {

using Profile = FrameReader::Profile;
using Texts = std::vector<std::string>;

std::string word(std::uint64_t value) {
  std::string out(8, '\0');
  std::memcpy(out.data(), &value, 8);
  return out;
}

//! A message whose L covers the first `covered` frames.
std::string encode(const Texts& frames, std::size_t covered) {
  std::uint64_t span = 8 * (frames.size() + 1);
  for (std::size_t k = 0; k < covered; ++k) span += frames[k].size();
  std::string out = word(span) + word(frames.size());
  for (const std::string& frame : frames) out += word(frame.size());
  for (const std::string& frame : frames) out += frame;
  return out;
}

std::string encode(const Texts& frames) { return encode(frames, frames.size()); }

std::string flat(const OutMessage& message) {
  std::string out;
  for (const Slice& piece : message.pieces) out.append(piece.view());
  CHECK(out.size() == message.bytes);
  return out;
}

Texts texts(const Frames& frames) {
  Texts out;
  for (const Slice& frame : frames) out.emplace_back(frame.view());
  return out;
}

struct Outcome {
  std::vector<Texts> messages;
  std::optional<Error> error;
  bool mid_message = false;
};

//! Feeds bytes in pieces of at most `step`.
Outcome feed(FrameReader& reader, ByteView bytes, std::size_t step) {
  Outcome outcome;
  Frames frames;
  while (!outcome.error) {
    auto more = reader.next(frames);
    if (!more) {
      outcome.error = more.error();
    } else if (*more) {
      outcome.messages.push_back(texts(frames));
    } else if (bytes.empty()) {
      break;
    } else {
      const auto space = reader.prepare();
      REQUIRE(space.size > 0);
      const std::size_t count = std::min({space.size, bytes.size(), step});
      std::memcpy(space.data, bytes.data(), count);
      reader.commit(count);
      bytes.remove_prefix(count);
    }
  }
  outcome.mid_message = reader.mid_message();
  return outcome;
}

Outcome feed(ByteView bytes, std::size_t step = 1 << 20, Profile profile = Profile::established) {
  FrameReader reader(profile);
  return feed(reader, bytes, step);
}

Fault fault_of(const std::string& bytes, Profile profile = Profile::established) {
  const Outcome outcome = feed(bytes, 1 << 20, profile);
  REQUIRE(outcome.error);
  CHECK(outcome.messages.empty());
  return outcome.error->fault;
}

const Texts kSmall{"header", "", "payload", "", ""};

}  // namespace

TEST_CASE("a stream of messages may be cut at every byte", "[wire][frames]") {
  const std::string stream = encode(kSmall) + encode({"x"}) + encode({"", "y"}, 0);
  const std::vector<Texts> expected{kSmall, {"x"}, {"", "y"}};
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    FrameReader reader(Profile::established);
    const Outcome head = feed(reader, ByteView(stream).substr(0, cut), stream.size());
    const Outcome tail = feed(reader, ByteView(stream).substr(cut), stream.size());
    REQUIRE_FALSE(head.error);
    REQUIRE_FALSE(tail.error);
    std::vector<Texts> all = head.messages;
    all.insert(all.end(), tail.messages.begin(), tail.messages.end());
    CHECK(all == expected);
    CHECK_FALSE(tail.mid_message);
  }
  CHECK(feed(stream, 1).messages == expected);
}

TEST_CASE("L may cover any prefix of the frames", "[wire][frames]") {
  for (std::size_t covered = 0; covered <= kSmall.size(); ++covered) {
    for (const std::size_t step : {1u, 7u, 1000u}) {
      CHECK(feed(encode(kSmall, covered), step).messages == std::vector<Texts>{kSmall});
    }
  }
}

TEST_CASE("a stream that ends inside a message is seen to do so", "[wire][frames][N5]") {
  const std::string message = encode({"header", std::string(100'000, 'p')});
  for (const std::size_t length : {1u, 7u, 8u, 15u, 16u, 31u, 32u, 38u, 39u, 50'000u}) {
    const Outcome outcome = feed(ByteView(message).substr(0, length));
    CHECK(outcome.messages.empty());
    CHECK_FALSE(outcome.error);
    CHECK(outcome.mid_message);
  }
  CHECK_FALSE(feed(message).mid_message);
  CHECK_FALSE(feed("").mid_message);
}

TEST_CASE("frames around every threshold arrive unchanged", "[wire][frames]") {
  const std::size_t sizes[] = {FrameReader::kBlockFrameMax - 1, FrameReader::kBlockFrameMax,
                               FrameReader::kBlockFrameMax + 1, FrameReader::kBlockBytes - 1,
                               FrameReader::kBlockBytes + 1,    kLimits.read_growth_max,
                               kLimits.read_growth_max + 1,     3 * kLimits.read_growth_max + 5};
  for (const std::size_t size : sizes) {
    std::string big(size, '\0');
    for (std::size_t k = 0; k < size; ++k) big[k] = static_cast<char>(k * 31 + (k >> 8));
    const Texts frames{"h", big, "mid", big, "tail"};
    for (const std::size_t step : {4096u, 65'537u, 1u << 22}) {
      const Outcome outcome = feed(encode(frames) + encode({"next"}), step);
      REQUIRE_FALSE(outcome.error);
      CHECK(outcome.messages == std::vector<Texts>{frames, {"next"}});
    }
  }
}

TEST_CASE("a large frame is read into its own buffer, the rest shares a block", "[wire][frames]") {
  FrameReader reader(Profile::established);
  const std::string bytes = encode({"abc", "def", std::string(200'000, 'x')});
  Frames frames;
  const auto space = reader.prepare();
  std::memcpy(space.data, bytes.data(), 100);
  reader.commit(100);
  CHECK_FALSE(*reader.next(frames));
  const auto direct = reader.prepare();
  CHECK(direct.size == bytes.size() - 100);  // exactly what is missing, no more
  std::memcpy(direct.data, bytes.data() + 100, direct.size);
  reader.commit(direct.size);
  REQUIRE(*reader.next(frames));
  CHECK(frames[0].data() + 3 == frames[1].data());
  CHECK(frames[2].data() + (100 - (16 + 24 + 6)) == direct.data);
}

TEST_CASE("a frame of many MB begins at the border of a large page wherever it grows to",
          "[wire][frames]") {
  // Neither a multiple of a large page nor of a small one, and so long that the buffer moves.
  const std::string body = [] {
    std::string text(3 * FrameReader::kPagedFrameMin + 4097, '\0');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i / 4096);
    return text;
  }();
  const std::string bytes = encode({body, "rest"});
  FrameReader reader(Profile::established);
  Frames frames;
  for (std::size_t fed = 0; fed < bytes.size();) {
    CHECK_FALSE(*reader.next(frames));
    const auto space = reader.prepare();
    const std::size_t count = std::min({space.size, bytes.size() - fed, std::size_t{1} << 20});
    std::memcpy(space.data, bytes.data() + fed, count);
    reader.commit(count);
    fed += count;
  }
  REQUIRE(*reader.next(frames));
  CHECK(frames[0].view() == body);
  CHECK(reinterpret_cast<std::uintptr_t>(frames[0].data()) % (2u << 20) == 0);
  CHECK(frames[1].view() == "rest");
}

TEST_CASE("slices outlive the reader and its next reads", "[wire][frames]") {
  Frames kept;
  {
    FrameReader reader(Profile::established);
    const std::string first = encode({"kept"});
    for (int k = 0; k < 10'000; ++k) {
      Frames frames;
      const auto space = reader.prepare();
      std::memcpy(space.data, first.data(), first.size());
      reader.commit(first.size());
      REQUIRE(*reader.next(frames));
      if (k == 0) kept = frames;
    }
  }
  CHECK(kept[0].view() == "kept");
}

TEST_CASE("what is not Dask's is refused at its first word", "[wire][frames][X1]") {
  for (const Profile profile : {Profile::handshake, Profile::established}) {
    const Outcome http = feed("GET / HTTP/1.1\r\n\r\n", 1000, profile);
    REQUIRE(http.error);
    CHECK(http.error->where == "not a Dask message, it begins with 'GET / HT'");
    CHECK(fault_of(std::string(8, '\xff'), profile) == Fault::too_large);
    CHECK(fault_of(word(0), profile) == Fault::too_large);
    CHECK(fault_of(word(15), profile) == Fault::too_large);
  }
}

TEST_CASE("lies in the prelude are errors", "[wire][frames][X2]") {
  constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();
  CHECK(fault_of(word(16) + word(0)) == Fault::bad_type);           // no frames
  CHECK(fault_of(word(16) + word(2)) == Fault::bad_type);           // L inside the prelude
  CHECK(fault_of(word(17) + word(1) + word(2)) == Fault::bad_type); // L inside a frame
  CHECK(fault_of(word(20) + word(1) + word(2)) == Fault::bad_type); // L beyond the frames
  CHECK(fault_of(word(16) + word(kHuge)) == Fault::too_large);
  CHECK(fault_of(word(16) + word(1) + word(kHuge)) == Fault::too_large);
  CHECK(fault_of(word(24) + word(2) + word(kLimits.message_bytes_max - 30) + word(20)) ==
        Fault::too_large);
  const std::uint64_t most = kLimits.message_frames_max;
  CHECK(fault_of(word(8 * (most + 2)) + word(most + 1)) == Fault::too_large);
  CHECK_FALSE(feed(word(8 * (most + 1)) + word(most)).error);
}

TEST_CASE("memory follows the bytes received, not the lengths declared", "[wire][frames][X2]") {
  FrameReader reader(Profile::established);
  const std::uint64_t declared = kLimits.message_bytes_max / 2;
  const std::string prelude = word(16 + declared) + word(1) + word(declared);
  CHECK_FALSE(feed(reader, prelude, 1000).error);
  CHECK(reader.prepare().size <= FrameReader::kPagedFrameMin);
  const std::string some(3 * FrameReader::kPagedFrameMin, 'x');
  CHECK_FALSE(feed(reader, some, 1 << 22).error);
  CHECK(reader.held_bytes() == some.size());
  CHECK(reader.prepare().size <= FrameReader::kPagedFrameMin);
}

TEST_CASE("before the handshake a peer gets little", "[wire][frames][X2]") {
  const Profile profile = Profile::handshake;
  const std::uint64_t frames = kLimits.handshake_frames_max;
  const Texts most(frames, "");
  CHECK(feed(encode(most), 1000, profile).messages == std::vector<Texts>{most});
  CHECK(fault_of(encode(Texts(frames + 1, "")), profile) == Fault::too_large);
  const std::size_t room = kLimits.handshake_bytes_max - 16;
  CHECK(feed(encode({std::string(room, 'x')}), 1 << 20, profile).messages.size() == 1);
  CHECK(fault_of(encode({std::string(room + 1, 'x')}), profile) == Fault::too_large);
  CHECK(fault_of(encode({std::string(room + 1, 'x')}, 0), profile) == Fault::too_large);
}

TEST_CASE("limits change between two messages of one read", "[wire][frames]") {
  FrameReader reader(Profile::handshake);
  const std::string stream = encode({"hello"}) + encode(Texts(100, "x"));
  const auto space = reader.prepare();
  std::memcpy(space.data, stream.data(), stream.size());
  reader.commit(stream.size());
  Frames frames;
  REQUIRE(*reader.next(frames));
  reader.set_profile(Profile::established);
  REQUIRE(*reader.next(frames));
  CHECK(frames.size() == 100);
}

TEST_CASE("after an error every call gives that error", "[wire][frames]") {
  FrameReader reader(Profile::established);
  CHECK(feed(reader, word(3), 8).error);
  Frames frames;
  CHECK_FALSE(reader.next(frames).ok());
  CHECK(feed(reader, encode({"x"}), 1000).error);
}

TEST_CASE("frames are written with L over all of them and read back", "[wire][frames]") {
  Frames frames;
  for (const std::string& text : kSmall) frames.push_back(Slice::copy_of(text));
  CHECK(flat(frame_message(frames)) == encode(kSmall));
}
