//! The precompiled header of Catch2 executables.
#pragma once
#include "cmake/precompiled.h"

#include <catch2/catch.hpp>
