#include "scheduler/core/shuffle.h"

namespace scheduler {

void shuffle_worker_lost(State&, const Worker&) {}
void shuffles_clear(State&) {}

}  // namespace scheduler
