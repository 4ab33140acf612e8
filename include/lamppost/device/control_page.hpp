// ControlPage: the part of a communicator's health that lives in host memory, shared by the kernels
// (which write it), the host runtime and other processes of the user (which read it, without any
// device synchronisation). One page a rank. A failing kernel writes `record`, then `record_valid`
// by release. A long wait writes provisional[v % 2] and then `provisional_version` = v by release; the
// next one, at least a second later, writes the other entry, so a reader that finds the version
// unchanged after reading has a whole record.
// The numbers are part of the format: a reader checks `magic` and `version`.
#pragma once

#include "lamppost/device/layout.hpp"

namespace lamppost::device {

inline constexpr std::uint32_t kControlPageMagic = 0x4c504350u;  // "LPCP"
inline constexpr std::uint32_t kControlPageVersion = 1;

/// Why a call failed. Values are stored in ControlPage::record_valid (0: no failure).
enum class FailureKind : std::uint32_t {
  kNone = 0,
  kTimedOut = 1,      // nobody came within the timeout
  kAbortedByPeer = 2, // a peer failed first
  kAbortedLocally = 3,
  kMismatch = 4,      // a peer's header describes another call
  kCorrupt = 5,       // an impossible header, or two calls in flight
};

enum class Phase : std::uint32_t {
  kNone = 0,
  kStart = 1,
  kPublish = 2,
  kHeader = 3,
  kData = 4,
  kArrive = 5,
};

enum class PeerState : std::uint32_t { kUnknown = 0, kNeverLaunched = 1, kInCall = 2, kFinished = 3 };

struct PeerSnapshot {
  std::uint32_t state;  // PeerState
  std::uint32_t call;
  std::uint32_t operation_hash;
  std::uint32_t extent;
  std::uint32_t columns;
};

inline constexpr std::uint32_t kNoRank = 0xffffffffu;

struct HealthRecord {
  std::uint32_t call;
  std::uint32_t phase;        // Phase
  std::uint32_t waited_for;   // rank or kNoRank
  std::uint32_t abort_source; // rank or kNoRank
  std::uint32_t abort_call;
  std::uint32_t element;      // fragment of the call
  std::uint32_t expected;
  std::uint32_t seen;
  std::uint32_t block;
  std::uint32_t thread;
  std::uint32_t missing[3];
  std::uint32_t reserved;
  std::uint64_t start_ticks;
  std::uint64_t elapsed_ticks;
  PeerSnapshot peers[kMaxRanks];
};

struct ControlPage {
  // Written once by the host, before the communicator is ready.
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t process_id;
  std::uint32_t rank;
  std::uint32_t rank_count;
  std::uint32_t reserved;
  std::uint64_t communicator_id;  // equal on all ranks of a communicator
  std::uint64_t ticks_per_second;
  char host_name[64];

  // Host to device; read in the slow path of a wait, at most once a millisecond.
  alignas(64) std::uint64_t timeout_ticks;  // 0: never
  std::uint64_t first_call_timeout_ticks;
  std::uint32_t abort_requested;

  // Device to host.
  alignas(64) std::uint32_t record_valid;  // FailureKind
  HealthRecord record;
  alignas(64) std::uint32_t provisional_version;  // 0: none so far
  std::uint32_t provisional_active;               // 1 while the call that it describes goes on
  HealthRecord provisional[2];
};
inline constexpr std::uint64_t kControlPageBytes = 2 * kPageBytes;
static_assert(sizeof(ControlPage) <= kControlPageBytes);

}  // namespace lamppost::device
