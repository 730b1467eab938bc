//! Restarting workers: nannies replace theirs, others are let go.
//!
//! Answers to: Scheduler.restart and restart_workers.
#pragma once

#include <vector>

#include "protocol/base/ids.h"

namespace scheduler {

class Server;

//! Workers that fell silent: restarted by their nanny, or removed. Does not wait.
void restart_silent_workers(Server& server, std::vector<protocol::WorkerId> workers);

}  // namespace scheduler
