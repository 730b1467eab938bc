//! Priorities: short tuples of numbers, compared as Python compares tuples; smaller runs earlier.
//!
//! The scheduler sends (-user priority, generation, order); the core appends a counter that falls
//! with every compute-task, so that among equals the newest goes first. Replicas have just (1,).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace worker {

class Priority {
 public:
  static constexpr std::size_t kParts = 4;  //!< three of the scheduler and our own

  Priority() = default;
  //! Parts beyond the third are cut off: the last place is for the counter.
  explicit Priority(std::span<const double> parts) {
    for (double part : parts) {
      if (size_ < kParts - 1) parts_[size_++] = part;
    }
  }
  Priority(std::initializer_list<double> parts)
      : Priority(std::span<const double>(parts.begin(), parts.size())) {}

  Priority with(double last) const {
    Priority out = *this;
    if (out.size_ < kParts) out.parts_[out.size_++] = last;
    return out;
  }

  bool empty() const { return size_ == 0; }  //!< not given yet
  std::span<const double> parts() const { return {parts_.data(), size_}; }

  friend bool operator<(const Priority& a, const Priority& b) {
    const std::size_t shared = a.size_ < b.size_ ? a.size_ : b.size_;
    for (std::size_t i = 0; i < shared; ++i) {
      if (a.parts_[i] < b.parts_[i]) return true;
      if (b.parts_[i] < a.parts_[i]) return false;
    }
    return a.size_ < b.size_;
  }
  bool operator==(const Priority&) const = default;

 private:
  std::array<double, kParts> parts_{};
  std::uint8_t size_ = 0;
};

}  // namespace worker
