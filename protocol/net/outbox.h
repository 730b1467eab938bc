//! What waits to be written to one peer.
//!
//! Small pieces are copied together into blocks; large slices are queued as they are and leave by
//! scatter-gather write, so relaying a value never copies it. Nothing is written before flush();
//! while a write is in flight further messages gather behind it and leave as one. The number of
//! bytes waiting is bounded by the owner (see Connection): a peer that does not read is closed.
#pragma once

#include <uv.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "protocol/base/bytes.h"

namespace protocol {

class Outbox {
 public:
  //! Pieces shorter than this are copied; the cost of a copy is below that of an iovec of its own.
  static constexpr std::size_t kCopyBelow = 2048;

  //! Copies bytes behind everything queued so far.
  void append(ByteView bytes);
  //! Queues a slice; large ones are kept, not copied.
  void append(Slice slice);

  std::size_t bytes() const { return queued_bytes_ + in_flight_bytes_; }
  bool in_flight() const { return in_flight_bytes_ != 0; }
  bool empty() const { return queued_bytes_ == 0; }

  //! Writes what is queued unless a write is in flight. Calls `on_done(status)` when a write that
  //! did not finish at once has ended; status < 0 is a libuv error. Returns a libuv error or 0.
  int flush(uv_stream_t* stream, const std::function<void(int)>& on_done);
  //! Forgets what is queued.
  void clear();

 private:
  struct Write;

  void seal();

  std::string block_;               //!< small pieces gathered since the last large slice
  std::vector<Slice> queue_;        //!< sealed pieces, in order
  std::size_t queued_bytes_ = 0;
  std::size_t in_flight_bytes_ = 0;
};

}  // namespace protocol
