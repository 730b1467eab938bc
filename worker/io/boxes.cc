//! Walking blocks in the order of the file; see boxes.h.
#include "worker/io/boxes.h"

#include <limits.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <compare>
#include <cstring>
#include <functional>
#include <limits>
#include <queue>

namespace worker::io {
namespace {

constexpr std::size_t kTiny = 2048;         //!< pieces below this go through the small buffer
constexpr std::size_t kStaging = 1u << 20;  //!< the small buffer
constexpr std::size_t kVectors = IOV_MAX;   //!< pieces of one call
constexpr std::uint64_t kMost = 1u << 30;   //!< bytes of one call

//! The first axis, from the fastest on, that a block does not cover whole; 0 if it covers all. Its
//! runs on disk go along this axis and hold all faster ones.
std::size_t run_axis(const FileArray& array, const Block& block) {
  std::size_t axis = array.shape.size();
  while (axis > 0) {
    --axis;
    if (block.stop[axis] - block.start[axis] != array.shape[axis]) break;
  }
  return axis;
}

//! Blocks that follow each other along the axis of their runs and have the same place on all slower
//! axes: each step through those is one line in the file, with a part for each block.
class Line {
 public:
  struct Part {
    std::byte* memory;
    std::uint64_t length;
  };

  Line(const FileArray& array, const Block& block) {
    const std::size_t axis = run_axis(array, block);
    std::uint64_t stride = array.itemsize;
    for (std::size_t i = array.shape.size(); i-- > 0;) {
      offset_ += block.start[i] * stride;
      // What is left of the run's axis is stepped through like an odometer.
      if (i < axis) wheels_.push_back({block.stop[i] - block.start[i], stride});
      stride *= array.shape[i];
    }
    offset_ += array.offset;
    add(array, block);
  }

  //! One more block, right behind the last.
  void add(const FileArray& array, const Block& block) {
    std::uint64_t length = array.itemsize;
    for (std::size_t i = run_axis(array, block); i < array.shape.size(); ++i) {
      length *= block.stop[i] - block.start[i];
    }
    parts_.push_back({block.memory, length});
  }

  std::uint64_t offset() const { return offset_; }
  std::span<const Part> parts() const { return parts_; }

  //! To the next line; false: there is none.
  bool next() {
    for (Part& part : parts_) part.memory += part.length;
    for (Wheel& wheel : wheels_) {
      offset_ += wheel.stride;
      if (++wheel.at < wheel.extent) return true;
      offset_ -= wheel.extent * wheel.stride;
      wheel.at = 0;
    }
    return false;
  }

 private:
  struct Wheel {
    std::uint64_t extent;
    std::uint64_t stride;
    std::uint64_t at = 0;
  };

  std::vector<Wheel> wheels_;  //!< fastest first
  std::vector<Part> parts_;
  std::uint64_t offset_ = 0;
};

//! Blocks as lines; those that can share a line are found by sorting.
std::vector<Line> lines_of(const FileArray& array, std::vector<const Block*> blocks) {
  struct Entry {
    std::size_t axis;
    const Block* block;
  };
  std::vector<Entry> entries;
  entries.reserve(blocks.size());
  for (const Block* block : blocks) entries.push_back({run_axis(array, *block), block});
  const auto outer = [](const Entry& e) {
    const auto n = static_cast<std::ptrdiff_t>(e.axis);
    return std::pair(std::span(e.block->start.begin(), e.block->start.begin() + n),
                     std::span(e.block->stop.begin(), e.block->stop.begin() + n));
  };
  const auto place = [&](const Entry& a, const Entry& b) {
    if (a.axis != b.axis) return a.axis <=> b.axis;
    const auto [a_start, a_stop] = outer(a);
    const auto [b_start, b_stop] = outer(b);
    if (const auto by = std::lexicographical_compare_three_way(a_start.begin(), a_start.end(),
                                                               b_start.begin(), b_start.end());
        by != 0) {
      return by;
    }
    return std::lexicographical_compare_three_way(a_stop.begin(), a_stop.end(), b_stop.begin(),
                                                  b_stop.end());
  };
  const auto run_start = [](const Entry& e) {
    return e.block->start.empty() ? 0 : e.block->start[e.axis];
  };
  std::sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
    const auto by = place(a, b);
    return by != 0 ? by < 0 : run_start(a) < run_start(b);
  });
  std::vector<Line> lines;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const bool follows = i > 0 && !entries[i].block->start.empty() &&
                         place(entries[i - 1], entries[i]) == 0 &&
                         entries[i - 1].block->stop[entries[i].axis] == run_start(entries[i]);
    if (follows) {
      lines.back().add(array, *entries[i].block);
    } else {
      lines.emplace_back(array, *entries[i].block);
    }
  }
  return lines;
}

//! Collects pieces that follow each other in the file and moves them together.
class Mover {
 public:
  Mover(int fd, Direction direction, Transfer& done)
      : fd_(fd), direction_(direction), done_(done) {}

  bool add(std::uint64_t offset, std::byte* memory, std::uint64_t length) {
    const bool tiny = length < kTiny;
    const std::size_t most = tiny ? kStaging / kTiny * 64 : kVectors;
    if (!pieces_.empty() && (offset != begin_ + size_ || tiny != tiny_ || pieces_.size() >= most ||
                             size_ + length > (tiny ? kStaging : kMost))) {
      if (!flush()) return false;
    }
    if (pieces_.empty()) {
      begin_ = offset;
      tiny_ = tiny;
    }
    iovec* last = pieces_.empty() ? nullptr : &pieces_.back();
    if (last != nullptr && static_cast<std::byte*>(last->iov_base) + last->iov_len == memory) {
      last->iov_len += length;
    } else {
      pieces_.push_back({memory, length});
    }
    size_ += length;
    return true;
  }

  bool flush() {
    if (pieces_.empty()) return true;
    if (begin_ != continued_) ++done_.segments;
    const bool good = tiny_ && pieces_.size() > 1 ? staged() : move(pieces_);
    continued_ = begin_ + size_;
    pieces_.clear();
    size_ = 0;
    return good;
  }

 private:
  bool staged() {
    staging_.resize(size_);
    std::byte* at = staging_.data();
    if (direction_ == Direction::write) {
      for (const iovec& piece : pieces_) {
        std::memcpy(at, piece.iov_base, piece.iov_len);
        at += piece.iov_len;
      }
    }
    std::vector<iovec> whole{{staging_.data(), size_}};
    if (!move(whole)) return false;
    if (direction_ == Direction::read) {
      for (const iovec& piece : pieces_) {
        std::memcpy(piece.iov_base, at, piece.iov_len);
        at += piece.iov_len;
      }
    }
    return true;
  }

  //! All of `pieces`, however often the kernel stops early.
  bool move(std::vector<iovec>& pieces) {
    std::span<iovec> left(pieces);
    std::uint64_t at = begin_;
    while (!left.empty()) {
      const int count = static_cast<int>(std::min(left.size(), kVectors));
      const auto position = static_cast<off_t>(at);
      const ssize_t n = direction_ == Direction::read
                            ? ::preadv(fd_, left.data(), count, position)
                            : ::pwritev(fd_, left.data(), count, position);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fail(errno, at);
      if (n == 0) return ends(at);
      ++done_.calls;
      done_.bytes += static_cast<std::uint64_t>(n);
      at += static_cast<std::uint64_t>(n);
      left = after(left, static_cast<std::size_t>(n));
    }
    return true;
  }

  static std::span<iovec> after(std::span<iovec> pieces, std::size_t moved) {
    while (!pieces.empty() && moved >= pieces.front().iov_len) {
      moved -= pieces.front().iov_len;
      pieces = pieces.subspan(1);
    }
    if (moved > 0) {
      iovec& first = pieces.front();
      first.iov_base = static_cast<std::byte*>(first.iov_base) + moved;
      first.iov_len -= moved;
    }
    return pieces;
  }

  bool fail(int error, std::uint64_t at) {
    done_.error = error;
    done_.reason = std::string(std::strerror(error)) + " at byte " + std::to_string(at);
    return false;
  }

  bool ends(std::uint64_t at) {
    done_.error = EIO;
    done_.reason = "the file ends at byte " + std::to_string(at) + ", but data up to byte " +
                   std::to_string(begin_ + size_) + " is needed";
    return false;
  }

  int fd_;
  Direction direction_;
  Transfer& done_;
  std::vector<iovec> pieces_;
  std::vector<std::byte> staging_;
  std::uint64_t begin_ = 0;
  std::uint64_t size_ = 0;
  std::uint64_t continued_ = std::numeric_limits<std::uint64_t>::max();
  bool tiny_ = false;
};

bool fits(const FileArray& array) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::uint64_t size = array.itemsize;
  if (size == 0 || array.offset > most) return false;
  for (const std::uint64_t extent : array.shape) {
    if (extent != 0 && size > most / extent) return false;
    size *= extent;
  }
  return size <= most - array.offset;
}

bool inside(const FileArray& array, const Block& block) {
  const std::size_t n = array.shape.size();
  if (block.start.size() != n || block.stop.size() != n) return false;
  for (std::size_t i = 0; i < n; ++i) {
    if (block.start[i] > block.stop[i] || block.stop[i] > array.shape[i]) return false;
  }
  return true;
}

bool empty(const Block& block) {
  for (std::size_t i = 0; i < block.start.size(); ++i) {
    if (block.start[i] == block.stop[i]) return true;
  }
  return false;
}

}  // namespace

Transfer transfer(int fd, const FileArray& array, std::span<const Block> blocks,
                  Direction direction) {
  Transfer done;
  const auto refuse = [&](const char* reason) {
    done.error = EINVAL;
    done.reason = reason;
    return done;
  };
  if (!fits(array)) return refuse("the array does not fit into a file");
  std::vector<const Block*> wanted;
  for (const Block& block : blocks) {
    if (!inside(array, block)) return refuse("a block lies outside the array");
    if (!empty(block)) wanted.push_back(&block);
  }
  std::vector<Line> lines = lines_of(array, std::move(wanted));
  // The line that comes first in the file; it goes on for as long as that stays so.
  using Entry = std::pair<std::uint64_t, std::size_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> first;
  for (std::size_t i = 0; i < lines.size(); ++i) first.emplace(lines[i].offset(), i);
  Mover mover(fd, direction, done);
  while (!first.empty()) {
    const std::size_t i = first.top().second;
    Line& line = lines[i];
    first.pop();
    bool more = true;
    do {
      std::uint64_t offset = line.offset();
      for (const Line::Part& part : line.parts()) {
        if (!mover.add(offset, part.memory, part.length)) return done;
        offset += part.length;
      }
      more = line.next();
    } while (more && (first.empty() || line.offset() < first.top().first));
    if (more) first.emplace(line.offset(), i);
  }
  mover.flush();
  return done;
}

}  // namespace worker::io
