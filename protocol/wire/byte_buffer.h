//! A growing run of bytes whose append is inlined: what msgpack-cxx's packer writes into.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "protocol/base/bytes.h"
#include "protocol/base/check.h"

namespace protocol {

class ByteBuffer {
 public:
  ByteBuffer() = default;
  ByteBuffer(const ByteBuffer&) = delete;
  ByteBuffer& operator=(const ByteBuffer&) = delete;
  ByteBuffer(ByteBuffer&& other) noexcept { swap(other); }
  ByteBuffer& operator=(ByteBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~ByteBuffer() { std::free(data_); }

  void write(const char* bytes, std::size_t count) {
    if (count > capacity_ - size_) [[unlikely]] grow(count);
    if (count > 0) std::memcpy(data_ + size_, bytes, count);
    size_ += count;
  }
  void write(ByteView bytes) { write(bytes.data(), bytes.size()); }

  char* data() { return data_; }
  ByteView view() const { return ByteView(data_, size_); }
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }
  void clear() { size_ = 0; }

  //! Hands the bytes over without a copy; the buffer is empty afterwards.
  Slice take() {
    std::shared_ptr<const void> owner(data_, std::free);
    const ByteView bytes(data_, size_);
    data_ = nullptr;
    size_ = capacity_ = 0;
    return Slice(std::move(owner), bytes);
  }

 private:
  void swap(ByteBuffer& other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }
  void grow(std::size_t count) {
    const std::size_t capacity = std::max({std::size_t{512}, 2 * capacity_, size_ + count});
    data_ = static_cast<char*>(std::realloc(data_, capacity));
    CHECK_ALWAYS(data_ != nullptr);
    capacity_ = capacity;
  }

  char* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace protocol
