//! How often a device must seek for a box of elements: the exact model.
//!
//! A piece of data that lies in one run on disk is one segment, and an access to a segment costs
//! one seek. Data in one piece: the elements of a box that are neighbours on disk form segments.
//! Chunked data: each chunk that the box touches is one segment.
#pragma once

#include <cstdint>
#include <span>

#include "scheduler/frontend/io/grid.h"
#include "scheduler/frontend/io/plan.h"

namespace scheduler::io {

//! Segments of a box in an array stored in one piece (slowest axis first).
std::uint64_t segments(const Box& box, std::span<const Extent> shape);

//! Chunks that a box touches.
std::uint64_t chunks_touched(const Box& box, std::span<const Extent> chunk);

//! Segments of all buffers of a plan; `chunk` empty: the array is in one piece.
std::uint64_t seeks_of(const Grid& grid, const Plan& plan, std::span<const Extent> chunk = {});

//! The extents of the grid's array, slowest first.
std::vector<Extent> shape_of(const Grid& grid);

}  // namespace scheduler::io
