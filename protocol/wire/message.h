//! One received message: its frames, the tape of frame 0, and what leaves them.
//!
//! Values that are only passed on (results, exceptions, plugins) are taken out as Payloads without
//! being opened; keys are taken out as canonical KeyViews that borrow from the message. A marker
//! {"__Serialized__": i} or {"__Pickled__": i} is believed only after its sub-header agrees with
//! the frames that are really there, and each frame belongs to the first marker that names it, so
//! that many markers naming the same frames cannot multiply memory.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "protocol/base/key.h"
#include "protocol/base/payload.h"
#include "protocol/base/result.h"
#include "protocol/wire/document.h"
#include "protocol/wire/frames.h"

namespace protocol {

//! What a marker map says: frame `header`, followed by sub-frames whose count the header holds.
struct Marker {
  Payload::Kind kind;    //!< serialized or pickled
  std::uint64_t header;  //!< number of the sub-header frame, from 1
  std::uint32_t node;    //!< where it stands on the tape
};

//! The marker a value is, if it is one.
std::optional<Marker> as_marker(Value value);
//! True if a marker hides at or anywhere below this value. O(nodes).
bool holds_marker(Value value);

class Message {
 public:
  Message() = default;
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  //! Takes the frames over and parses frame 0. Everything borrowed from the old message ends.
  Status reset(Frames frames, const Limits& limits = kLimits);

  //! Gives back the frames and the memory of the parse.
  void clear();

  Value root() const { return document_.root(); }
  const Frames& frames() const { return frames_; }
  const Document& document() const { return document_; }

  //! A value to keep or pass on, of whatever form. Small pieces are copied so that they do not pin
  //! the read block they arrived in; large frames are shared.
  Result<PayloadRef> payload(Value value) const;

  //! The frames a marker names: the sub-header, then the sub-frames.
  Result<std::span<const Slice>> bundle(Marker marker) const;

  //! A canonical key; borrowed from this message.
  Result<KeyView> key(Value value) const;

 private:
  Result<PayloadRef> compound(Value value) const;
  bool claim(Marker marker, std::uint64_t frames) const;

  Frames frames_;
  Document document_;
  mutable Document sub_header_;      //!< scratch
  mutable std::deque<Key> spelled_;  //!< canonical forms of keys that arrived otherwise
  mutable std::vector<std::uint32_t> owners_;  //!< by frame: node of its marker + 1; 0: none yet
};

//! The nil value as a payload.
const PayloadRef& nil_payload();
//! A payload that holds bytes as msgpack bin, for example a hand-made pickle.
PayloadRef bin_payload(ByteView bytes);
PayloadRef str_payload(std::string_view text);
//! Bytes, for a Python peer, in a frame of their own: see MessageWriter::payload_once.
PayloadRef pickled_bytes_payload(ByteView bytes);

}  // namespace protocol
