// wait_until: the only loop in which a kernel waits for another rank. Bounded in every build.
//
// The first polls read neither clock nor abort words. After that the clock is read every few polls,
// and once a millisecond the words that can end a wait early: the timeout (settable while the call
// runs), the local abort request, a peer's abort word, FAILED. Elapsed time is a sum of steps, each
// clamped to an eighth of the timeout, so that a preemption, a debugger stop or a clock step does
// not expire a wait. The deadline must be seen passed at two polls; then, and before any other
// failure is believed, everything pending is looked at once more. A wait of kProvisionalAfterSeconds
// writes the provisional record on its way.
#pragma once

#include "lamppost/device/call.hpp"

namespace lamppost::device {

inline constexpr int kQuickPolls = 64;
inline constexpr int kPollsPerClock = 4;
/// A wait this long writes the provisional health record (LP_HEALTH_WAITING), and goes on.
inline constexpr std::uint64_t kProvisionalAfterSeconds = 1;

template <Target T>
class WaitClock {
 public:
  LAMPPOST_DEVICE WaitClock(T& t, const Call<T>& call)
      : t_(t), call_(call), last_(t.ticks()) {
    read_timeout();
  }

  /// Adds the time since the last call. True once a millisecond.
  LAMPPOST_DEVICE bool advance() {
    const std::uint64_t now = t_.ticks();
    const auto step = static_cast<std::int64_t>(now - last_);
    last_ = now;
    const std::uint64_t most = timeout_ == 0 ? t_.ticks_per_second() : timeout_ / 8 + 1;
    if (step > 0) elapsed_ += static_cast<std::uint64_t>(step) < most ? step : most;
    if (elapsed_ < next_look_) return false;
    next_look_ = elapsed_ + t_.ticks_per_second() / 1000;
    read_timeout();
    return true;
  }
  /// True when the deadline has been seen passed twice.
  LAMPPOST_DEVICE bool has_expired() {
    if (timeout_ == 0 || elapsed_ < timeout_) return false;
    return ++times_passed_ >= 2;
  }
  LAMPPOST_DEVICE bool is_long() const {
    return elapsed_ >= kProvisionalAfterSeconds * t_.ticks_per_second();
  }
  LAMPPOST_DEVICE std::uint64_t start() const { return last_ - elapsed_; }
  LAMPPOST_DEVICE std::uint64_t elapsed() const { return elapsed_; }

 private:
  LAMPPOST_DEVICE void read_timeout() {
    const ControlPage* page = call_.args().page;
    timeout_ = t_.load_relaxed_system(call_.sequence() <= kFirstCall
                                          ? &page->first_call_timeout_ticks
                                          : &page->timeout_ticks);
  }

  T& t_;
  const Call<T>& call_;
  std::uint64_t last_;
  std::uint64_t timeout_ = 0;
  std::uint64_t elapsed_ = 0;
  std::uint64_t next_look_ = 0;
  int times_passed_ = 0;
};

/// The quick part of a wait: everything is ready (true), or has not been for kQuickPolls polls.
template <Target T, class Poll>
LAMPPOST_DEVICE bool poll_quickly(T& t, Poll& poll) {
  LAMPPOST_NO_UNROLL for (int i = 0; i < kQuickPolls; ++i) {
    if (poll.is_ready()) return true;
    t.pause();
  }
  return false;
}

/// Why a stretch of polling ended.
enum class PollEnd { kReady, kLong, kFailed };

/// Polls until everything is ready, the call must fail (`kind` and `report` say why), or, unless it was
/// noted, the wait has become a long one.
template <Target T, class Poll>
LAMPPOST_DEVICE PollEnd poll_with_clock(T& t, Call<T>& call, Poll& poll, WaitClock<T>& clock,
                                        bool is_noted, FailureKind& kind, WaitReport& report) {
  kind = FailureKind::kNone;
  while (kind == FailureKind::kNone) {
    LAMPPOST_NO_UNROLL for (int i = 0; i < kPollsPerClock; ++i) {
      if (poll.is_ready()) return PollEnd::kReady;
      t.pause();
    }
    if (clock.advance()) {
      // A mismatch before an abort: both ranks of a pair shall name the cause, not each other.
      kind = poll.find_mismatch(report);
      if (kind == FailureKind::kNone) kind = call.look_for_failure(report);
      if (kind == FailureKind::kNone && !is_noted && clock.is_long()) return PollEnd::kLong;
    }
    if (kind == FailureKind::kNone && clock.has_expired()) kind = FailureKind::kTimedOut;
  }
  // One last look, but what a peer's header has told stands.
  const bool is_mismatch = kind == FailureKind::kMismatch || kind == FailureKind::kCorrupt;
  return !is_mismatch && poll.is_ready() ? PollEnd::kReady : PollEnd::kFailed;
}

/// The part of a wait that is not quick. Ends with everything ready (true) or the call failed (false:
/// then or earlier). The record is written outside the polling loop, at one place: its registers
/// would be the kernel's.
template <Target T, class Poll>
LAMPPOST_DEVICE bool wait_slowly(T& t, Call<T>& call, Phase phase, Poll& poll) {
  if (call.has_failed()) return false;
  WaitClock<T> clock(t, call);
  bool is_noted = false;
  while (true) {
    WaitReport report;
    FailureKind kind;
    const PollEnd end = poll_with_clock(t, call, poll, clock, is_noted, kind, report);
    if (end == PollEnd::kReady) return true;
    if (kind != FailureKind::kMismatch && kind != FailureKind::kCorrupt) poll.report(report);
    report.start_ticks = clock.start();
    report.elapsed_ticks = clock.elapsed();
    call.record(kind, phase, report);
    if (end == PollEnd::kFailed) return false;
    is_noted = true;
  }
}

/// Polls until `poll.is_ready()`; false if the call has failed, then or earlier: the caller goes on
/// with NaN, visits every barrier and publishes nothing more. Any thread, no meeting point inside.
/// Poll: `bool is_ready()` looks at all pending words afresh; `void report(WaitReport&)` says what
/// is missing; `FailureKind find_mismatch(WaitReport&)` looks, once a millisecond, whether what is
/// missing can ever come (kNone: it can).
template <Target T, class Poll>
LAMPPOST_DEVICE bool wait_until(T& t, Call<T>& call, Phase phase, Poll& poll) {
  if (call.has_failed()) return false;
  return poll_quickly(t, poll) || wait_slowly(t, call, phase, poll);
}

}  // namespace lamppost::device
