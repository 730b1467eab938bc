//! Reads what a graph process says about one submission.
//!
//! Hostile input: every count, offset and number is checked before it is used, nothing is allocated
//! on a declared length, and the first broken rule is an Error that names it. The caller then kills
//! the child. What passes is consistent by itself: dependencies name known keys, buffers name known
//! blobs, each key of the graph has exactly one record. That keys differ is not checked here.
//!
//! Pure: no IO, no loop. The columns are described in README.md.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "protocol/base/result.h"
#include "protocol/wire/document.h"
#include "protocol/wire/frames.h"
#include "scheduler/core/events.h"
#include "scheduler/frontend/graph_types.h"

namespace scheduler {

class GraphDecoder {
 public:
  static constexpr std::uint32_t kSliceMax = 1u << 16;  //!< records in one message
  static constexpr std::size_t kColumns = 10;

  //! `request`: the frames of the graph message, by number, for blobs that lie inside one.
  explicit GraphDecoder(std::vector<protocol::Slice> request) : request_(std::move(request)) {}

  //! Keys of one message in canonical form; valid until the next call and as long as `packed`.
  protocol::Result<std::span<const KeyView>> keys(ByteView packed, bool outside);
  //! Keys that the child asks about; they are not numbered. Valid as those of `keys`.
  protocol::Result<std::span<const KeyView>> asked(ByteView packed);
  //! `frames`: those after frame 0. `refs`: the header's field, if any.
  protocol::Status blobs(std::span<const protocol::Slice> frames, protocol::Value refs);
  protocol::Status annotations(protocol::Value sets);
  //! The dependencies of the tasks are valid until the next call.
  protocol::Result<std::vector<GraphTask>> records(protocol::Value header,
                                                   std::span<const protocol::Slice> columns);
  protocol::Result<std::vector<GraphBarrier>> barriers(protocol::Value list);
  //! Whether the graph may be committed now.
  protocol::Status complete() const;

 private:
  struct Columns;

  protocol::Status check(const Columns& columns) const;
  SpecRef spec_block(const Columns& columns) const;
  protocol::Result<protocol::Slice> inside_request(protocol::Value ref) const;
  protocol::Result<AnnotationsRef> annotation_set(protocol::Value set);
  protocol::Result<GraphBarrier> barrier(protocol::Value value) const;
  std::uint64_t keys_total() const { return inside_ + outside_; }

  std::vector<protocol::Slice> request_;
  std::vector<protocol::Slice> blobs_;
  std::vector<AnnotationsRef> sets_;
  std::uint64_t inside_ = 0;    //!< keys the graph defines; numbers below this
  std::uint64_t outside_ = 0;   //!< keys it only depends on; numbers after those
  std::uint64_t recorded_ = 0;  //!< records so far
  protocol::Document packed_;
  std::vector<KeyView> views_;
  std::deque<Key> spelled_;     //!< canonical forms of keys that arrived otherwise
  std::vector<std::uint32_t> dependencies_;
};

//! A column of little-endian integers at any alignment.
template <class T>
class Column {
 public:
  Column() = default;
  explicit Column(ByteView bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  std::size_t size() const { return bytes_.size() / sizeof(T); }
  bool whole() const { return bytes_.size() % sizeof(T) == 0; }
  T operator[](std::size_t i) const {
    T value;
    __builtin_memcpy(&value, bytes_.data() + i * sizeof(T), sizeof(T));
    return value;
  }
  ByteView bytes() const { return bytes_; }

 private:
  ByteView bytes_;
};

}  // namespace scheduler
