//! Spill files: the same payload comes back, or an error; never other bytes (fault row W14).
#include <catch2/catch.hpp>
#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "worker/shell/spill_file.h"

using namespace worker;
using protocol::Payload;
using protocol::Slice;

namespace {

std::string path_of(const char* name) {
  return std::string("/tmp/rask-spill-test-") + std::to_string(::getpid()) + "-" + name;
}

Payload sample() {
  Payload payload;
  payload.kind = Payload::Kind::serialized;
  payload.header = Slice::copy_of("a header");
  payload.frames = {Slice::own(std::string(100'000, 'x')), Slice{}, Slice::copy_of("tail")};
  return payload;
}

void overwrite(const std::string& path, off_t offset, char byte) {
  const int fd = ::open(path.c_str(), O_WRONLY);
  REQUIRE(::pwrite(fd, &byte, 1, offset) == 1);
  ::close(fd);
}

}  // namespace

TEST_CASE("a payload comes back from disk as it was", "[worker][spill]") {
  const auto file = SpillFile::write(path_of("same"), sample());
  REQUIRE(file.ok());
  const auto read = (*file)->read();
  REQUIRE(read.ok());
  CHECK((*read)->kind == Payload::Kind::serialized);
  CHECK((*read)->header.view() == "a header");
  REQUIRE((*read)->frames.size() == 3);
  CHECK((*read)->frames[0].view() == std::string(100'000, 'x'));
  CHECK((*read)->frames[1].empty());
  CHECK((*read)->frames[2].view() == "tail");
}

TEST_CASE("one changed byte anywhere is noticed", "[worker][spill][W14]") {
  for (const off_t offset : {0, 8, 20, 60, 50'000, 100'050}) {
    const std::string path = path_of("changed");
    const auto file = SpillFile::write(path, sample());
    REQUIRE(file.ok());
    overwrite(path, offset, '\x7f');
    CHECK_FALSE((*file)->read().ok());
  }
}

TEST_CASE("a truncated file is noticed at every length", "[worker][spill][W14]") {
  for (const off_t length : {0, 7, 16, 40, 99'999}) {
    const std::string path = path_of("short");
    const auto file = SpillFile::write(path, sample());
    REQUIRE(file.ok());
    REQUIRE(::truncate(path.c_str(), length) == 0);
    CHECK_FALSE((*file)->read().ok());
  }
}

TEST_CASE("a file goes with its last share", "[worker][spill]") {
  const std::string path = path_of("gone");
  {
    const auto file = SpillFile::write(path, sample());
    REQUIRE(::access(path.c_str(), F_OK) == 0);
  }
  CHECK(::access(path.c_str(), F_OK) != 0);
}

TEST_CASE("a write that fails leaves nothing behind and says why", "[worker][spill][W13]") {
  const auto nowhere = SpillFile::write("/nonexistent-folder/file", sample());
  REQUIRE_FALSE(nowhere.ok());
  CHECK(nowhere.error().text().find("/nonexistent-folder/file") != std::string::npos);
}
