//! Memory that the scheduler and a graph process share by passing a file descriptor.
//!
//! A memfd that comes from a child is mapped only if its size is sealed: a file that shrinks under
//! a mapping is a SIGBUS, and a child must not be able to give us one. The bytes themselves may
//! change under us; so only what is relayed unopened may live there.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <utility>

#include "protocol/base/bytes.h"
#include "protocol/base/result.h"

namespace scheduler {

//! A file descriptor that is closed with its owner.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

//! Maps a memfd received from a child. Fails unless it is sealed and holds `size` bytes.
protocol::Result<protocol::Slice> map_received(const Fd& fd, std::size_t size);

}  // namespace scheduler
