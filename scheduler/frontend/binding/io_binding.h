//! Registers the planner of clustered I/O in the extension module of the graph process.
#pragma once

#include <nanobind/nanobind.h>

namespace scheduler::binding {

void bind_io(nanobind::module_& module);

}  // namespace scheduler::binding
