//! P2P shuffle runs as far as the scheduler has a part in them.
#pragma once

#include "scheduler/core/state.h"

namespace scheduler {

void shuffle_worker_lost(State& state, const Worker& worker);
void shuffles_clear(State& state);

}  // namespace scheduler
