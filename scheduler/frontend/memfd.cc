//! See memfd.h.
#include "scheduler/frontend/memfd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>
#include <memory>

namespace scheduler {

using protocol::ByteView;
using protocol::Error;
using protocol::Fault;
using protocol::Result;
using protocol::Slice;

namespace {

Result<Slice> mapped(int fd, std::size_t size, int protection) {
  void* base = ::mmap(nullptr, size, protection, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return Error{Fault::io, "cannot map a memfd"};
  std::shared_ptr<const void> owner(base, [base, size](const void*) { ::munmap(base, size); });
  return Slice(std::move(owner), ByteView(static_cast<const char*>(base), size));
}

}  // namespace

Result<Memfd> memfd_of(ByteView bytes) {
  Fd fd(::memfd_create("rask-graph", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid() || ::ftruncate(fd.get(), static_cast<off_t>(bytes.size())) != 0) {
    return Error{Fault::io, "cannot create a memfd"};
  }
  auto slice = mapped(fd.get(), bytes.size(), PROT_READ | PROT_WRITE);
  if (!slice) return slice.error();
  std::memcpy(const_cast<char*>(slice->data()), bytes.data(), bytes.size());
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return Error{Fault::io, "cannot seal a memfd"};
  }
  return Memfd{std::move(fd), *slice};
}

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
  return mapped(fd.get(), size, PROT_READ);
}

}  // namespace scheduler
