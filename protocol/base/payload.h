//! Values that are carried, never opened: results, exceptions, run specs.
//!
//! A Payload is one value of a message exactly as it arrived: either plain msgpack bytes, or one
//! of Dask's out-of-line bundles (a sub-header frame and its sub-frames). Writing it back gives
//! the receiver byte-identical frames; only the frame number in frame 0 differs.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "protocol/base/bytes.h"

namespace protocol {

struct Payload {
  enum class Kind : std::uint8_t {
    inline_value,  //!< `header` holds the msgpack encoding of the value itself (nil, bin, str, map…)
    serialized,    //!< {"__Serialized__": i}: `header` is the sub-header frame
    pickled,       //!< {"__Pickled__": i}: `header` is the sub-header frame
    //! A plain value with markers somewhere inside: `header` holds its msgpack encoding, whose
    //! marker numbers count `frames` from 1. The writer numbers them anew.
    compound,
  };
  Kind kind = Kind::inline_value;
  Slice header;
  std::vector<Slice> frames;  //!< sub-frames, in order; empty for inline values
};

using PayloadRef = std::shared_ptr<const Payload>;

//! What a worker needs to run one task. The pickle is `own` followed by `tail`; siblings share the
//! tail and the large buffers, so a task record never copies what its siblings share.
struct RunSpec {
  Slice own;                    //!< bytes of this task alone
  Slice tail;                   //!< shared end of the pickle; empty on the general path
  std::vector<Slice> buffers;   //!< out-of-band buffers (PEP 574), in order, mostly shared
};

using RunSpecRef = std::shared_ptr<const RunSpec>;

}  // namespace protocol
