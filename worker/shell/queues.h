//! Where Python threads wait for the loop thread: jobs, values to pack, service events.
//!
//! Each is a list under a lock of its own. The loop thread only ever pushes; it never waits here.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace worker {

template <class T>
class WaitQueue {
 public:
  void push(T item) {
    {
      const std::scoped_lock lock(mutex_);
      items_.push_back(std::move(item));
    }
    ready_.notify_one();
  }

  //! Makes one waiting thread (now, or the next to come) return without an item.
  void interrupt() {
    {
      const std::scoped_lock lock(mutex_);
      ++interrupts_;
      if (lingering_) return;  // it will look by itself
    }
    ready_.notify_one();
  }

  //! Waits for an item. None: interrupted or closed.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    if (!wait(lock)) return std::nullopt;
    T item = std::move(items_.front());
    items_.pop_front();
    return item;
  }

  //! Waits for an item and takes all that are there. Empty: interrupted or closed.
  std::deque<T> pop_all() {
    std::unique_lock lock(mutex_);
    return wait(lock) ? std::exchange(items_, {}) : std::deque<T>();
  }

  //! Waits for an item or the end, so long at most; interrupts until then are this one's. Only for
  //! queues with one reader.
  void linger(std::chrono::milliseconds most) {
    std::unique_lock lock(mutex_);
    lingering_ = true;
    ready_.wait_for(lock, most, [this] { return !items_.empty() || closed_; });
    lingering_ = false;
    interrupts_ = 0;
  }

  bool empty() const {
    const std::scoped_lock lock(mutex_);
    return items_.empty();
  }

  void close() {
    {
      const std::scoped_lock lock(mutex_);
      closed_ = true;
      items_.clear();
    }
    ready_.notify_all();
  }
  bool closed() const {
    const std::scoped_lock lock(mutex_);
    return closed_;
  }

 private:
  //! Whether an item is there, else interrupted or closed.
  bool wait(std::unique_lock<std::mutex>& lock) {
    ready_.wait(lock, [this] { return !items_.empty() || interrupts_ > 0 || closed_; });
    if (interrupts_ == 0) return !items_.empty();
    --interrupts_;
    return false;
  }

  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<T> items_;
  std::size_t interrupts_ = 0;
  bool lingering_ = false;
  bool closed_ = false;
};

}  // namespace worker
