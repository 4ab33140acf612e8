// Probes: what a caller asks for, and the arguments of their kernels. Made by lamppost-bench and
// src/launch, read by the kernels.
#pragma once

#include "lamppost/device/call.hpp"

namespace lamppost {

enum class Probe : std::uint32_t {
  kEmpty,        // nothing
  kTimestamp,    // result[0] = ticks
  kOneWayWord,   // two ranks pass one word to and fro
  kOneWayBlock,  // the same with kProbeBlockBytes and all threads of a block
  kOneWayClock,  // as kOneWayWord; each answer says when it was sent
  kPush,         // every rank pushes to the next one
};

/// Bytes of one message of kOneWayBlock.
inline constexpr std::uint32_t kProbeBlockBytes = 4096;

/// Fields that a probe does not name are ignored.
struct ProbeRequest {
  Probe probe = Probe::kEmpty;
  /// Device memory of the caller. kTimestamp, kOneWay*: not null.
  std::uint64_t* result = nullptr;
  // kOneWay*: the two ranks, and how often a message goes there and back. On first_rank result[0]
  // is the ticks of all rounds, and for kOneWayClock result[1] the sum over rounds of (the other's
  // clock when it answered - the middle of this rank's sending and receiving), in two's complement.
  std::uint32_t first_rank = 0;
  std::uint32_t second_rank = 1;
  std::uint32_t rounds = 1;
  std::uint64_t bytes = 0;  // kPush: to push, whole packs
};

struct ProbeArgs {
  device::CallArgs call;
  ProbeRequest request;
  std::uint32_t first_flag;  // one more than any that was used on this communicator
};

}  // namespace lamppost
