//! Memory of its own for one frame of many MB, in large pages where the system has them.
//!
//! Half of what it costs to read 64 MiB into fresh memory are the 16 384 page faults; in pages of 2
//! MiB there are 32. NumPy asks for large pages for the same reason, so stock reads into them too.
//!
//! Invariant: the memory starts at the border of a large page and stays at one when it grows, so
//! growing moves pages and copies nothing. A last piece shorter than a large page gets small ones:
//! no more is ever used than was asked for, rounded up to one of them.
#pragma once

#include <cstddef>

#include "protocol/base/bytes.h"

namespace protocol {

//! A buffer that grows while it is filled. Not copied.
class PageBuffer {
 public:
  PageBuffer() = default;
  PageBuffer(const PageBuffer&) = delete;
  PageBuffer& operator=(const PageBuffer&) = delete;
  ~PageBuffer();

  //! Grows to `size`; the memory may move. False if the system refuses; what is there stays.
  bool grow(std::size_t size);
  char* data() { return data_; }

  //! Hands the first `size` bytes over; the memory goes back to the system with the last share.
  Slice finish(std::size_t size);

 private:
  char* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace protocol
