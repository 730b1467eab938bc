//! order() of rask._native._graph: buffers in, buffer out, GIL released in between.
//!
//! Any object with the buffer protocol will do (bytes, bytearray, array, memoryview, NumPy); the
//! element size is not looked at, only the bytes, which are little-endian.
#include "scheduler/frontend/binding/order_binding.h"

#include <cstring>
#include <span>
#include <string>

#include "scheduler/frontend/ordering/order.h"

namespace nb = nanobind;

namespace scheduler::binding {
namespace {

//! A borrowed contiguous view of a Python object, held as long as this lives.
class Buffer {
 public:
  explicit Buffer(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nb::python_error();
  }
  ~Buffer() { PyBuffer_Release(&view_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  template <class T>
  std::span<const T> as(const char* name) const {
    const auto bytes = static_cast<std::size_t>(view_.len);
    if (bytes % sizeof(T) != 0)
      throw nb::value_error((std::string(name) + ": not a whole number of elements").c_str());
    if (bytes != 0 && reinterpret_cast<std::uintptr_t>(view_.buf) % alignof(T) != 0)
      throw nb::value_error((std::string(name) + ": not aligned").c_str());
    return {static_cast<const T*>(view_.buf), bytes / sizeof(T)};
  }

 private:
  Py_buffer view_{};
};

ordering::Ordering compute(nb::handle offsets, nb::handle dependencies, nb::handle kinds) {
  const Buffer offsets_buffer(offsets), dependencies_buffer(dependencies), kinds_buffer(kinds);
  const ordering::GraphView view{offsets_buffer.as<std::uint32_t>("offsets"),
                                 dependencies_buffer.as<std::uint32_t>("dependencies"),
                                 kinds_buffer.as<std::uint8_t>("kinds")};
  auto run = [&] {
    const nb::gil_scoped_release released;
    return ordering::order(view);
  };
  auto result = run();
  if (!result) throw nb::value_error(result.error().where.c_str());
  return std::move(*result);
}

// Borrowed from the module, which lives as long as the process.
PyObject* cycle_error = nullptr;

[[noreturn]] void raise_cycle(const std::vector<ordering::Node>& cycle) {
  nb::list nodes;
  for (ordering::Node t : cycle) nodes.append(t);
  PyErr_SetObject(cycle_error, nodes.ptr());
  throw nb::python_error();
}

nb::bytearray order(nb::handle offsets, nb::handle dependencies, nb::handle kinds) {
  const ordering::Ordering result = compute(offsets, dependencies, kinds);
  if (!result.cycle.empty()) raise_cycle(result.cycle);
  return nb::bytearray(result.priorities.data(), result.priorities.size() * sizeof(std::int64_t));
}

}  // namespace

void bind_order(nb::module_& module) {
  cycle_error = PyErr_NewExceptionWithDoc(
      "rask._native._graph.CycleError",
      "The graph has a cycle; args[0] lists its task numbers, the first one again at the end.",
      PyExc_ValueError, nullptr);
  if (cycle_error == nullptr) throw nb::python_error();
  module.attr("CycleError") = nb::steal(cycle_error);
  module.def("order", &order, nb::arg("offsets"), nb::arg("dependencies"),
             nb::arg("kinds") = nb::bytes("", 0),
             "Places of the tasks in a sequence that keeps few results in memory.\n\n"
             "offsets u32[n+1] and dependencies u32[] as buffers: task t needs\n"
             "dependencies[offsets[t]:offsets[t+1]]; numbers >= n are keys outside the graph.\n"
             "kinds u8[n] or empty: 1 marks data nodes. Gives back int64[n] as a bytearray.\n"
             "Number tasks in the order of the graph's keys: ties are broken by number.");
  module.def(
      "order_operations",
      [](nb::handle offsets, nb::handle dependencies, nb::handle kinds) {
        return compute(offsets, dependencies, kinds).operations;
      },
      nb::arg("offsets"), nb::arg("dependencies"), nb::arg("kinds") = nb::bytes("", 0),
      "Elementary steps that order() takes, for tests of its growth.");
}

}  // namespace scheduler::binding
