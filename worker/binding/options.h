//! worker::Options from a Python dict; what is not in the dict keeps its default.
#pragma once

#include <nanobind/nanobind.h>

#include "worker/shell/options.h"

namespace worker {

Options options_of(const nanobind::dict& dict);

}  // namespace worker
