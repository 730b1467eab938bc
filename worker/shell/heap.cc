#include "worker/shell/heap.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>

namespace worker {

namespace {

// By default malloc keeps as much as the largest piece that was ever freed, so that it depends on what
// ran before what a task pays. Larger pieces still go back at once: NumPy has them in large pages,
// which are cheap to get again.
constexpr int kKeepPieces = 4 << 20;
constexpr int kKeepUpTo = 64 << 20;  //!< at the end of each arena

}  // namespace

void keep_freed_memory() {
  static constexpr const char* kSettings[] = {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_",
                                              "MALLOC_TOP_PAD_", "GLIBC_TUNABLES"};
  if (std::any_of(std::begin(kSettings), std::end(kSettings),
                  [](const char* name) { return std::getenv(name) != nullptr; })) {
    return;
  }
  mallopt(M_MMAP_THRESHOLD, kKeepPieces);
  mallopt(M_TRIM_THRESHOLD, kKeepUpTo);
}

}  // namespace worker
