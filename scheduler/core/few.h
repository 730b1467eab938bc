//! Few: a vector of plain values with room for N of them in place.
//!
//! Every task has four of these, mostly with one entry or none, so the head is a word of four bytes
//! and nothing is aligned to more: absl::InlinedVector takes eight bytes more in each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

namespace scheduler {

template <class T, std::uint32_t N>
class Few {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 4);

 public:
  Few() = default;
  Few(const Few& other) {
    if (other.size() > N) grow_to(other.size());
    std::memcpy(data(), other.data(), other.size() * sizeof(T));
    size_ = other.size_;
  }
  Few(Few&& other) noexcept { swap(other); }
  Few& operator=(Few other) noexcept {
    swap(other);
    return *this;
  }
  ~Few() {
    if (on_heap_) std::free(heap().data);
  }

  T* data() { return on_heap_ ? heap().data : reinterpret_cast<T*>(room_); }
  const T* data() const { return const_cast<Few*>(this)->data(); }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }
  T& front() { return data()[0]; }
  const T& front() const { return data()[0]; }
  T& back() { return data()[size_ - 1]; }
  const T& back() const { return data()[size_ - 1]; }

  void push_back(T value) {
    const std::size_t capacity = on_heap_ ? heap().capacity : N;
    if (size_ == capacity) grow_to(std::max<std::size_t>(2 * capacity, 4));
    data()[size_++] = value;
  }
  void pop_back() { --size_; }
  void erase(T* place) {
    std::memmove(place, place + 1, static_cast<std::size_t>(end() - place - 1) * sizeof(T));
    --size_;
  }
  void clear() { Few().swap(*this); }

 private:
  struct Heap {
    T* data;
    std::uint32_t capacity;
  };
  static constexpr std::size_t kHeap = sizeof(T*) + sizeof(std::uint32_t);
  static constexpr std::size_t kRoom = std::max(N * sizeof(T), kHeap);

  Heap heap() const {
    Heap out;
    std::memcpy(&out.data, room_, sizeof out.data);
    std::memcpy(&out.capacity, room_ + sizeof out.data, sizeof out.capacity);
    return out;
  }
  void grow_to(std::size_t capacity) {
    void* memory = std::malloc(capacity * sizeof(T));
    if (memory == nullptr) std::abort();
    T* place = static_cast<T*>(memory);
    std::memcpy(place, data(), size_ * sizeof(T));
    if (on_heap_) std::free(heap().data);
    const auto number = static_cast<std::uint32_t>(capacity);
    std::memcpy(room_, &place, sizeof place);
    std::memcpy(room_ + sizeof place, &number, sizeof number);
    on_heap_ = 1;
  }
  void swap(Few& other) noexcept {
    std::swap(room_, other.room_);
    const std::uint32_t size = size_, on_heap = on_heap_;
    size_ = other.size_;
    on_heap_ = other.on_heap_;
    other.size_ = size;
    other.on_heap_ = on_heap;
  }

  std::uint32_t size_ : 31 = 0;
  std::uint32_t on_heap_ : 1 = 0;
  alignas(4) char room_[kRoom] = {};
};

}  // namespace scheduler
