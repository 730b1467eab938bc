//! Time as an argument. Cores never read a clock: the shell passes Now in.
#pragma once

#include <compare>
#include <cstdint>

namespace protocol {

//! A span of time in nanoseconds.
struct Duration {
  std::int64_t ns = 0;
  static constexpr Duration seconds(double s) { return {static_cast<std::int64_t>(s * 1e9)}; }
  static constexpr Duration ms(std::int64_t v) { return {v * 1'000'000}; }
  constexpr double as_seconds() const { return static_cast<double>(ns) * 1e-9; }
  constexpr auto operator<=>(const Duration&) const = default;
};

//! A moment: `mono` decides (deadlines, liveness), `wall` (Unix seconds) is only shown to people.
struct Now {
  Duration mono;
  double wall = 0;
};

constexpr Duration operator+(Duration a, Duration b) { return {a.ns + b.ns}; }
constexpr Duration operator-(Duration a, Duration b) { return {a.ns - b.ns}; }

}  // namespace protocol
