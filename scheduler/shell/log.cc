//! Formatting and keeping of log lines; see log.h.
#include "scheduler/shell/log.h"

#include <sys/time.h>
#include <unistd.h>

#include <ctime>
#include <utility>

#include <fmt/format.h>

namespace scheduler {
namespace {

std::string asctime_of(double time) {
  const auto seconds = static_cast<std::time_t>(time);
  std::tm local;
  localtime_r(&seconds, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  const int milliseconds = static_cast<int>((time - static_cast<double>(seconds)) * 1000);
  return fmt::format("{},{:03d}", text, milliseconds);
}

void replace_all(std::string& text, std::string_view field, std::string_view value) {
  for (auto at = text.find(field); at != std::string::npos; at = text.find(field, at)) {
    text.replace(at, field.size(), value);
    at += value.size();
  }
}

}  // namespace

double wall_time() {
  timeval now;
  gettimeofday(&now, nullptr);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_usec) * 1e-6;
}

Log::Log(std::string format, std::size_t kept) : format_(std::move(format)), kept_(kept) {}

const char* Log::level_name(Level level) {
  switch (level) {
    case Level::debug: return "DEBUG";
    case Level::info: return "INFO";
    case Level::warning: return "WARNING";
    case Level::error: return "ERROR";
  }
  return "?";
}

void Log::write(Level level, std::string_view logger, std::string_view text) {
  if (level < level_) return;
  const double time = wall_time();
  std::string line = format_;
  replace_all(line, "%(asctime)s", asctime_of(time));
  replace_all(line, "%(name)s", logger);
  replace_all(line, "%(levelname)s", level_name(level));
  replace_all(line, "%(message)s", text);
  lines_.push_back({time, level, line});
  if (lines_.size() > kept_) lines_.pop_front();
  line += '\n';
  // A full pipe or a closed stderr must not end the scheduler.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

void Log::once(std::string_view about, std::string_view text) {
  // What peers name is unbounded: past a thousand different things the log stays silent.
  if (told_.size() < 1000 && told_.emplace(about).second) warning(text);
}

std::string sample(std::string_view foreign, std::size_t limit) {
  std::string out;
  for (const char c : foreign.substr(0, limit)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '\\') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  if (foreign.size() > limit) out += fmt::format("… ({} bytes)", foreign.size());
  return out;
}

}  // namespace scheduler
