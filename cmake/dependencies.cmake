# Third-party libraries, all from the distribution. docs/DEPENDENCIES.md says why each is here.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(UV REQUIRED IMPORTED_TARGET libuv)
pkg_check_modules(LZ4 REQUIRED IMPORTED_TARGET liblz4)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
find_package(absl REQUIRED)

# Debian's CMake file for msgpack-cxx insists on Boost, which we do not use.
find_path(MSGPACK_INCLUDE_DIR msgpack.hpp REQUIRED)
add_library(msgpack_cxx INTERFACE)
target_include_directories(msgpack_cxx SYSTEM INTERFACE ${MSGPACK_INCLUDE_DIR})
target_compile_definitions(msgpack_cxx INTERFACE MSGPACK_NO_BOOST)

# fmt has no static library in Debian: header-only.
find_path(FMT_INCLUDE_DIR fmt/format.h REQUIRED)
add_library(fmt_header_only INTERFACE)
target_include_directories(fmt_header_only SYSTEM INTERFACE ${FMT_INCLUDE_DIR})
target_compile_definitions(fmt_header_only INTERFACE FMT_HEADER_ONLY)

add_library(flat_hash INTERFACE)
target_link_libraries(flat_hash INTERFACE absl::flat_hash_map absl::flat_hash_set
                      absl::inlined_vector absl::hash)
