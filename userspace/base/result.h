// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdlib>
#include <string>
#include <utility>
#include <variant>

namespace whylate {

/// The process exit codes a user can rely on.
enum class ExitCode : int {
  kDone = 0,
  kFinding = 1,       ///< a check failed, or the target vanished before any request
  kUsage = 2,         ///< wrong arguments
  kUnsupported = 3,   ///< the kernel or a privilege is lacking
  kBadInput = 4,      ///< an input file cannot be read as what it should be
  kRuntimeError = 5,  ///< any other failure at run time
};

/// An expected failure: one line for the user and the exit code it leads to.
struct Error {
  ExitCode code = ExitCode::kRuntimeError;
  std::string message;
};

/// Either a value or an Error. Must be looked at before the value is used; `value()` on an error
/// aborts.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }

  T& value() { return ok() ? std::get<T>(state_) : (std::abort(), std::get<T>(state_)); }
  const T& value() const {
    return ok() ? std::get<T>(state_) : (std::abort(), std::get<T>(state_));
  }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  /// The error; aborts when there is none.
  const Error& error() const {
    return ok() ? (std::abort(), std::get<Error>(state_)) : std::get<Error>(state_);
  }

 private:
  std::variant<T, Error> state_;
};

/// The result of an action that yields no value.
struct Done {};
using Status = Result<Done>;

}  // namespace whylate
