//! Instructions and state of a worker core as msgpack, with stock's names, for comparing.
#pragma once

#include <msgpack.hpp>

#include "worker/core/core.h"

namespace tests {

using Packer = msgpack::packer<msgpack::sbuffer>;

//! False for what stock has no instruction for (DropValue, Transitioned, Note).
bool is_instruction(const worker::Action& action);
//! [name, field, …]; keys in sorted order where stock has a set.
void write_instruction(const worker::Core& core, const worker::Action& action, Packer& out);
//! Everything stock's WorkerState holds that can be compared; see pytests/worker_core/encode.py.
void write_digest(const worker::Core& core, Packer& out);

}  // namespace tests
