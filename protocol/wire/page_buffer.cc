//! See page_buffer.h.
#include "protocol/wire/page_buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <memory>

namespace protocol {
namespace {

constexpr std::size_t kLargePage = 2u << 20;

//! `size` bytes of address space from the border of a large page on; null: refused.
char* reserve(std::size_t size) {
  const std::size_t whole = size + kLargePage;
  void* area =
      ::mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED) return nullptr;
  char* const start = static_cast<char*>(area);
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(start) % kLargePage;
  if (before > 0) ::munmap(start, before);
  ::munmap(start + before + size, kLargePage - before);
  return start + before;
}

}  // namespace

PageBuffer::~PageBuffer() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

bool PageBuffer::grow(std::size_t size) {
  const auto page = static_cast<std::size_t>(::getpagesize());
  size = (size + page - 1) / page * page;
  char* const place = reserve(size);
  if (place == nullptr) return false;
  void* const data = data_ == nullptr
                         ? ::mmap(place, size, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
                         : ::mremap(data_, size_, size, MREMAP_MAYMOVE | MREMAP_FIXED, place);
  if (data == MAP_FAILED) {
    ::munmap(place, size);
    return false;
  }
  data_ = place;
  size_ = size;
  ::madvise(data_, size_, MADV_HUGEPAGE);  // a system without them refuses: small ones will do
  return true;
}

Slice PageBuffer::finish(std::size_t size) {
  std::shared_ptr<const void> owner(
      data_, [mapped = size_](const void* data) { ::munmap(const_cast<void*>(data), mapped); });
  const ByteView bytes(data_, size);
  data_ = nullptr;
  size_ = 0;
  return Slice(std::move(owner), bytes);
}

}  // namespace protocol
