//! Reads and writes blocks of an array that a file holds in one piece.
//!
//! A block is a box of the array with memory of its own. All blocks of a call are walked together
//! in the order of the file, so data that lies in one run on disk is one access, however many
//! blocks it belongs to: it is scattered to (gathered from) their memory by preadv (pwritev), or
//! through a small buffer when the pieces are tiny. Bytes that belong to no block are never
//! touched.
//!
//! Needs no Python; callers release the GIL. Blocks may lie anywhere but must not overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace worker::io {

//! An array in one piece, slowest axis first.
struct FileArray {
  std::uint64_t offset = 0;  //!< of its first byte in the file
  std::uint64_t itemsize = 1;
  std::vector<std::uint64_t> shape;
};

//! A box of elements and the memory that holds it, in the same order and without gaps.
struct Block {
  std::vector<std::uint64_t> start;
  std::vector<std::uint64_t> stop;
  std::byte* memory = nullptr;
};

//! What was done; `segments` are accesses that did not continue the one before.
struct Transfer {
  int error = 0;       //!< errno; 0: all done
  std::string reason;  //!< what is wrong, when errno does not say it
  std::uint64_t bytes = 0;
  std::uint64_t calls = 0;
  std::uint64_t segments = 0;
};

enum class Direction : std::uint8_t { read, write };

//! Moves all blocks between the file and their memory. Boxes outside the array and sizes that do
//! not fit into 63 bits are refused; a file that ends early is an error of its own.
Transfer transfer(int fd, const FileArray& array, std::span<const Block> blocks,
                  Direction direction);

}  // namespace worker::io
