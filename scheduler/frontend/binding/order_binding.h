//! Registers order() in the extension module of the graph process.
#pragma once

#include <nanobind/nanobind.h>

namespace scheduler::binding {

void bind_order(nanobind::module_& module);

}  // namespace scheduler::binding
