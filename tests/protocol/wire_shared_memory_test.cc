//! Frames that another process can map.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "protocol/wire/frames.h"
#include "protocol/wire/shared_memory.h"

namespace {

using namespace protocol;  // NOLINT

Frames read_all(FrameReader& reader, const std::string& bytes) {
  std::size_t at = 0;
  Frames frames;
  while (at < bytes.size()) {
    const FrameReader::Space space = reader.prepare();
    REQUIRE(space.size > 0);
    const std::size_t count = std::min(space.size, bytes.size() - at);
    std::memcpy(space.data, bytes.data() + at, count);
    reader.commit(count);
    at += count;
    auto whole = reader.next(frames);
    REQUIRE(whole.ok());
    if (*whole) return frames;
  }
  FAIL("no message");
  return frames;
}

std::string stream_of(const Frames& frames) {
  std::string bytes;
  for (const Slice& piece : frame_message(frames).pieces) bytes += piece.view();
  return bytes;
}

}  // namespace

TEST_CASE("large frames are read into shared memory when asked to", "[wire][shared]") {
  const std::string large(5'000'000, 'L');
  const Frames sent = {Slice::copy_of("head"), Slice::copy_of(large), Slice::copy_of("tail"),
                       Slice::copy_of(std::string(100'000, 'm'))};
  FrameReader reader(FrameReader::Profile::established);
  reader.share_large_frames();
  for (int round = 0; round < 2; ++round) {
    const Frames frames = read_all(reader, stream_of(sent));
    REQUIRE(frames.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) CHECK(frames[i].view() == sent[i].view());
    const auto descriptor = shared_descriptor(frames[1]);
    REQUIRE(descriptor.has_value());
    CHECK_FALSE(shared_descriptor(frames[3]).has_value());
    CHECK_FALSE(shared_descriptor(frames[1].sub(0, 100)).has_value());
    // The same pages, and nobody can take them away.
    void* other = ::mmap(nullptr, large.size(), PROT_READ, MAP_SHARED, *descriptor, 0);
    REQUIRE(other != MAP_FAILED);
    CHECK(std::memcmp(other, large.data(), large.size()) == 0);
    ::munmap(other, large.size());
    CHECK(::ftruncate(*descriptor, 10) != 0);
  }
}

TEST_CASE("a shared buffer is forgotten with its last share", "[wire][shared]") {
  auto slice = shared_copy_of("0123456789");
  REQUIRE(slice.has_value());
  const Slice part = slice->sub(2, 3);
  CHECK(shared_descriptor(*slice).has_value());
  const Slice same_place = Slice::of_static(slice->view());
  slice.reset();
  CHECK(part.view() == "234");
  CHECK(shared_descriptor(same_place).has_value());
}

TEST_CASE("a buffer of many MB goes back to the system, too", "[wire][shared]") {
  auto slice = shared_copy_of(std::string(40'000'000, 'L'));
  REQUIRE(slice.has_value());
  const int descriptor = *shared_descriptor(*slice);
  slice.reset();  // a thread of its own does it
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (::fcntl(descriptor, F_GETFD) >= 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  CHECK(::fcntl(descriptor, F_GETFD) < 0);
}

TEST_CASE("a frame that arrives in pieces of any size is the same in shared memory",
          "[wire][shared]") {
  std::string large(1'500'000, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 131 >> 7);
  const std::string bytes = stream_of({Slice::copy_of("head"), Slice::copy_of(large)});
  FrameReader reader(FrameReader::Profile::established);
  reader.share_large_frames();
  Frames frames;
  for (std::size_t at = 0, piece = 1; at < bytes.size(); piece = piece * 7 % 100'003) {
    const FrameReader::Space space = reader.prepare();
    const std::size_t count = std::min({space.size, piece, bytes.size() - at});
    std::memcpy(space.data, bytes.data() + at, count);
    reader.commit(count);
    at += count;
    const auto whole = reader.next(frames);
    REQUIRE(whole.ok());
    REQUIRE(*whole == (at == bytes.size()));
  }
  CHECK(frames.at(1).view() == large);
}
