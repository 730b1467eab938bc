//! See memfd.h.
#include "scheduler/frontend/memfd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <memory>

namespace scheduler {

using protocol::ByteView;
using protocol::Error;
using protocol::Fault;
using protocol::Result;
using protocol::Slice;

Result<Slice> map_received(const Fd& fd, std::size_t size) {
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return Error{Fault::bad_type, "a descriptor that is not a sealed memfd"};
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || size == 0 ||
      static_cast<std::size_t>(status.st_size) < size) {
    return Error{Fault::truncated, "a memfd shorter than announced"};
  }
  void* base = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) return Error{Fault::io, "cannot map a memfd"};
  std::shared_ptr<const void> owner(base, [base, size](const void*) { ::munmap(base, size); });
  return Slice(std::move(owner), ByteView(static_cast<const char*>(base), size));
}

}  // namespace scheduler
