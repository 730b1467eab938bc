//! The extension module rask._native._io: blocks of a file into memory and back, without the GIL.
//!
//! Plain numbers only: axes come slowest first, memory as addresses that the caller keeps alive.
//! The answer is (errno, reason, bytes, calls, segments); python/rask/io/native.py words the error.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "worker/io/boxes.h"

namespace nb = nanobind;

namespace {

using worker::io::Block;
using worker::io::Direction;
using worker::io::FileArray;
using worker::io::Transfer;

using Extents = std::vector<std::uint64_t>;
using Box = std::tuple<Extents, Extents, std::uintptr_t>;  // start, stop, address

nb::tuple moved(const std::string& path, std::uint64_t offset, std::uint64_t itemsize,
                Extents shape, std::vector<Box> boxes, bool write) {
  const FileArray array{offset, itemsize, std::move(shape)};
  std::vector<Block> blocks;
  blocks.reserve(boxes.size());
  for (auto& [start, stop, address] : boxes) {
    blocks.push_back({std::move(start), std::move(stop), reinterpret_cast<std::byte*>(address)});
  }
  Transfer done;
  {
    const nb::gil_scoped_release released;
    const int fd = ::open(path.c_str(), (write ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
    if (fd < 0) {
      done.error = errno;
      done.reason = std::strerror(errno);
    } else {
      done = worker::io::transfer(fd, array, blocks, write ? Direction::write : Direction::read);
      // Some file systems report a full disk only here.
      if (::close(fd) != 0 && write && done.error == 0 && errno != EINTR) {
        done.error = errno;
        done.reason = std::strerror(errno);
      }
    }
  }
  return nb::make_tuple(done.error, done.reason, done.bytes, done.calls, done.segments);
}

}  // namespace

NB_MODULE(_io, module) {
  module.doc() = "Native reads and writes of blocks of an array in a file.";
  module.def("move", &moved, nb::arg("path"), nb::arg("offset"), nb::arg("itemsize"),
             nb::arg("shape"), nb::arg("boxes"), nb::arg("write"),
             "Moves boxes (start, stop, address) between a file and memory:\n"
             "(errno, reason, bytes, calls, segments).");
}
