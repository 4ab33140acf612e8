// Frame: the fixed record in front of every message that bootstraps send between processes, over
// sockets and over MPI. It names the call (so that ranks that disagree are found before their data
// is misread) or carries a verdict. Same-machine only: native byte order and clock. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "bootstrap/deadline.hpp"
#include "bootstrap/errors.hpp"

namespace lamppost::boot {

enum class FrameKind : std::uint32_t {
  kHello = 1,    // a rank asks rank 0 to join
  kWelcome = 2,  // rank 0 to all: every rank has joined
  kData = 3,     // a gather's payload of `bytes` bytes follows
  kVerdict = 4   // the sender has failed: `code` and `text` say why; nothing follows
};

inline constexpr std::uint64_t kFrameMagic = 0x4c50424f4f543031;  // "LPBOOT01"
/// Raise it when the layout or the order of messages changes. magic, version and secret stay.
inline constexpr std::uint32_t kFrameVersion = 1;

struct Frame {
  std::uint64_t magic = kFrameMagic;
  std::uint32_t version = kFrameVersion;
  FrameKind kind = FrameKind::kData;
  std::uint64_t secret = 0;  // hello and welcome
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0;
  std::int64_t deadline_ns = 0;  // when the sender stops waiting, on the machine's steady clock
  std::int64_t timeout_ms = 0;
  std::int32_t rank = 0;
  std::int32_t rank_count = 0;
  std::int32_t code = LP_SUCCESS;  // verdict: an lpResult_t
  std::uint32_t reserved = 0;
  char text[440] = {};  // data: the phase; verdict: the message. Always terminated
};
static_assert(sizeof(Frame) == 512 && std::is_trivially_copyable_v<Frame>);

/// Copies as much of `text` as fits; `target` must be zeroed.
template <std::size_t kBytes>
void copy_text(char (&target)[kBytes], std::string_view text) {
  std::memcpy(target, text.data(), text.size() < kBytes ? text.size() : kBytes - 1);
}

/// The text of a frame, also of one that a stranger filled without a terminator.
inline std::string_view frame_text(const Frame& frame) {
  return {frame.text, ::strnlen(frame.text, sizeof(frame.text))};
}

inline Frame data_frame(const CallName& call, const Deadline& deadline) {
  Frame frame;
  frame.sequence = call.sequence;
  frame.bytes = call.bytes;
  frame.deadline_ns = deadline.time_ns();
  frame.timeout_ms = deadline.timeout_ms();
  frame.rank = call.rank;
  copy_text(frame.text, call.phase);
  return frame;
}

inline CallName frame_call(const Frame& frame) {
  return {frame.rank, frame.sequence, static_cast<std::size_t>(frame.bytes), frame_text(frame)};
}

inline Frame verdict_frame(int rank, const Status& status) {
  Frame frame;
  frame.kind = FrameKind::kVerdict;
  frame.rank = rank;
  frame.code = status.code();
  copy_text(frame.text, status.message());
  return frame;
}

/// The Status that a verdict carries; never ok.
inline Status verdict_status(const Frame& frame) {
  const auto code = frame.code == LP_SUCCESS ? LP_ERROR_INTERNAL : lpResult_t(frame.code);
  return Status(code, std::string(frame_text(frame)));
}

/// Ok if rank `rank` sent a data frame of the same call as `mine`, or else what differs.
inline Status check_data_frame(const Frame& mine, const Frame& theirs, int rank) {
  if (theirs.magic != kFrameMagic || theirs.version != kFrameVersion || theirs.rank != rank ||
      theirs.kind != FrameKind::kData) {
    return Status(LP_ERROR_BOOTSTRAP,
                  fmt::format("bootstrap step '{}': rank {} sent a message that is not Lamppost's",
                              frame_text(mine), rank));
  }
  const CallName one = frame_call(mine);
  const CallName other = frame_call(theirs);
  return one.same_call(other) ? Status() : different_calls_error(one, other);
}

}  // namespace lamppost::boot
