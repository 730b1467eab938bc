//! The extension module rask._native._graph: what the graph process does natively.
//!
//! The graph process is Python because a graph is a pickle; the heavy parts of its work (ordering,
//! writing records) are plain functions on numbers and bytes and live here. Functions take and give
//! back buffers, release the GIL while they work, and keep no state between calls, so a graph
//! process may die at any time.
//!
//! Python.h is allowed in this folder and in worker/binding only.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "scheduler/frontend/binding/io_binding.h"
#include "scheduler/frontend/binding/order_binding.h"
#include "scheduler/frontend/binding/scheme_binding.h"

namespace nb = nanobind;

NB_MODULE(_graph, module) {
  module.doc() = "Native parts of rask's graph process.";
  module.def(
      "version", [] { return std::string(RASK_VERSION); },
      "Version of rask this module was built from.");
  scheduler::binding::bind_io(module);
  scheduler::binding::bind_order(module);
  scheduler::binding::bind_schemes(module);
}
