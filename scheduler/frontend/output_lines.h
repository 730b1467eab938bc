//! Cuts what a child prints into lines for the log, and thins them out.
//!
//! Stock's scheduler would print it all. Here user code must not be able to drown the log or to
//! cost the loop more than a copy: beyond so many lines per second the rest is counted, not kept.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace scheduler {

class OutputLines {
 public:
  static constexpr std::size_t kLineMax = 2000;
  static constexpr std::uint32_t kLinesPerSecond = 100;

  //! Calls `emit(line)` for each line that is complete and within the rate.
  template <class Emit>
  void feed(std::string_view bytes, std::uint64_t now_ms, Emit emit) {
    while (!bytes.empty()) {
      const std::size_t end = std::min(bytes.find('\n'), bytes.size());
      const std::size_t room = kLineMax - std::min(kLineMax, line_.size());
      line_.append(bytes.substr(0, std::min(end, room)));
      if (end == bytes.size()) return;
      bytes.remove_prefix(end + 1);
      finish(now_ms, emit);
    }
  }

  const std::string& last() const { return last_; }

 private:
  template <class Emit>
  void finish(std::uint64_t now_ms, Emit emit) {
    if (!line_.empty()) last_ = line_;
    if (now_ms - window_ms_ >= 1000) {
      if (dropped_ > 0) emit(std::to_string(dropped_) + " more lines of output not shown");
      window_ms_ = now_ms;
      shown_ = 0;
      dropped_ = 0;
    }
    if (shown_ < kLinesPerSecond) {
      ++shown_;
      emit(line_);
    } else {
      ++dropped_;
    }
    line_.clear();
  }

  std::string line_;
  std::string last_;
  std::uint64_t window_ms_ = 0;
  std::uint32_t shown_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace scheduler
