//! Between native bytes and Python objects. Every function here needs the GIL.
#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include <vector>

#include "protocol/base/bytes.h"
#include "protocol/base/key.h"
#include "protocol/base/payload.h"
#include "worker/binding/live.h"

namespace worker {

//! A native buffer shown to Python through the buffer protocol, without a copy. Writable, because
//! arrays that are rebuilt on it must be as writable as stock makes them.
struct Frame {
  protocol::Slice bytes;
};

//! Registers the Frame type.
void bind_frame(nanobind::module_& module);

//! The Python object a canonical key stands for.
nanobind::object key_object(protocol::KeyView key);
//! The canonical key of a Python object. Throws TypeError for anything that is no key.
protocol::Key key_of(nanobind::handle object);

nanobind::bytes bytes_object(protocol::ByteView bytes);
//! bytes for small slices, a Frame for large ones.
nanobind::object buffer_object(const protocol::Slice& slice);
nanobind::list frame_list(const std::vector<protocol::Slice>& frames);

//! Native slices of a sequence of buffer-protocol objects; small ones are copied, large ones shared.
std::vector<protocol::Slice> slices_of(nanobind::handle sequence, DropQueue& drops);

//! (kind, header, frames) or None, as python/rask/worker/packing.py takes and makes payloads.
nanobind::object payload_object(const protocol::PayloadRef& payload);
//! From the same; bytes alone are the pickle of a plain value.
protocol::PayloadRef payload_of(nanobind::handle object, DropQueue& drops);
protocol::Slice pickle_header();

}  // namespace worker
