//! CHECK: what must hold for memory to stay sound. It aborts in every build.
//!
//! Broken bookkeeping that is not a memory error is found by `validate()` of the cores, which
//! tests run after every step; odd input from peers is neither: it has a defined answer.
#pragma once

#include <cstdio>
#include <cstdlib>

#define CHECK_ALWAYS(condition)                                                              \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition);     \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)
