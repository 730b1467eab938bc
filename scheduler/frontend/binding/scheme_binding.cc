#include "scheduler/frontend/binding/scheme_binding.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/core/schemes.h"

namespace nb = nanobind;

namespace scheduler::binding {
namespace {

std::vector<std::uint64_t> chunk_sizes(const std::string& scheme, std::uint64_t items,
                                       std::uint64_t workers, std::uint64_t grain,
                                       std::uint32_t batches, double static_share,
                                       std::optional<double> idle) {
  const auto parsed = parse_scheme(scheme);
  if (!parsed) throw nb::value_error(("no self-scheduling scheme is named " + scheme).c_str());
  return all_chunks(plan_chunks(*parsed, items, workers, {grain, batches, static_share, idle}));
}

}  // namespace

void bind_schemes(nb::module_& module) {
  module.def("chunk_sizes", &chunk_sizes, nb::arg("scheme"), nb::arg("items"), nb::arg("workers"),
             nb::arg("grain") = 1, nb::arg("batches") = 0, nb::arg("static_share") = 0.5,
             nb::arg("idle") = nb::none(),
             "Sizes of the chunks in which a self-scheduling scheme deals out items to workers.");
}

}  // namespace scheduler::binding
