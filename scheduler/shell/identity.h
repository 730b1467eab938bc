//! What the scheduler tells about itself and its workers.
//!
//! Answers to: Scheduler.identity and WorkerState.identity.
#pragma once

#include <vector>

#include "protocol/wire/messages_register.h"
#include "scheduler/shell/peers.h"

namespace scheduler {

class Server;

//! Borrows from the server until the next event. `live`: with metrics and last_seen.
protocol::WorkerIdentity identity_of(const Server& server, const WorkerPeer& worker, bool live);

//! Writes the identity with the first `workers` workers; < 0: all.
void write_identity(protocol::MessageWriter& writer, const Server& server, std::int64_t workers,
                    bool live);

//! The identity as JSON, for --scheduler-file.
std::string identity_json(const Server& server);

}  // namespace scheduler
