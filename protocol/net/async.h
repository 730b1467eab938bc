//! Coroutines on one loop: linear code for conversations that take several messages.
//!
//! An Async<T> starts when it is awaited (or by `spawn`), runs on the loop's thread only and has
//! one awaiter. A Completer<T> is the bridge from callbacks: it is completed once, from anywhere on
//! the loop's thread, before or after it is awaited. There are no exceptions here: a conversation
//! that can fail returns a Result.
//!
//! Rules for coroutines in this project: parameters by value, no capturing lambdas as coroutines,
//! and no braced temporaries inside a co_await expression (g++ 12 destroys such aggregates twice).
#pragma once

#include <coroutine>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "protocol/base/check.h"

namespace protocol {

template <class T>
class Async;

namespace async_detail {

struct Continuation {
  std::coroutine_handle<> awaiter;
  bool detached = false;

  struct Final {
    bool await_ready() noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> self) noexcept {
      if (self.promise().detached) {
        self.destroy();
        return std::noop_coroutine();
      }
      auto next = self.promise().awaiter;
      return next ? next : std::noop_coroutine();
    }
    void await_resume() noexcept {}
  };

  std::suspend_always initial_suspend() noexcept { return {}; }
  Final final_suspend() noexcept { return {}; }
  void unhandled_exception() { std::terminate(); }
};

template <class T>
struct Promise : Continuation {
  std::optional<T> value;
  Async<T> get_return_object();
  template <class U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
  T take() { return std::move(*value); }
};

template <>
struct Promise<void> : Continuation {
  Async<void> get_return_object();
  void return_void() {}
  void take() {}
};

}  // namespace async_detail

template <class T>
class [[nodiscard]] Async {
 public:
  using promise_type = async_detail::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  explicit Async(Handle handle) : handle_(handle) {}
  Async(Async&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Async& operator=(Async&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Async() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiter) {
    handle_.promise().awaiter = awaiter;
    return handle_;
  }
  T await_resume() { return handle_.promise().take(); }

  //! Runs it now, up to its first wait; it frees itself at its end.
  friend void spawn(Async task) {
    Handle handle = std::exchange(task.handle_, nullptr);
    handle.promise().detached = true;
    handle.resume();
  }

 private:
  Handle handle_;
};

namespace async_detail {
template <class T>
Async<T> Promise<T>::get_return_object() {
  return Async<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Async<void> Promise<void>::get_return_object() {
  return Async<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}
}  // namespace async_detail

//! A value that will be there later. Copies share it. Completing it twice keeps the first value.
template <class T>
class Completer {
 public:
  Completer() : state_(std::make_shared<State>()) {}

  bool done() const { return state_->value.has_value(); }
  void complete(T value) const {
    if (state_->value) return;
    state_->value.emplace(std::move(value));
    // The awaiter may destroy the last other copy of this completer: keep the state alive.
    const auto keep = state_;
    if (auto awaiter = std::exchange(keep->awaiter, nullptr)) awaiter.resume();
  }

  bool await_ready() const noexcept { return done(); }
  void await_suspend(std::coroutine_handle<> awaiter) const { state_->awaiter = awaiter; }
  T await_resume() const { return std::move(*state_->value); }

 private:
  struct State {
    std::optional<T> value;
    std::coroutine_handle<> awaiter;
  };
  std::shared_ptr<State> state_;
};

//! Runs all of them at once; the results are in the order given.
template <class T>
Async<std::vector<T>> all(std::vector<Async<T>> tasks) {
  struct Join {
    std::vector<std::optional<T>> results;
    std::size_t open;
    Completer<bool> finished;
    static Async<void> run(std::shared_ptr<Join> join, std::size_t index, Async<T> task) {
      join->results[index].emplace(co_await std::move(task));
      if (--join->open == 0) join->finished.complete(true);
    }
  };
  auto join = std::make_shared<Join>();
  join->results.resize(tasks.size());
  join->open = tasks.size();
  for (std::size_t i = 0; i < tasks.size(); ++i) spawn(Join::run(join, i, std::move(tasks[i])));
  if (!tasks.empty()) co_await join->finished;
  std::vector<T> out;
  out.reserve(join->results.size());
  for (auto& result : join->results) out.push_back(std::move(*result));
  co_return out;
}

}  // namespace protocol
