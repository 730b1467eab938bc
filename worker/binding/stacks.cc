#include "worker/binding/stacks.h"

#include <Python.h>

#include <algorithm>

namespace worker {

namespace nb = nanobind;

namespace {

//! The garbage collector is off as long as this lives. The GIL must be held all the while.
class NoCollection {
 public:
  NoCollection() : was_on_(PyGC_Disable() != 0) {}
  ~NoCollection() {
    if (was_on_) PyGC_Enable();
  }
  NoCollection(const NoCollection&) = delete;
  NoCollection& operator=(const NoCollection&) = delete;

 private:
  const bool was_on_;
};

nb::list frames_from(PyFrameObject* innermost, std::size_t most) {
  nb::list frames;
  auto frame = nb::steal(reinterpret_cast<PyObject*>(innermost));
  while (frame.is_valid() && frames.size() < most) {
    frames.append(frame);
    PyFrameObject* back = PyFrame_GetBack(reinterpret_cast<PyFrameObject*>(frame.ptr()));
    frame = nb::steal(reinterpret_cast<PyObject*>(back));
  }
  return frames;
}

}  // namespace

nb::dict stacks_of(const std::vector<unsigned long>& idents, std::size_t most) {
  const NoCollection off;
  nb::dict found;
  PyThreadState* thread = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
  for (; thread != nullptr; thread = PyThreadState_Next(thread)) {
    if (std::find(idents.begin(), idents.end(), thread->thread_id) == idents.end()) continue;
    if (PyFrameObject* innermost = PyThreadState_GetFrame(thread)) {
      found[nb::int_(thread->thread_id)] = frames_from(innermost, most);
    }
  }
  return found;
}

}  // namespace worker
