#include "protocol/wire/frames.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace protocol {
namespace {

constexpr std::size_t kWord = 8;
constexpr std::size_t kReadMin = 4 * 1024;  //!< less free space than this: begin a new block

//! The first bytes of a stream that is not Dask's, fit for a log line.
std::string sample(std::uint64_t word) {
  char raw[kWord];
  std::memcpy(raw, &word, kWord);
  std::string text;
  for (const char c : raw) text.push_back(c >= 0x20 && c < 0x7f ? c : '.');
  return text;
}

}  // namespace

FrameReader::FrameReader(Profile profile, const Limits& limits)
    : limits_(limits), profile_(profile) {}

FrameReader::~FrameReader() {
  if (large_.place == Place::heap) std::free(large_.data);
}

FrameReader::Space FrameReader::prepare() {
  if (large_.open && large_.filled < large_.length) {
    if (large_.place == Place::shared) {
      if (!bounce_) bounce_ = std::make_unique_for_overwrite<char[]>(kBounceBytes);
      return {bounce_.get(), std::min(kBounceBytes, large_.length - large_.filled)};
    }
    if (large_.filled == large_.capacity &&
        !resize_large(std::min(large_.length, large_.capacity * 2))) {
      return {nullptr, 0};
    }
    return {large_.data + large_.filled, large_.capacity - large_.filled};
  }
  if (available() == 0 && block_.use_count() == 1) read_ = write_ = 0;
  if (capacity_ - write_ < kReadMin) roll_block();
  return {block_.get() + write_, capacity_ - write_};
}

void FrameReader::commit(std::size_t count) {
  if (!large_.open || large_.filled == large_.length) {
    write_ += count;
    return;
  }
  large_.filled += count;
  if (large_.place == Place::shared) share({bounce_.get(), count});
}

//! The next bytes of a large frame that is to be shared; the last ones make it whole.
void FrameReader::share(ByteView bytes) {
  large_.failed =
      large_.failed || !shared_.append(bytes) || (large_.filled == large_.length && !shared_.map());
}

//! What has been handed out keeps the old block; only the unread rest moves.
void FrameReader::roll_block() {
  const std::size_t rest = available();
  const std::size_t capacity = std::max(kBlockBytes, 2 * rest);
  auto block = std::make_shared_for_overwrite<char[]>(capacity);
  if (rest > 0) std::memcpy(block.get(), block_.get() + read_, rest);
  block_ = std::move(block);
  capacity_ = capacity;
  read_ = 0;
  write_ = rest;
}

std::uint64_t FrameReader::take_word() {
  std::uint64_t word;
  std::memcpy(&word, block_.get() + read_, kWord);
  read_ += kWord;
  return word;
}

std::uint64_t FrameReader::frames_max() const {
  return profile_ == Profile::handshake ? limits_.handshake_frames_max : limits_.message_frames_max;
}

std::uint64_t FrameReader::bytes_max() const {
  return profile_ == Profile::handshake ? limits_.handshake_bytes_max : limits_.message_bytes_max;
}

Result<bool> FrameReader::fail(Fault fault, std::string where) {
  phase_ = Phase::failed;
  error_ = Error{fault, std::move(where)};
  return error_;
}

Result<bool> FrameReader::next(Frames& out) {
  if (phase_ == Phase::failed) return error_;
  if (phase_ != Phase::body) {
    Result<bool> ready = read_prelude();
    if (!ready || !*ready) return ready;
  }
  Result<bool> whole = read_body();
  if (!whole || !*whole) return whole;
  out = std::move(frames_);
  frames_.clear();
  lengths_.clear();
  held_ = 0;
  phase_ = Phase::span;
  return true;
}

//! True once every length is known.
Result<bool> FrameReader::read_prelude() {
  while (available() >= kWord) {
    const std::uint64_t word = take_word();
    Status taken = phase_ == Phase::lengths ? take_length(word) : take_prelude_word(word);
    if (!taken) return fail(taken.error().fault, taken.error().where);
    if (phase_ == Phase::body) return true;
  }
  return false;
}

Status FrameReader::take_prelude_word(std::uint64_t word) {
  if (phase_ == Phase::span) {
    // The prelude of one empty frame is the least there can be.
    if (word < 2 * kWord || word > bytes_max()) {
      return Error{Fault::too_large, "not a Dask message, it begins with '" + sample(word) + "'"};
    }
    span_ = word;
    phase_ = Phase::count;
    return Done{};
  }
  if (word == 0) return Error{Fault::bad_type, "a message without frames"};
  if (word > frames_max()) {
    return Error{Fault::too_large, std::to_string(word) + " frames in one message"};
  }
  count_ = word;
  declared_ = kWord * (count_ + 1);  // cannot overflow: the count is capped
  if (declared_ > span_) return Error{Fault::bad_type, "the first word ends inside the prelude"};
  cut_found_ = declared_ == span_;
  phase_ = Phase::lengths;
  return Done{};
}

Status FrameReader::take_length(std::uint64_t word) {
  if (word > bytes_max() || declared_ + word > bytes_max()) {
    return Error{Fault::too_large,
                 "a message of more than " + std::to_string(bytes_max()) + " bytes"};
  }
  declared_ += word;
  cut_found_ = cut_found_ || declared_ == span_;
  lengths_.push_back(word);
  if (lengths_.size() < count_) return Done{};
  if (!cut_found_) return Error{Fault::bad_type, "the first word ends inside a frame"};
  phase_ = Phase::body;
  return Done{};
}

Result<bool> FrameReader::read_body() {
  while (frames_.size() < count_) {
    const std::uint64_t length = lengths_[frames_.size()];
    const bool room = length <= kBlockFrameMax || large_.open || open_large(length);
    if (!room || large_.failed) return fail(Fault::io, "out of memory for a frame");
    if (!read_frame(length)) return false;
    held_ += length;
  }
  return true;
}

//! Adds the next frame if all of it is there.
bool FrameReader::read_frame(std::uint64_t length) {
  if (large_.open) {
    if (large_.filled < large_.length) return false;
    frames_.push_back(take_large());
    return true;
  }
  if (available() < length) return false;
  if (length == 0) {
    frames_.emplace_back();
    return true;
  }
  frames_.emplace_back(block_, ByteView(block_.get() + read_, length));
  read_ += length;
  return true;
}

//! Begins a frame with a buffer of its own, which takes what the block already holds of it.
bool FrameReader::open_large(std::size_t length) {
  const std::size_t here = std::min(available(), length);
  large_.place = share_large_ && length >= kSharedFrameMin ? Place::shared
                 : length >= kPagedFrameMin                ? Place::pages
                                                           : Place::heap;
  const ByteView begun(block_.get() + read_, here);
  read_ += here;
  large_.open = true;
  large_.length = length;
  large_.filled = here;
  if (large_.place == Place::shared) {
    share(begun);
    return true;
  }
  // In memory that is mapped only what has been read takes room, one page at a time.
  const std::size_t first =
      large_.place == Place::pages ? kPagedFrameMin : std::min(length, limits_.read_growth_max);
  if (!resize_large(std::max(first, here))) return false;
  std::memcpy(large_.data, begun.data(), here);
  return true;
}

bool FrameReader::resize_large(std::size_t capacity) {
  char* data = nullptr;
  if (large_.place == Place::heap) {
    data = static_cast<char*>(std::realloc(large_.data, capacity));
  } else if (pages_.grow(capacity)) {
    data = pages_.data();
  }
  if (data == nullptr) return false;
  large_.data = data;
  large_.capacity = capacity;
  return true;
}

Slice FrameReader::take_large() {
  const Large done = std::exchange(large_, Large{});
  if (done.place == Place::pages) return pages_.finish(done.length);
  if (done.place == Place::shared) {
    bounce_.reset();
    return shared_.finish();
  }
  std::shared_ptr<const void> owner(done.data, std::free);
  return Slice(std::move(owner), ByteView(done.data, done.length));
}

std::string write_prelude(std::span<const std::uint64_t> lengths) {
  std::uint64_t span = kWord * (lengths.size() + 1);
  for (const std::uint64_t length : lengths) span += length;
  const std::uint64_t count = lengths.size();
  std::string prelude(kWord * (lengths.size() + 2), '\0');
  std::memcpy(prelude.data(), &span, kWord);
  std::memcpy(prelude.data() + kWord, &count, kWord);
  std::memcpy(prelude.data() + 2 * kWord, lengths.data(), kWord * lengths.size());
  return prelude;
}

OutMessage frame_message(const Frames& frames) {
  std::vector<std::uint64_t> lengths;
  lengths.reserve(frames.size());
  for (const Slice& frame : frames) lengths.push_back(frame.size());
  OutMessage message;
  message.pieces.push_back(Slice::own(write_prelude(lengths)));
  for (const Slice& frame : frames) {
    if (!frame.empty()) message.pieces.push_back(frame);
  }
  for (const Slice& piece : message.pieces) message.bytes += piece.size();
  return message;
}

}  // namespace protocol
