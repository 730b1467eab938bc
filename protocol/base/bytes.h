//! Byte views and counted slices.
//!
//! A ByteView borrows; a Slice keeps what it shows alive. Payloads travel through a process as
//! Slices of the buffer they arrived in, so relaying a frame never copies it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace protocol {

using ByteView = std::string_view;  //!< raw bytes; char because msgpack and libuv speak char

//! A view together with a share in whatever owns the bytes (a read buffer, a mapping, a string).
class Slice {
 public:
  Slice() = default;
  Slice(std::shared_ptr<const void> owner, ByteView view) : owner_(std::move(owner)), view_(view) {}

  //! Copies the bytes into a buffer of their own.
  static Slice copy_of(ByteView bytes);
  //! Takes over a string without copying its bytes.
  static Slice own(std::string bytes);
  //! Shows bytes that live for ever (literals, tables).
  static Slice of_static(ByteView bytes) { return Slice(nullptr, bytes); }

  ByteView view() const { return view_; }
  const char* data() const { return view_.data(); }
  std::size_t size() const { return view_.size(); }
  bool empty() const { return view_.empty(); }
  //! Expires when the last slice of the same owner is gone.
  std::weak_ptr<const void> watch() const { return owner_; }
  Slice sub(std::size_t offset, std::size_t count) const {
    return Slice(owner_, view_.substr(offset, count));
  }

 private:
  std::shared_ptr<const void> owner_;
  ByteView view_;
};

}  // namespace protocol
