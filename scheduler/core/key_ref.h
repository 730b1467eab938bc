//! KeyRef: the bytes of a key, stored once and counted.
//!
//! Tasks, stories and errors all name keys; a story must still name a task that is gone. The
//! count is not atomic: a core lives on one thread.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "protocol/base/key.h"

namespace scheduler {

class KeyRef {
 public:
  KeyRef() = default;
  explicit KeyRef(protocol::KeyView key) {
    void* memory = std::malloc(sizeof(Block) + key.bytes.size());
    if (memory == nullptr) std::abort();
    block_ = new (memory) Block{1, static_cast<std::uint32_t>(key.bytes.size())};
    std::memcpy(block_->bytes(), key.bytes.data(), key.bytes.size());
  }
  KeyRef(const KeyRef& other) : block_(other.block_) {
    if (block_ != nullptr) ++block_->shares;
  }
  KeyRef(KeyRef&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  KeyRef& operator=(KeyRef other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~KeyRef() {
    if (block_ != nullptr && --block_->shares == 0) std::free(block_);
  }

  explicit operator bool() const { return block_ != nullptr; }
  protocol::KeyView view() const {
    return block_ == nullptr ? protocol::KeyView{}
                             : protocol::KeyView{{block_->bytes(), block_->size}};
  }

 private:
  struct Block {
    std::uint32_t shares;
    std::uint32_t size;
    char* bytes() { return reinterpret_cast<char*>(this + 1); }
  };
  Block* block_ = nullptr;
};

}  // namespace scheduler
