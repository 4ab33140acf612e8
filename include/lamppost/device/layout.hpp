// The workspace of a communicator: one block of memory a rank, the same layout on every rank, mapped
// by every peer. This file computes every offset, for the host and for kernels; there is no other
// index arithmetic. All functions are pure.
//
//   0        guard                       64 bytes of kGuardWord
//   64       ControlLine, Extents        two 16-byte lines: loaded once by every block
//   128      ArrivalWord                 {sequence, blocks in trouble, launch numbers, blocks arrived}
//   160      finished ticket             of the newest eager launch that has ended
//   256      FailureWords                claims and the mask of missing ranks
//   512      descriptor ring             the last 8 calls of this rank, for peers to read
//   1024     abort words                 8 bytes a source rank: each peer stores its own
//   2048     self-test cells             128 bytes a source rank, used while creating only
//   12,224   guard
//   12,288   channel 0: three generations, each
//              headers                   16 bytes a source rank (room for kMaxRanks), 4 KiB in all
//              slots                     rank_count * slot_bytes
//   end      guard                       4 KiB page with kGuardWord in its first 64 bytes
#pragma once

#include "lamppost/device/target.hpp"

namespace lamppost::device {

inline constexpr std::uint32_t kMaxRanks = 72;
inline constexpr std::uint32_t kGenerations = 3;
inline constexpr std::uint32_t kChannels = 1;
inline constexpr std::uint32_t kRingEntries = 8;
inline constexpr std::uint32_t kGuardWord = 0x6c616d70u;  // "lamp"
inline constexpr std::uint64_t kGuardBytes = 64;
inline constexpr std::uint64_t kPageBytes = 4096;

/// Call sequences count launches on a communicator, in 30 bits (they wrap; compare with
/// sequence_distance). The generation is kept beside it and never computed from it.
inline constexpr std::uint32_t kSequenceMask = 0x3fffffffu;

/// a - b for sequences that are less than 2^29 apart.
constexpr std::int32_t sequence_distance(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::int32_t>((a - b) << 2) >> 2;
}

/// What a call must know before it does anything. Peers store `abort_hint`; this rank's kernels store
/// `call` (the last block out) and `state` (a failing lane).
struct alignas(16) ControlLine {
  std::uint32_t call;        // call sequence * 4 + generation
  std::uint32_t state;       // communicator generation * 2 + FAILED
  std::uint32_t abort_hint;  // not 0: look at the abort words
  std::uint32_t reserved;

  static constexpr std::uint32_t pack_call(std::uint32_t sequence, std::uint32_t generation) {
    return (sequence & kSequenceMask) << 2 | generation;
  }
};
static_assert(sizeof(ControlLine) == sizeof(Pack));

/// Per generation: bytes of its data that the next call has to clear. Stored by the last block out.
struct alignas(16) Extents {
  std::uint32_t bytes[kGenerations];
  std::uint32_t reserved;
};
static_assert(sizeof(Extents) == sizeof(Pack));

/// The word that a failed rank stores into its own place in every peer: 64 bits, one store. A rank
/// that failed because of another's word passes that word on unchanged. One place a source, since a
/// shared one would lose an earlier call's abort to a later call's.
/// Current for a wait in call c of communicator generation g if the generation is g and c is not
/// before `call`; anything else is inert.
struct AbortWord {
  std::uint32_t communicator_generation;  // 20 bits, from 1
  std::uint32_t source_rank;              // the rank that failed first; 7 bits
  std::uint32_t missing_rank;             // whom it waited for; kNobody: nobody; 7 bits
  std::uint32_t call;                     // the call in which it failed; 30 bits

  static constexpr std::uint32_t kNobody = 127;

  constexpr std::uint64_t pack() const {
    return static_cast<std::uint64_t>(communicator_generation) << 44 |
           static_cast<std::uint64_t>(source_rank) << 37 |
           static_cast<std::uint64_t>(missing_rank) << 30 | call;
  }
  static constexpr AbortWord unpack(std::uint64_t word) {
    return {static_cast<std::uint32_t>(word >> 44), static_cast<std::uint32_t>(word >> 37) & 127u,
            static_cast<std::uint32_t>(word >> 30) & 127u,
            static_cast<std::uint32_t>(word) & kSequenceMask};
  }
  constexpr bool is_current(std::uint32_t generation, std::uint32_t call_now) const {
    return communicator_generation == generation && sequence_distance(call_now, call) >= 0;
  }
};

/// How the blocks of a call are counted out: each adds {0, whether it is in trouble, its launch's
/// number, 1}. The last one out finds the sum of one launch only, or two launches were in flight.
///   bits 56..63 call sequence (its low 8 bits), 44..55 blocks in trouble, 12..43 sum of launch numbers
///   (20 bits each, so that 4,095 of them cannot overflow), 0..11 blocks that have arrived
struct ArrivalWord {
  static constexpr std::uint32_t kMostBlocks = 4095;
  static constexpr std::uint32_t kNumberMask = 0xfffffu;
  static constexpr std::uint64_t kTrouble = std::uint64_t{1} << 44;
  static constexpr std::uint64_t kTroubleMask = kMostBlocks * kTrouble;

  static constexpr std::uint64_t first(std::uint32_t sequence) {
    return static_cast<std::uint64_t>(sequence & 0xffu) << 56;
  }
  static constexpr std::uint64_t increment(std::uint32_t launch_number) {
    return static_cast<std::uint64_t>(mix(launch_number) & kNumberMask) << 12 | 1u;
  }
  static constexpr std::uint64_t without_trouble(std::uint64_t word) { return word & ~kTroubleMask; }
  /// The word when `blocks` blocks of one launch, and no other, have arrived without trouble.
  static constexpr std::uint64_t expected(std::uint32_t sequence, std::uint32_t launch_number,
                                          std::uint32_t blocks) {
    return first(sequence) + blocks * increment(launch_number);
  }
  static constexpr std::uint32_t blocks(std::uint64_t word) {
    return static_cast<std::uint32_t>(word) & kMostBlocks;
  }
  static constexpr bool has_sequence(std::uint64_t word, std::uint32_t sequence) {
    return word >> 56 == (sequence & 0xffu);
  }
  /// Launch numbers are neighbours; mixed, sums of three launches do not meet by plain arithmetic.
  /// MurmurHash3's 32-bit finaliser (Appleby, public domain).
  static constexpr std::uint32_t mix(std::uint32_t number) {
    number = (number ^ number >> 16) * 0x85ebca6bu;
    number = (number ^ number >> 13) * 0xc2b2ae35u;
    return number ^ number >> 16;
  }
};

struct FailureWords {
  std::uint32_t record_claim;       // 0 until one lane has won the right to write the record
  std::uint32_t provisional_claim;  // call sequence + 1 of the last provisional record; 0: none
  std::uint32_t missing[3];         // bit r: some lane found rank r missing
};

/// One call of one rank, in its ring: two packs, each with the sequence, so that a reader can tell a
/// torn one. `finished` is stored apart when the last block leaves.
struct alignas(16) Descriptor {
  std::uint32_t sequence;
  std::uint32_t operation_hash;
  std::uint32_t extent;   // tokens of a fused call, elements of a plain one
  std::uint32_t columns;  // elements of a row
  std::uint32_t sequence_again;
  std::uint32_t grid_blocks;
  std::uint32_t block_threads;
  std::uint32_t finished;
};
static_assert(sizeof(Descriptor) == 2 * sizeof(Pack));

/// What one rank sends another in the self-test: two payloads by turns, then a flag.
struct alignas(128) SelfTestCell {
  Pack payload[2][2];
  std::uint32_t flag;
};

struct Layout {
  std::uint32_t generation_pages = 0;  // one of headers, and the slots of all ranks

  constexpr Layout() = default;
  /// slot_bytes: a multiple of kPageBytes.
  constexpr Layout(std::uint32_t rank_count, std::uint64_t slot_bytes)
      : generation_pages(
            static_cast<std::uint32_t>((kHeaderBytes + rank_count * slot_bytes) / kPageBytes)) {}

  static constexpr std::uint64_t kControlLine = 64;
  static constexpr std::uint64_t kExtents = 80;
  static constexpr std::uint64_t kArrival = 128;
  static constexpr std::uint64_t kFinishedTicket = 160;
  static constexpr std::uint64_t kFailure = 256;
  static constexpr std::uint64_t kRing = 512;
  static constexpr std::uint64_t kAborts = 1024;
  static constexpr std::uint64_t kSelfTest = 2048;
  static constexpr std::uint64_t kControlBytes = 3 * kPageBytes;
  static constexpr std::uint64_t kHeaderBytes = kPageBytes;

  /// From the start of a channel.
  constexpr std::uint64_t generation(std::uint32_t g) const {
    return std::uint64_t{g * generation_pages} * kPageBytes;
  }
  constexpr std::uint64_t channel(std::uint32_t c) const {
    return kControlBytes + c * generation(kGenerations);
  }
  constexpr std::uint64_t end_guard() const { return channel(kChannels); }
  /// Bytes of the whole workspace.
  constexpr std::uint64_t bytes() const { return end_guard() + kPageBytes; }

  /// Where `source`'s header for a call of this generation lands.
  constexpr std::uint64_t header(std::uint32_t g, std::uint32_t source) const {
    return channel(0) + generation(g) + source * sizeof(Pack);
  }
  /// The data of all ranks of one call: `source`'s part starts at source * the call's own stride, so
  /// that what a call writes is one range from the start, whatever the algorithm.
  constexpr std::uint64_t data(std::uint32_t g) const {
    return channel(0) + generation(g) + kHeaderBytes;
  }
  /// The slots of all ranks.
  constexpr std::uint64_t data_bytes() const { return generation(1) - kHeaderBytes; }
};
static_assert(Layout::kSelfTest + kMaxRanks * sizeof(SelfTestCell) + kGuardBytes <=
              Layout::kControlBytes);
static_assert(kMaxRanks * sizeof(Pack) <= Layout::kHeaderBytes);
static_assert(Layout::kRing + kRingEntries * sizeof(Descriptor) <= Layout::kAborts);
static_assert(Layout::kAborts + kMaxRanks * sizeof(std::uint64_t) <= Layout::kSelfTest);

}  // namespace lamppost::device
