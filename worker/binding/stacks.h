//! Stacks of other threads, for profiles.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <vector>

namespace worker {

//! {ident: [frames, innermost first]} of these threads, as many frames of each as `most`; without those
//! that run no Python.
//!
//! All in one piece, with the garbage collector off: up to Python 3.11 a frame object made for another
//! thread may set off a collection, whose callbacks (Dask has some) let that thread run on, and the
//! frame that was being looked at is gone by then. `sys._current_frames` and `f_back` end in a crash so.
nanobind::dict stacks_of(const std::vector<unsigned long>& idents, std::size_t most);

}  // namespace worker
