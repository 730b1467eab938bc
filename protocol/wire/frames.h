//! Dask's framing of a byte stream: a prelude of lengths, then the frames.
//!
//! FrameReader is made for libuv: prepare() says where the next bytes go, commit() how many came,
//! next() takes out one message. It never blocks and never recurses, takes input cut at any byte,
//! and its memory grows with the bytes received, never with the lengths declared (limits.h).
//! Small frames are slices of a shared read block; a frame above kBlockFrameMax is read straight
//! into a buffer of its own, one from kPagedFrameMin on into large pages. Whoever keeps a small
//! slice for long copies it, or it pins its block.
//!
//! Answers to: distributed/comm/tcp.py, TCP.read and TCP.write. `L`, the first word, may cover only
//! a prefix of the frames; what follows it is announced by the same prelude all the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "protocol/base/bytes.h"
#include "protocol/base/limits.h"
#include "protocol/base/result.h"
#include "protocol/wire/page_buffer.h"
#include "protocol/wire/shared_memory.h"

namespace protocol {

using Frames = std::vector<Slice>;

//! A message ready to be written: consecutive pieces of the byte stream, prelude first.
struct OutMessage {
  std::vector<Slice> pieces;
  std::size_t bytes = 0;
};

class FrameReader {
 public:
  //! What the peer may declare: little before it has greeted, a lot afterwards.
  enum class Profile : std::uint8_t { handshake, established };

  struct Space {
    char* data;
    std::size_t size;  //!< 0: out of memory
  };

  static constexpr std::size_t kBlockBytes = 64 * 1024;
  static constexpr std::size_t kBlockFrameMax = 32 * 1024;
  static constexpr std::size_t kSharedFrameMin = 1024 * 1024;
  static constexpr std::size_t kBounceBytes = 256 * 1024;
  static constexpr std::size_t kPagedFrameMin = 4 * 1024 * 1024;  //!< as NumPy

  explicit FrameReader(Profile profile = Profile::handshake, const Limits& limits = kLimits);
  ~FrameReader();
  FrameReader(const FrameReader&) = delete;
  FrameReader& operator=(const FrameReader&) = delete;

  void set_profile(Profile profile) { profile_ = profile; }
  //! From now on frames of at least kSharedFrameMin bytes are read into shared memory
  //! (shared_memory.h), for a reader who will hand them to another process.
  void share_large_frames() { share_large_ = true; }

  //! Where to read to next. Valid until the next call of any method. Call next() until it says
  //! false before asking for more space.
  Space prepare();
  //! `count` bytes have been written to the space.
  void commit(std::size_t count);

  //! Stores one whole message in `out` and answers true, or answers false: more bytes are needed.
  //! After an error the stream is out of step for good, and every further call gives that error.
  Result<bool> next(Frames& out);

  //! True if the stream ended now in the middle of a message.
  bool mid_message() const { return phase_ != Phase::span || available() > 0; }
  //! Bytes of the unfinished message held so far, for budgets over all connections.
  std::size_t held_bytes() const { return held_ + large_.filled + available(); }

 private:
  enum class Phase : std::uint8_t { span, count, lengths, body, failed };

  enum class Place : std::uint8_t { heap, pages, shared };

  struct Large {
    char* data = nullptr;
    std::size_t length = 0;
    std::size_t capacity = 0;
    std::size_t filled = 0;
    Place place = Place::heap;  //!< else the bytes lie in `pages_` or `shared_`
    bool open = false;          //!< there is one, maybe whole but not taken yet
    bool failed = false;
  };

  std::size_t available() const { return write_ - read_; }
  std::uint64_t take_word();
  std::uint64_t frames_max() const;
  std::uint64_t bytes_max() const;
  Result<bool> fail(Fault fault, std::string where);
  Result<bool> read_prelude();
  Status take_prelude_word(std::uint64_t word);
  Status take_length(std::uint64_t word);
  Result<bool> read_body();
  bool read_frame(std::uint64_t length);
  bool open_large(std::size_t length);
  bool resize_large(std::size_t capacity);
  void share(ByteView bytes);
  Slice take_large();
  void roll_block();

  const Limits& limits_;
  Profile profile_;
  Phase phase_ = Phase::span;
  std::shared_ptr<char[]> block_;
  std::size_t capacity_ = 0;
  std::size_t read_ = 0;
  std::size_t write_ = 0;
  std::uint64_t span_ = 0;      //!< L
  std::uint64_t count_ = 0;     //!< N
  std::uint64_t declared_ = 0;  //!< bytes of prelude and frames announced so far, as L counts
  bool cut_found_ = false;      //!< L ends at a frame boundary
  std::vector<std::uint64_t> lengths_;
  Frames frames_;
  Large large_;
  PageBuffer pages_;
  SharedBuffer shared_;
  std::unique_ptr<char[]> bounce_;  //!< what goes into `shared_` next
  bool share_large_ = false;
  std::size_t held_ = 0;
  Error error_{Fault::closed, ""};
};

//! Appends the prelude of a message whose L covers every frame.
std::string write_prelude(std::span<const std::uint64_t> lengths);

//! Frames as a message, without copying them.
OutMessage frame_message(const Frames& frames);

}  // namespace protocol
