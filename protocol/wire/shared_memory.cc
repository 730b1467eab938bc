//! See shared_memory.h.
#include "protocol/wire/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
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

constexpr std::size_t kQuickToFree = 16u << 20;

void give_back(void* data, std::size_t size, int fd) {
  const auto work = [data, size, fd] {
    ::munmap(data, size);
    ::close(fd);
  };
  if (size < kQuickToFree) return work();
  try {
    std::thread(work).detach();
  } catch (const std::system_error&) {
    work();  // no thread to be had
  }
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

bool SharedBuffer::open() {
  if (fd_ < 0) fd_ = ::memfd_create("rask-frame", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  return fd_ >= 0;
}

bool SharedBuffer::append(ByteView bytes) {
  if (!open()) return false;
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(size_));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    size_ += static_cast<std::size_t>(written);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

bool SharedBuffer::map() {
  void* data = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (data == MAP_FAILED) return false;
  data_ = static_cast<char*>(data);
  return true;
}

bool SharedBuffer::make(std::size_t size) {
  if (!open() || ::ftruncate(fd_, static_cast<off_t>(size)) != 0) return false;
  size_ = size;
  return map();
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
    give_back(const_cast<void*>(data), size, fd);
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
  if (!buffer.append(bytes) || !buffer.map()) return std::nullopt;
  return buffer.finish();
}

}  // namespace protocol
