//! The log of the scheduler: lines that look as stock's do, because people and tools read them.
//!
//! Lines go to stderr and into a ring that `get_scheduler_logs` reads. Deployment tools find the
//! scheduler by the text "Scheduler at:", so names and spacing of such lines are part of the
//! interface. What peers send is escaped and cut before it gets here (see `sample`).
//!
//! Answers to: logging as configured by distributed/config.py, and Node.get_logs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_set>

namespace scheduler {

class Log {
 public:
  enum class Level : std::uint8_t { debug, info, warning, error };
  struct Line {
    double time;
    Level level;
    std::string text;  //!< formatted, without the newline
  };

  //! `format` as Python's logging writes it: asctime, name, levelname and message are known.
  explicit Log(std::string format = kStockFormat, std::size_t kept = 10000);

  void debug(std::string_view text) { write(Level::debug, kScheduler, text); }
  void info(std::string_view text) { write(Level::info, kScheduler, text); }
  void warning(std::string_view text) { write(Level::warning, kScheduler, text); }
  void error(std::string_view text) { write(Level::error, kScheduler, text); }
  //! A line of another logger, for example distributed.core.
  void write(Level level, std::string_view logger, std::string_view text);
  //! Warns the first time `about` is named, then never again.
  void once(std::string_view about, std::string_view text);

  const std::deque<Line>& lines() const { return lines_; }
  static const char* level_name(Level level);

  static constexpr std::string_view kScheduler = "distributed.scheduler";
  static constexpr std::string_view kCore = "distributed.core";
  static constexpr const char* kStockFormat =
      "%(asctime)s - %(name)s - %(levelname)s - %(message)s";

 private:
  std::string format_;
  std::size_t kept_;
  Level level_ = Level::info;
  std::deque<Line> lines_;
  std::unordered_set<std::string> told_;
};

//! At most `limit` bytes of foreign text, unprintable ones escaped, for one log line.
std::string sample(std::string_view foreign, std::size_t limit = 64);

//! Seconds since the epoch, wall clock.
double wall_time();

}  // namespace scheduler
