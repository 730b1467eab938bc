//! Actions as short English lines, for failing tests and the simulator's log.
#pragma once

#include <ostream>

#include "scheduler/core/actions.h"

namespace scheduler {

std::ostream& operator<<(std::ostream& out, const Action& action);

}  // namespace scheduler
