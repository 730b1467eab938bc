//! Checks that everything the scheduler stores twice says the same both times.
#pragma once

#include <string>
#include <vector>

#include "scheduler/core/state.h"

namespace scheduler {

//! Every broken invariant as a sentence. O(everything).
std::vector<std::string> broken_invariants(const State& state);

}  // namespace scheduler
