//! Result<T>: a value or the reason there is none. For failures that are expected (a peer sent
//! garbage, a disk is full), not for bugs (see check.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace protocol {

enum class Fault : std::uint8_t {
  truncated,   //!< the input ends too early
  too_large,   //!< a limit of limits.h is exceeded
  too_deep,    //!< nesting beyond the limit
  bad_type,    //!< a field is missing or of another type
  unknown_op,  //!< no such operation
  io,          //!< the operating system refused
  closed,      //!< the peer is gone
  timeout,     //!< a deadline passed
};

const char* fault_name(Fault fault);

struct Error {
  Fault fault;
  std::string where;  //!< what was being done, for the log line and for the peer

  std::string text() const;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}         // NOLINT: implicit by design
  Result(Error error) : state_(std::move(error)) {}     // NOLINT

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }
  T& operator*() { return std::get<T>(state_); }
  const T& operator*() const { return std::get<T>(state_); }
  T* operator->() { return &std::get<T>(state_); }
  const T* operator->() const { return &std::get<T>(state_); }
  const Error& error() const { return std::get<Error>(state_); }

 private:
  std::variant<T, Error> state_;
};

//! A result without a value.
struct Done {};
using Status = Result<Done>;

}  // namespace protocol
