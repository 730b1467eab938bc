//! Catch2's main takes 13 s to compile, so it lives alone and is built once.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
