//! Buffers that another process can be given: memory behind a file descriptor (memfd).
//!
//! A graph's large arguments are read from a client's socket straight into such a buffer; the graph
//! process then maps the same pages instead of getting a copy. A Slice of a finished buffer looks
//! like any other; shared_part() finds out whether it is one.
//!
//! Invariant: the size of a finished buffer is sealed, so no process that has the descriptor can
//! pull the memory from under a mapping.
#pragma once

#include <cstddef>
#include <optional>

#include "protocol/base/bytes.h"

namespace protocol {

//! A buffer that grows while it is filled. Not copied, not moved while a span of it is in use.
class SharedBuffer {
 public:
  SharedBuffer() = default;
  SharedBuffer(SharedBuffer&& other) noexcept { swap(other); }
  SharedBuffer& operator=(SharedBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~SharedBuffer();

  //! False if the system refuses; what is there stays.
  bool resize(std::size_t size);
  char* data() { return data_; }
  std::size_t size() const { return size_; }

  //! Seals the size and hands the bytes over; they are unmapped with the last share.
  Slice finish();

 private:
  void swap(SharedBuffer& other) noexcept;

  int fd_ = -1;
  char* data_ = nullptr;
  std::size_t size_ = 0;
};

//! The descriptor behind a slice that is the whole of a finished SharedBuffer. Borrowed: valid as
//! long as the slice.
std::optional<int> shared_descriptor(const Slice& slice);

//! Copies bytes into a buffer that can be shared; nothing if the system refuses.
std::optional<Slice> shared_copy_of(ByteView bytes);

}  // namespace protocol
