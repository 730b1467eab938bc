//! Errors of submissions that no Python process could word: the child died, lied or cannot start.
#pragma once

#include <string>

#include "protocol/wire/document.h"
#include "scheduler/frontend/graph_types.h"

namespace scheduler {

//! A RuntimeError with this text.
GraphError runtime_error(std::string text);

//! The error a graph process reported; `header` is its message.
GraphError reported_error(protocol::Value header);

}  // namespace scheduler
