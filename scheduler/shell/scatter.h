//! Data that reached workers without a task, as an event.
#pragma once

#include "protocol/wire/who_has.h"
#include "scheduler/core/events.h"

namespace scheduler {

class Server;

//! Unknown addresses are left out; borrows the keys. `client` invalid: nobody wants it yet.
DataScattered scattered(Server& server, ClientId client, const protocol::WhoHas& who_has);

}  // namespace scheduler
