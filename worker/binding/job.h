//! Jobs and classes of results as Python objects.
#pragma once

#include <nanobind/nanobind.h>

#include "worker/binding/convert.h"
#include "worker/shell/border.h"

namespace worker {

//! A share of a live Python object as an owned reference; None for none. GIL held.
nanobind::object live_object(const LiveRef& live);

//! (is live, live object or payload). GIL held.
nanobind::tuple value_object(const Value& value);

//! A job as Python sees it. The fields that every task needs are made at once, the rest on demand.
class PyJob {
 public:
  explicit PyJob(Job job) : job_(std::move(job)), key_(key_object(job_.key)) {}

  const Job& job() const { return job_; }
  Job& job() { return job_; }
  nanobind::object key() const { return key_; }
  bool actor() const { return job_.actor; }
  bool annotated() const { return job_.annotations != nullptr; }
  bool has_inputs() const { return !job_.inputs.empty(); }
  bool lazy() const { return job_.lazy; }
  //! An input could not be read: the job must be given back.
  bool spoiled() const { return !job_.lost.empty(); }

  //! The pickle of the run spec: (own, tail, buffers); tail is None unless siblings share it.
  //! A payload (kind, header, frames) if only stock's readers can open it.
  nanobind::object spec() const;
  nanobind::object annotations() const { return payload_object(job_.annotations); }
  //! [(key, value id, is_live, live object or payload, actor)], in the order of the dependencies.
  nanobind::list inputs() const;
  //! Their keys, in the same order.
  nanobind::list input_keys() const;

 private:
  Job job_;
  nanobind::object key_;
};

//! A result's class; made once per class and handed in with every result.
struct PyTypeInfo {
  TypeRef type;
};

//! Registers both types.
void bind_jobs(nanobind::module_& module);

}  // namespace worker
