//! See shared_memory.h.
#include "protocol/wire/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace protocol {
namespace {

struct Region {
  std::size_t size;
  int fd;
};

//! The finished buffers of this process by address. A slice does not know its owner's type, and a
//! few large buffers are alive at a time.
struct Regions {
  std::mutex mutex;
  std::map<const char*, Region> by_address;
};

Regions& regions() {
  static Regions all;
  return all;
}

}  // namespace

SharedBuffer::~SharedBuffer() {
  if (data_ != nullptr) ::munmap(data_, size_);
  if (fd_ >= 0) ::close(fd_);
}

void SharedBuffer::swap(SharedBuffer& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
}

bool SharedBuffer::resize(std::size_t size) {
  if (fd_ < 0) fd_ = ::memfd_create("rask-frame", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd_ < 0 || ::ftruncate(fd_, static_cast<off_t>(size)) != 0) return false;
  void* data = data_ == nullptr
                   ? ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0)
                   : ::mremap(data_, size_, size, MREMAP_MAYMOVE);
  if (data == MAP_FAILED) return false;
  data_ = static_cast<char*>(data);
  size_ = size;
  return true;
}

Slice SharedBuffer::finish() {
  ::fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  const ByteView bytes(data_, size_);
  {
    const std::lock_guard lock(regions().mutex);
    regions().by_address[data_] = Region{size_, fd_};
  }
  std::shared_ptr<const void> owner(data_, [size = size_, fd = fd_](const void* data) {
    {
      const std::lock_guard lock(regions().mutex);
      regions().by_address.erase(static_cast<const char*>(data));
    }
    ::munmap(const_cast<void*>(data), size);
    ::close(fd);
  });
  fd_ = -1;
  data_ = nullptr;
  size_ = 0;
  return Slice(std::move(owner), bytes);
}

std::optional<int> shared_descriptor(const Slice& slice) {
  const std::lock_guard lock(regions().mutex);
  const auto found = regions().by_address.find(slice.data());
  if (found == regions().by_address.end() || found->second.size != slice.size()) {
    return std::nullopt;
  }
  return found->second.fd;
}

std::optional<Slice> shared_copy_of(ByteView bytes) {
  SharedBuffer buffer;
  if (!buffer.resize(bytes.size())) return std::nullopt;
  std::memcpy(buffer.data(), bytes.data(), bytes.size());
  return buffer.finish();
}

}  // namespace protocol
