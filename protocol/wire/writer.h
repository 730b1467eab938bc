//! Builds a message: frame 0 in one growing buffer, and the frames attached to it.
//!
//! Small pieces are gathered in one contiguous block; pieces of kShareMin bytes or more stay Slices
//! of whatever holds them, so relaying a large payload never copies it. L covers every frame, which
//! all peers accept. A writer keeps its buffers between messages.
//!
//! A stream message is an array whose length is known only at its end: see StreamBatch.
//! Answers to: distributed/protocol/core.py, dumps.
#pragma once

#include <cstdint>
#include <cstring>
#include <msgpack.hpp>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/base/key.h"
#include "protocol/base/payload.h"
#include "protocol/base/result.h"
#include "protocol/wire/byte_buffer.h"
#include "protocol/wire/frames.h"
#include "protocol/wire/message.h"

namespace protocol {

class MessageWriter {
 public:
  static constexpr std::size_t kShareMin = 4 * 1024;

  void map(std::uint32_t entries) { packer().pack_map(entries); }
  void array(std::uint32_t elements) { packer().pack_array(elements); }
  void str(std::string_view text) {
    const auto size = static_cast<std::uint32_t>(text.size());
    packer().pack_str(size).pack_str_body(text.data(), size);
  }
  void bin(ByteView bytes) {
    const auto size = static_cast<std::uint32_t>(bytes.size());
    packer().pack_bin(size).pack_bin_body(bytes.data(), size);
  }
  void integer(std::int64_t value) { packer().pack_int64(value); }
  void uinteger(std::uint64_t value) { packer().pack_uint64(value); }
  //! Always a float: msgpack-cxx's packer would turn 1.0 into the int 1.
  void real(double value) {
    std::uint64_t bits;
    std::memcpy(&bits, &value, 8);
    char packed[9] = {'\xcb'};
    for (int k = 0; k < 8; ++k) packed[1 + k] = static_cast<char>(bits >> (8 * (7 - k)));
    frame0_.write(packed, sizeof packed);
  }
  void boolean(bool value) { value ? packer().pack_true() : packer().pack_false(); }
  void nil() { packer().pack_nil(); }
  void key(KeyView key) { frame0_.write(key.bytes); }
  //! One or more msgpack values, already encoded and free of markers.
  void raw(ByteView msgpack) { frame0_.write(msgpack); }
  //! A number as Python would hold it: an int if it has no fraction.
  void number(double value);
  //! A str whose length the compiler knows: names of fields and fixed values.
  template <std::size_t N>
  void literal(const char (&text)[N]) {
    static_assert(N - 1 < 32);
    char packed[N];
    packed[0] = static_cast<char>(0xa0 + N - 1);
    std::memcpy(packed + 1, text, N - 1);
    frame0_.write(packed, N);
  }
  template <std::size_t N>
  void field(const char (&name)[N]) {
    literal(name);
  }
  //! A str, or nil if it is empty.
  void str_or_nil(std::string_view text) { text.empty() ? nil() : str(text); }

  //! A value that is carried, of whatever form.
  void payload(const Payload& payload);
  void payload(const PayloadRef& payload) { this->payload(*payload); }
  //! The same; frames of a value that this message holds already are referred to, not sent again.
  //! For Python peers: our own reader lets no two markers name one frame (message.h).
  void payload_once(const PayloadRef& payload);
  //! A run spec as stock sends it: a marker whose sub-header frame holds the pickle.
  void run_spec(const RunSpec& spec);
  //! A value of another message; markers inside are numbered anew and their frames attached.
  //! Fails if a marker lies about its frames; the writer is then to be reset.
  Status value(const Message& message, Value value);
  //! A marker map and its frames: the sub-header, then the sub-frames.
  void marker(Payload::Kind kind, std::span<const Slice> bundle);

  //! Adds a frame that frame 0 refers to by the number this returns.
  std::uint64_t attach(const Slice& frame);

  //! Opens an array whose length is set by close_array; gives the place to close it at.
  std::size_t open_array();
  void close_array(std::size_t place, std::uint32_t elements);

  //! Bytes written so far, the prelude apart.
  std::size_t bytes() const { return frame0_.size() + attached_; }
  bool empty() const { return frame0_.size() == 0; }

  //! The message; the writer is empty again.
  OutMessage finish();
  //! What was written as one value to be carried: marker numbers count its own frames from 1.
  PayloadRef take_payload();
  void reset();

 private:
  //! The bytes of `side_` up to `side_end`, then `shared`.
  struct Segment {
    std::size_t side_end;
    Slice shared;
  };

  msgpack::packer<ByteBuffer> packer() { return msgpack::packer<ByteBuffer>(frame0_); }
  void append(const Slice& piece);
  void mark(Payload::Kind kind, std::uint64_t frame);
  void end_frame(std::uint64_t length) {
    lengths_.push_back(length);
    attached_ += length;
  }
  Frames take_attached();

  ByteBuffer frame0_;
  ByteBuffer side_;                      //!< small pieces of attached frames
  std::vector<Segment> segments_;
  std::vector<std::uint64_t> lengths_;   //!< of the attached frames
  std::vector<std::pair<PayloadRef, std::uint64_t>> once_;  //!< by payload_once: first frame
  std::size_t attached_ = 0;
};

//! A stream message that is filled op by op.
class StreamBatch {
 public:
  //! The writer, for exactly one more op-map.
  MessageWriter& next() {
    if (count_++ == 0) place_ = writer_.open_array();
    return writer_;
  }
  bool empty() const { return count_ == 0; }
  std::uint32_t size() const { return count_; }
  std::size_t bytes() const { return writer_.bytes(); }
  //! The message; the batch is empty again. Not to be called on an empty batch.
  OutMessage close() {
    writer_.close_array(place_, count_);
    count_ = 0;
    return writer_.finish();
  }

 private:
  MessageWriter writer_;
  std::size_t place_ = 0;
  std::uint32_t count_ = 0;
};

}  // namespace protocol
