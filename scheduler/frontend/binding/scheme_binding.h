//! chunk_sizes() of rask._native._graph: the self-scheduling schemes for Python.
//!
//! The formulas live once, in scheduler/core/schemes.h; `rask.spliter` sizes partitions by them.
#pragma once

#include <nanobind/nanobind.h>

namespace scheduler::binding {

void bind_schemes(nanobind::module_& module);

}  // namespace scheduler::binding
