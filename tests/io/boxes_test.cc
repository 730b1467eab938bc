//! Blocks of a file, read and written in the file's order: what arrives where, in how many
//! accesses, and what is said when a file is too short. The accesses counted are those the seek
//! model predicts.
#include "worker/io/boxes.h"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "scheduler/frontend/io/seeks.h"

namespace {

using worker::io::Block;
using worker::io::Direction;
using worker::io::FileArray;
using worker::io::transfer;

//! A file without a name.
struct File {
  explicit File(std::size_t bytes) : fd(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)) {
    REQUIRE(fd >= 0);
    REQUIRE(::ftruncate(fd, static_cast<off_t>(bytes)) == 0);
  }
  ~File() { ::close(fd); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void fill(const std::vector<std::byte>& bytes) const {
    REQUIRE(::pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  }
  std::vector<std::byte> content(std::size_t bytes) const {
    std::vector<std::byte> found(bytes);
    REQUIRE(::pread(fd, found.data(), bytes, 0) == static_cast<ssize_t>(bytes));
    return found;
  }

  int fd;
};

using Extents = std::vector<std::uint64_t>;

//! Every cell of a grid over the array, cut at the given places.
std::vector<std::pair<Extents, Extents>> cells(const std::vector<Extents>& cuts) {
  std::vector<std::pair<Extents, Extents>> found{{{}, {}}};
  for (const Extents& axis : cuts) {
    std::vector<std::pair<Extents, Extents>> longer;
    for (const auto& [start, stop] : found) {
      for (std::size_t i = 0; i + 1 < axis.size(); ++i) {
        longer.push_back({start, stop});
        longer.back().first.push_back(axis[i]);
        longer.back().second.push_back(axis[i + 1]);
      }
    }
    found = std::move(longer);
  }
  return found;
}

std::uint64_t volume(const Extents& start, const Extents& stop) {
  std::uint64_t elements = 1;
  for (std::size_t i = 0; i < start.size(); ++i) elements *= stop[i] - start[i];
  return elements;
}

std::vector<std::byte> noise(std::size_t bytes, std::mt19937& rng) {
  std::vector<std::byte> made(bytes);
  for (std::byte& b : made) b = static_cast<std::byte>(rng());
  return made;
}

}  // namespace

TEST_CASE("blocks of any grid are written to their places and come back", "[io]") {
  std::mt19937 rng(7);
  for (int round = 0; round < 300; ++round) {
    FileArray array{rng() % 40, 1 + rng() % 5, {}};
    std::vector<Extents> cuts;
    std::uint64_t bytes = array.itemsize;
    for (std::size_t n = 1 + rng() % 4; n > 0; --n) {
      const std::uint64_t extent = 1 + rng() % 9;
      array.shape.push_back(extent);
      const std::uint64_t middle = rng() % (extent + 1);
      cuts.push_back(middle == 0 || middle == extent ? Extents{0, extent}
                                                     : Extents{0, middle, extent});
      bytes *= extent;
    }
    const File file(array.offset + bytes);
    const auto before = noise(array.offset + bytes, rng);
    file.fill(before);
    std::vector<std::vector<std::byte>> memory;
    std::vector<Block> blocks;
    for (auto& [start, stop] : cells(cuts)) {
      memory.push_back(noise(volume(start, stop) * array.itemsize, rng));
      blocks.push_back({start, stop, nullptr});
    }
    for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i].memory = memory[i].data();
    const auto wrote = transfer(file.fd, array, blocks, Direction::write);
    CHECK(wrote.error == 0);
    CHECK(wrote.bytes == bytes);
    CHECK(wrote.segments == 1);  // together they are the whole array
    const auto after = file.content(array.offset + bytes);
    CHECK(std::memcmp(before.data(), after.data(), array.offset) == 0);

    const auto kept = memory;
    for (auto& block : memory) std::fill(block.begin(), block.end(), std::byte{0});
    CHECK(transfer(file.fd, array, blocks, Direction::read).error == 0);
    CHECK(memory == kept);
    // One by one they cost what the model says.
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      scheduler::io::Box box;
      for (std::size_t k = 0; k < array.shape.size(); ++k) {
        box.push_back({blocks[i].start[k], blocks[i].stop[k]});
      }
      const auto one = transfer(file.fd, array, std::span(&blocks[i], 1), Direction::read);
      CHECK(one.segments == scheduler::io::segments(box, array.shape));
      CHECK(memory[i] == kept[i]);
    }
  }
}

TEST_CASE("a row of blocks is one access per line, a slice of them one in all", "[io]") {
  const FileArray array{0, 2, {6, 6, 6}};
  const File file(2 * 6 * 6 * 6);
  std::vector<std::byte> memory(2 * 6 * 6 * 6);
  const auto count = [&](const std::vector<Extents>& cuts) {
    std::vector<Block> blocks;
    std::size_t at = 0;
    for (auto& [start, stop] : cells(cuts)) {
      blocks.push_back({start, stop, memory.data() + at});
      at += volume(start, stop) * 2;
    }
    return transfer(file.fd, array, blocks, Direction::read).segments;
  };
  CHECK(count({{0, 2}, {0, 2}, {0, 2}}) == 4);              // one block: lines of two elements
  CHECK(count({{0, 2}, {0, 2}, {0, 2, 4, 6}}) == 2);        // a row: two whole lines each
  CHECK(count({{0, 2}, {0, 2, 4, 6}, {0, 2, 4, 6}}) == 1);  // a slice
  CHECK(count({{0, 2}, {0, 2}, {0, 2, 4}}) == 4);           // part of a row
}

TEST_CASE("large pieces are scattered straight into blocks, past the limit of one call", "[io]") {
  const FileArray array{3, 1, {1500, 2, 4096}};
  const std::size_t bytes = std::size_t{1500} * 2 * 4096;
  const File file(3 + bytes);
  std::mt19937 rng(3);
  const auto content = noise(3 + bytes, rng);
  file.fill(content);
  std::vector<std::byte> left(bytes / 2), right(bytes / 2);
  const std::vector<Block> blocks{{{0, 0, 0}, {1500, 1, 4096}, left.data()},
                                  {{0, 1, 0}, {1500, 2, 4096}, right.data()}};
  const auto read = transfer(file.fd, array, blocks, Direction::read);
  CHECK(read.error == 0);
  CHECK(read.segments == 1);
  CHECK(read.calls == 3);  // 3000 pieces, 1024 a call
  bool same = true;
  for (std::size_t i = 0; i < 1500; ++i) {
    same = same && std::memcmp(&left[i * 4096], &content[3 + i * 8192], 4096) == 0 &&
           std::memcmp(&right[i * 4096], &content[3 + i * 8192 + 4096], 4096) == 0;
  }
  CHECK(same);
}

TEST_CASE("a file that ends early is an error that says where", "[io]") {
  const FileArray array{0, 1, {10, 10}};
  const File file(57);
  std::vector<std::byte> memory(100);
  const std::vector<Block> blocks{{{0, 0}, {10, 10}, memory.data()}};
  const auto read = transfer(file.fd, array, blocks, Direction::read);
  CHECK(read.error == EIO);
  CHECK(read.reason == "the file ends at byte 57, but data up to byte 100 is needed");
}

TEST_CASE("boxes outside the array and impossible sizes are refused, nothing is touched", "[io]") {
  std::vector<std::byte> memory(100);
  const auto refused = [&](const FileArray& array, const Block& block) {
    const auto done = transfer(-1, array, std::span(&block, 1), Direction::read);
    return done.error == EINVAL && done.calls == 0;
  };
  CHECK(refused({0, 1, {4}}, {{0}, {5}, memory.data()}));
  CHECK(refused({0, 1, {4}}, {{3}, {2}, memory.data()}));
  CHECK(refused({0, 1, {4}}, {{0, 0}, {1, 1}, memory.data()}));
  CHECK(refused({0, 8, {1ull << 40, 1ull << 40}}, {{0, 0}, {1, 1}, memory.data()}));
  CHECK(refused({1ull << 63, 1, {4}}, {{0}, {1}, memory.data()}));
  const Block nothing{{2}, {2}, nullptr};
  CHECK(transfer(-1, {0, 1, {4}}, std::span(&nothing, 1), Direction::read).error == 0);
}

TEST_CASE("what the system refuses is passed on", "[io]") {
  std::vector<std::byte> memory(4);
  const Block block{{0}, {4}, memory.data()};
  const auto done = transfer(-1, {0, 1, {4}}, std::span(&block, 1), Direction::write);
  CHECK(done.error == EBADF);
  CHECK(done.reason == "Bad file descriptor at byte 0");
}
