// Status and Result: how Lamppost's C++ code says what went wrong. No exceptions.
// Both are [[nodiscard]]; a Status that is ok() costs a null pointer. Not thread-safe objects.
#pragma once

#include <lamppost/lamppost.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace lamppost {

/// A result code and, unless it is LP_SUCCESS, a sentence that names what was wrong.
class [[nodiscard]] Status {
 public:
  Status() = default;
  /// `code` must not be LP_SUCCESS.
  Status(lpResult_t code, std::string message)
      : state_(std::make_unique<State>(State{code, std::move(message)})) {}

  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;
  Status(const Status& other) : state_(other.clone()) {}
  Status& operator=(const Status& other) {
    if (this != &other) state_ = other.clone();
    return *this;
  }

  bool ok() const { return state_ == nullptr; }
  lpResult_t code() const { return state_ ? state_->code : LP_SUCCESS; }
  /// Empty if ok().
  const std::string& message() const {
    static const std::string empty;
    return state_ ? state_->message : empty;
  }
  /// The same error with `context` and ": " in front of its sentence; ok stays ok.
  Status with_context(const std::string& context) && {
    if (state_) state_->message = context + ": " + state_->message;
    return std::move(*this);
  }

 private:
  struct State {
    lpResult_t code;
    std::string message;
  };
  std::unique_ptr<State> clone() const {
    return state_ ? std::make_unique<State>(*state_) : nullptr;
  }
  std::unique_ptr<State> state_;
};

/// A value, or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}            // NOLINT: conversion is the point
  Result(Status status) : status_(std::move(status)) {}    // NOLINT; status must not be ok

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  /// Requires ok().
  T& value() { return *value_; }
  const T& value() const { return *value_; }
  T take() { return std::move(*value_); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace lamppost
