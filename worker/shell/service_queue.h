//! Service events on their way to asyncio: a list, and a descriptor that is readable while it is
//! not empty.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <mutex>
#include <utility>
#include <vector>

#include "worker/shell/border.h"

namespace worker {

class ServiceQueue {
 public:
  ServiceQueue() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  ~ServiceQueue() { ::close(fd_); }
  ServiceQueue(const ServiceQueue&) = delete;
  ServiceQueue& operator=(const ServiceQueue&) = delete;

  int fd() const { return fd_; }

  void push(ServiceEvent event) {
    const std::scoped_lock lock(mutex_);
    if (events_.empty()) ::eventfd_write(fd_, 1);
    events_.push_back(std::move(event));
  }

  std::vector<ServiceEvent> take() {
    const std::scoped_lock lock(mutex_);
    eventfd_t ignored;
    ::eventfd_read(fd_, &ignored);
    return std::exchange(events_, {});
  }

 private:
  int fd_;
  std::mutex mutex_;
  std::vector<ServiceEvent> events_;
};

}  // namespace worker
