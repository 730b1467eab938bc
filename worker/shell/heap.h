//! What malloc does with memory that tasks gave back.
#pragma once

namespace worker {

//! Keeps it for the next task: kernels that make and drop arrays of some 100 kB would otherwise
//! fault the same pages in again at each call. What is kept goes back to the system when the worker
//! is over its memory target (spiller.cc). For processes that are a worker and nothing else; does
//! nothing where the environment has settings for malloc.
void keep_freed_memory();

}  // namespace worker
