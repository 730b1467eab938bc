//! Words that the tests of admission share: loads that say what they need, workers of 1 GB.
#pragma once

#include "scheduler/core/admission.h"
#include "tests/scheduler/world.h"

namespace scheduler {

inline constexpr std::uint64_t MB = 1'000'000;

inline Annotations needs(std::uint64_t megabytes) {
  Annotations annotations;
  annotations.memory = megabytes * MB;
  return annotations;
}

inline Node load(const std::string& key, std::uint64_t megabytes) {
  return Node{.key = key, .annotations = needs(megabytes)};
}

//! 4 threads, a budget of 600 MB.
inline WorkerOptions roomy() { return {.threads = 4, .memory_limit = 1000 * MB}; }

inline bool runs(const World& w, const std::string& key) {
  return w.state(key) == TaskState::processing;
}
inline bool waits(const World& w, const std::string& key) {
  return w.state(key) == TaskState::queued;
}

inline MemoryUse use_of(const World& w, WorkerId worker) {
  return memory_use(w.inner(), w.core.worker(worker));
}

}  // namespace scheduler
