// Deadline: the moment at which a wait of a bootstrap ends, with the timeout that it came from
// (errors say the timeout, so that their text is the same on all ranks). Used by all bootstraps. A
// value type.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace lamppost::boot {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  /// Longest timeout that is kept apart from "never": a century, far from the clock's overflow.
  static constexpr std::int64_t kLongestMs = std::int64_t{100} * 365 * 24 * 3600 * 1000;

  static Deadline after_ms(std::int64_t timeout_ms) {
    timeout_ms = std::clamp<std::int64_t>(timeout_ms, 0, kLongestMs);
    return Deadline(Clock::now() + std::chrono::milliseconds(timeout_ms), timeout_ms);
  }

  /// A deadline that another process of this machine sent. The steady clock is one for the machine
  /// except across time namespaces: a value that cannot be true (sent in the future, or passed by
  /// more than `grace_ms`, after which its sender has given up and says so itself) counts from now.
  static Deadline from_peer(std::int64_t time_ns, std::int64_t timeout_ms, std::int64_t grace_ms) {
    const Deadline from_now = after_ms(timeout_ms);
    const std::int64_t latest_ns = from_now.time_ns();
    const std::int64_t age_limit_ns = (from_now.timeout_ms_ + grace_ms) * 1'000'000;
    if (time_ns > latest_ns || time_ns < latest_ns - age_limit_ns) return from_now;
    return Deadline(Clock::time_point(std::chrono::nanoseconds(time_ns)), from_now.timeout_ms_);
  }

  /// The same deadline, `ms` later.
  Deadline plus_ms(std::int64_t ms) const {
    return Deadline(time_ + std::chrono::milliseconds(ms), timeout_ms_);
  }
  /// Takes `other` if that is earlier.
  void tighten(const Deadline& other) {
    if (other.time_ < time_) *this = other;
  }

  bool passed() const { return Clock::now() >= time_; }
  Clock::time_point time() const { return time_; }
  std::int64_t time_ns() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time_.time_since_epoch()).count();
  }
  std::int64_t timeout_ms() const { return timeout_ms_; }

  /// Time left for poll(2): rounded up, so that a wait does not spin in the last millisecond.
  int poll_ms() const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(time_ - Clock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
  }

 private:
  Deadline(Clock::time_point time, std::int64_t timeout_ms)
      : time_(time), timeout_ms_(timeout_ms) {}

  Clock::time_point time_;
  std::int64_t timeout_ms_;
};

}  // namespace lamppost::boot
