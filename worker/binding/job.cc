#include "worker/binding/job.h"

#include <nanobind/stl/string.h>

#include <memory>
#include <string>
#include <utility>

namespace worker {

namespace nb = nanobind;
using protocol::ByteView;

nb::object live_object(const LiveRef& live) {
  return live ? nb::borrow(static_cast<PyObject*>(live.get())) : nb::object(nb::none());
}

nb::tuple value_object(const Value& value) {
  const bool live = value.live != nullptr;
  return nb::make_tuple(live, live ? live_object(value.live) : payload_object(value.packed));
}

nb::object PyJob::spec() const {
  if (!job_.spec) return payload_object(job_.packed_spec);
  const protocol::RunSpec& spec = *job_.spec;
  nb::object tail = spec.tail.empty() ? nb::object(nb::none()) : buffer_object(spec.tail);
  return nb::make_tuple(buffer_object(spec.own), tail, frame_list(spec.buffers));
}

nb::list PyJob::inputs() const {
  nb::list out;
  for (const Input& input : job_.inputs) {
    const bool live = input.value.live != nullptr;
    out.append(nb::make_tuple(
        key_object(input.key), input.id.value, live,
        live ? live_object(input.value.live) : payload_object(input.value.packed), input.actor));
  }
  return out;
}

nb::list PyJob::input_keys() const {
  nb::list out;
  for (const Input& input : job_.inputs) out.append(key_object(input.key));
  return out;
}

void bind_jobs(nb::module_& module) {
  nb::class_<PyJob>(module, "Job")
      .def_prop_ro("key", &PyJob::key)
      .def_prop_ro("actor", &PyJob::actor)
      .def_prop_ro("annotated", &PyJob::annotated)
      .def_prop_ro("has_inputs", &PyJob::has_inputs)
      .def("spec", &PyJob::spec)
      .def("annotations", &PyJob::annotations)
      .def("inputs", &PyJob::inputs)
      .def_prop_ro("lazy", &PyJob::lazy)
      .def_prop_ro("span", [](const PyJob& job) { return job.job().span; })
      .def_prop_ro("spoiled", &PyJob::spoiled)
      .def("input_keys", &PyJob::input_keys);
  nb::class_<PyTypeInfo>(module, "TypeInfo")
      .def("__init__", [](PyTypeInfo* self, std::string name, const nb::bytes& pickle) {
        const ByteView bytes(pickle.c_str(), pickle.size());
        new (self) PyTypeInfo{
            std::make_shared<const TypeInfo>(TypeInfo{std::move(name), Slice::copy_of(bytes)})};
      });
}

}  // namespace worker
