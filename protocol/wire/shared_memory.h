//! Buffers that another process can be given: memory behind a file descriptor (memfd).
//!
//! A graph's large arguments are written into such a buffer as they arrive; the graph process then
//! maps the same pages instead of getting a copy. A Slice of a finished buffer looks like any
//! other; shared_descriptor() finds out whether it is one.
//!
//! Such memory comes in small pages, whatever the system does for ordinary memory. To touch 500 MB
//! of it for the first time takes 0.33 s, to write them to the descriptor half of that, to give
//! them back 0.1 s, which a thread of its own does.
//!
//! Invariant: the size of a finished buffer is sealed, so no process that has the descriptor can
//! pull the memory from under a mapping.
#pragma once

#include <cstddef>
#include <optional>

#include "protocol/base/bytes.h"

namespace protocol {

//! A buffer that is filled piece by piece, or mapped first and then filled. Not copied.
class SharedBuffer {
 public:
  SharedBuffer() = default;
  SharedBuffer(SharedBuffer&& other) noexcept { swap(other); }
  SharedBuffer& operator=(SharedBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~SharedBuffer();

  // All three: false if the system refuses; what is there stays.
  //! Adds bytes behind what is there.
  bool append(ByteView bytes);
  //! Makes all that is there visible at data().
  bool map();
  //! An empty buffer gets zeros, visible at data().
  bool make(std::size_t size);

  char* data() { return data_; }

  //! Seals the size and hands the mapped bytes over; they are unmapped with the last share.
  Slice finish();

 private:
  bool open();
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
