# Warnings for our own targets and the sanitizer switch.
add_library(rask_flags INTERFACE)
target_compile_options(rask_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor)
# g++ 12 takes functions that it merged for each other and warns of bounds nobody crosses; ASan watches those.
target_compile_options(rask_flags INTERFACE "$<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-restrict>")
target_include_directories(rask_flags INTERFACE ${PROJECT_SOURCE_DIR})
# Enough to name functions and lines in a backtrace; the whole of -g costs a third of the build.
string(REPLACE "-g" "-g1" CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_CXX_FLAGS_RELWITHDEBINFO}")
if(RASK_SANITIZE)
  add_compile_options(-fsanitize=${RASK_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${RASK_SANITIZE})
endif()
if(RASK_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)  # the fuzzer sees which branches an input took
endif()

# rask_precompile(target header): worth its 5 s from about five files on. Only with g++, so that the
# clang build of the fuzzers shows which file forgot an include.
function(rask_precompile target header)
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources count)
  if(count GREATER_EQUAL 5 AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_link_libraries(${target} PRIVATE flat_hash)
    target_precompile_headers(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/${header})
  endif()
endfunction()

# rask_library(name SOURCES ... LINKS ...): a room. LINKS are the rooms and libraries it may include.
function(rask_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC rask_flags ${ARG_LINKS})
  rask_precompile(${name} precompiled.h)
endfunction()
