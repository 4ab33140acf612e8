// LamportSession: data is its own flag. A slot holds the sentinel word until its data has arrived;
// readiness is judged per 32-bit word, by bits, for every payload type.
//
// memory   Three generations of one range (Layout). Call n pushes into generation n mod 3 of every
//          peer, clears what call n-1 wrote into its own generation n-1, and polls generation n.
//          +----------- generation g -----------+
//          | header of rank 0, 1, ... (16 B each)|   block 0 pushes and polls them
//          | rank 0's data | rank 1's data | ... |   stride_bytes each, packed from the start
//          +-------------------------------------+
// ordered  Data needs no flag: a word is either the sentinel or the value. A slot of generation n is
//          written again in call n+3; its writer is then past call n+2, so it has this rank's
//          headers of n+1 and n+2, which were pushed after call n, and its clears, had ended. (A
//          relaxed push after a launch boundary is taken to be ordered after the earlier launch's
//          stores at the memory they share; the PTX model alone does not promise that.)
// reuse    Two generations are too few, three hold (tests/models/lamport.pml). The proof needs a
//          full exchange in every call: hence a header to every peer, every time, even with no data.
// large    A call that leaves more than kMostDeferredBytes clears each slot itself, once the fragment
//          that it is part of has been summed, so that a small call after a large one has little to clear.
#pragma once

#include "lamppost/device/pack.hpp"
#include "lamppost/device/wait.hpp"

#include <initializer_list>

namespace lamppost::device {

inline constexpr std::uint64_t kMostDeferredBytes = 16 * 1024;

/// CallArgs::deferred_bytes of a call.
constexpr std::uint32_t deferred_clear_bytes(std::uint32_t rank_count, std::uint32_t stride_bytes) {
  const std::uint64_t total = std::uint64_t{rank_count} * stride_bytes;
  return rank_count == 1 || total > kMostDeferredBytes ? 0 : static_cast<std::uint32_t>(total);
}

/// The headers of a call: {sequence, operation, extent, communicator generation}, no word of which can
/// be the sentinel.
LAMPPOST_DEVICE Pack header_of(std::uint32_t sequence, std::uint32_t communicator_generation,
                               const CallArgs& args) {
  return Pack{{sequence, args.operation_hash, args.extent, communicator_generation}};
}

/// Compares a peer's header, which has arrived, with this rank's. Sequence and communicator
/// generation cannot differ between ranks that follow the protocol.
LAMPPOST_DEVICE FailureKind compare_headers(const Pack& ours, const Pack& theirs,
                                            std::uint32_t rank, WaitReport& report) {
  for (const int i : {0, 3, 2, 1}) {
    if (theirs.word[i] == ours.word[i]) continue;
    report.waited_for = rank;
    report.element = static_cast<std::uint32_t>(i);
    report.expected = ours.word[i];
    report.seen = theirs.word[i];
    return i == 0 || i == 3 ? FailureKind::kCorrupt : FailureKind::kMismatch;
  }
  return FailureKind::kNone;
}

/// Polls the packs of up to kBatch ranks at one position. kHasOwn: this rank may be among them.
template <Target T, int kBatch, bool kHasOwn>
struct PackPoll {
  T& t;
  const std::byte* first_slot;  // of first_rank, at the position
  std::uint32_t stride_bytes;
  std::uint32_t first_rank;
  std::uint32_t rank_count;     // ranks in this batch, at most kBatch
  std::uint32_t own_rank;
  Pack pack[kBatch];            // what is not polled holds no sentinel

  LAMPPOST_DEVICE const Pack* slot(int i) const {
    return reinterpret_cast<const Pack*>(first_slot + std::uint64_t{stride_bytes} * i);
  }
  LAMPPOST_DEVICE bool is_polled(int i) const {
    return !kHasOwn ||
           (static_cast<std::uint32_t>(i) < rank_count && first_rank + i != own_rank);
  }
  /// All loads are under way before the first word is looked at.
  LAMPPOST_DEVICE bool is_ready() {
    for (int i = 0; i < kBatch; ++i) {
      if (is_polled(i)) pack[i] = t.load_pack_relaxed_system(slot(i));
    }
    bool is_missing = false;
    for (int i = 0; i < kBatch; ++i) is_missing |= has_sentinel(pack[i]);
    return !is_missing;
  }
};

/// The long wait for the same packs, which keeps few registers.
template <class Poll, class Session>
struct PackWait {
  Poll poll;
  Session& session;
  std::uint32_t element;
  std::uint32_t missing = 0;  // bit i: of rank first_rank + i

  LAMPPOST_DEVICE bool is_ready() {
    missing = 0;
    LAMPPOST_NO_UNROLL for (std::uint32_t i = 0; i < poll.rank_count; ++i) {
      if (!poll.is_polled(i)) continue;
      if (has_sentinel(poll.t.load_pack_relaxed_system(poll.slot(i)))) missing |= 1u << i;
    }
    return missing == 0;
  }
  LAMPPOST_DEVICE void report(WaitReport& report) const {
    LAMPPOST_NO_UNROLL for (std::uint32_t i = 0; i < poll.rank_count; ++i) {
      if ((missing >> i & 1u) != 0) report.add_missing(poll.first_rank + i);
    }
    report.element = element;
    report.seen = kSentinel;
  }
  /// A peer that makes another call sends its data elsewhere; its header tells.
  LAMPPOST_DEVICE FailureKind find_mismatch(WaitReport& report) {
    FailureKind kind = FailureKind::kNone;
    LAMPPOST_NO_UNROLL for (std::uint32_t i = 0;
                            i < poll.rank_count && kind == FailureKind::kNone; ++i) {
      if ((missing >> i & 1u) == 0) continue;
      kind = session.compare_if_there(poll.first_rank + i, report);
    }
    return kind;
  }
};

/// Waits for one peer's header.
template <Target T>
struct HeaderPoll {
  T& t;
  const Pack* slot;
  std::uint32_t rank;
  Pack pack;

  LAMPPOST_DEVICE bool is_ready() {
    pack = t.load_pack_relaxed_system(slot);
    return !has_sentinel(pack);
  }
  LAMPPOST_DEVICE void report(WaitReport& report) const {
    report.add_missing(rank);
    report.seen = kSentinel;
  }
  LAMPPOST_DEVICE FailureKind find_mismatch(WaitReport&) const { return FailureKind::kNone; }
};

/// kWorld: ranks known when compiling, or 0.
template <Target T, int kWorld>
class LamportSession {
 public:
  /// Two ranks: each polls the other one only, by receive_other().
  static constexpr bool kIsPair = kWorld == 2;
  /// Ranks polled together.
  static constexpr int kBatch = kWorld == 0 ? 8 : kIsPair ? 1 : kWorld;
  using Poll = PackPoll<T, kBatch, !kIsPair>;

  LAMPPOST_DEVICE explicit LamportSession(Call<T>& call)
      : t_(call.target()),
        call_(call),
        data_(call.args().layout.data(call.generation())) {}

  LamportSession(const LamportSession&) = delete;
  LamportSession& operator=(const LamportSession&) = delete;

  LAMPPOST_DEVICE std::uint32_t rank_count() const {
    return kWorld == 0 ? call_.args().peers.rank_count : kWorld;
  }

  /// Stores this rank's pack `index` into every peer; nearest higher rank first, so that peers are
  /// not all written by everyone at once. The pack must be free of sentinels. Relaxed, system.
  LAMPPOST_DEVICE void push(std::uint32_t index, const Pack& pack) {
    const PeerTable& peers = call_.args().peers;
    const std::uint64_t offset = slot_offset(peers.rank, index);
    for (std::uint32_t i = 1; i < rank_count(); ++i) {
      t_.store_pack_relaxed_system(at<Pack>(peers.ring[i], offset), pack);
    }
  }

  /// Block 0 sends every peer this call's header.
  LAMPPOST_DEVICE void push_headers() {
    if (t_.block_rank() != 0) return;
    const CallArgs& args = call_.args();
    const std::uint64_t offset = args.layout.header(call_.generation(), args.peers.rank);
    for (std::uint32_t i : over_block_threads(t_, rank_count())) {
      if (i == 0) continue;
      t_.store_pack_relaxed_system(at<Pack>(args.peers.ring[i], offset), own_header());
    }
  }

  /// Restores the sentinel where the previous call's generation was written. All threads.
  LAMPPOST_DEVICE void clear_previous() {
    const std::uint32_t previous = call_.previous_generation();
    const Layout& layout = call_.args().layout;
    Pack* data = call_.template own<Pack>(layout.data(previous));
    for (std::uint32_t i : over_grid_threads(t_, call_.bytes_to_clear() / sizeof(Pack))) {
      t_.store_pack_relaxed_system(data + i, sentinel_pack());
    }
    Pack* headers = call_.template own<Pack>(layout.header(previous, 0));
    for (std::uint32_t i : over_grid_threads(t_, rank_count())) {
      t_.store_pack_relaxed_system(headers + i, sentinel_pack());
    }
  }

  /// Where a quick look found something missing.
  struct Missing {
    std::uint32_t index = 0;
    std::uint32_t first_rank = 0;
  };

  /// Polls pack `index` of ranks first_rank .. first_rank + kBatch - 1 (those that exist) a few times, and
  /// gives each to `use(pack)` in rank order, this rank's own as `own`. False: not all are there
  /// yet, `missing` says which wait() is due, and `use` was not called.
  template <class Use>
  LAMPPOST_DEVICE bool receive(const Missing& wanted, const Pack& own, Use&& use,
                               Missing& missing) {
    auto poll = poll_of(wanted, own);
    if (!poll_quickly(t_, poll)) {  // after a failure too: wait() looks
      missing = wanted;
      return false;
    }
    for (int i = 0; i < kBatch; ++i) {
      if (static_cast<std::uint32_t>(i) < poll.rank_count) use(poll.pack[i]);
    }
    return true;
  }

  /// The same for a pair: `pack` becomes the other rank's pack `index`.
  LAMPPOST_DEVICE bool receive_other(std::uint32_t index, Pack& pack, Missing& missing) {
    static_assert(kIsPair);
    missing = {index, 1 - call_.args().peers.rank};
    auto poll = poll_of(missing, Pack{});
    if (!poll_quickly(t_, poll)) return false;
    pack = poll.pack[0];
    return true;
  }

  /// Waits until what was missing is there; what has been received lies in its slots still. False: the
  /// call has failed.
  LAMPPOST_DEVICE bool wait(const Missing& missing) {
    PackWait<Poll, LamportSession> wait{poll_of(missing, Pack{}), *this, missing.index};
    return wait_slowly(t_, call_, Phase::kData, wait);
  }
  /// Compares a peer's header with this call's, if it has come.
  LAMPPOST_DEVICE FailureKind compare_if_there(std::uint32_t rank, WaitReport& report) {
    const Pack theirs = t_.load_pack_relaxed_system(header_slot(rank));
    return has_sentinel(theirs) ? FailureKind::kNone
                                : compare_headers(own_header(), theirs, rank, report);
  }

  /// Pack `index` of every rank has been used. In a large call its slots are cleared now.
  LAMPPOST_DEVICE void release(std::uint32_t index) {
    if (!clears_itself()) return;
    for (std::uint32_t rank = 0; rank < rank_count(); ++rank) {
      if (rank == call_.args().peers.rank) continue;
      t_.store_pack_relaxed_system(call_.template own<Pack>(slot_offset(rank, index)),
                                   sentinel_pack());
    }
  }

  /// Issues the load of the header that this thread waits for; it is on its way while a fragment is
  /// finished.
  LAMPPOST_DEVICE void begin_headers() {
    if (awaits_header()) header_ = t_.load_pack_relaxed_system(header_slot(t_.thread_rank()));
  }

  /// Whether this thread's part of wait_for_headers() is done: what begin_headers() found is this
  /// call's header.
  LAMPPOST_DEVICE bool look_at_headers() {
    if (t_.block_rank() != 0) return true;
    has_headers_ = rank_count() <= t_.block_threads() &&
                   (!awaits_header() || is_same_pack(header_, own_header()));
    return has_headers_;
  }

  /// Block 0 waits for every peer's header and compares it with this call's. Without it no rank may
  /// leave: it is what keeps ranks within one call of each other.
  LAMPPOST_DEVICE void wait_for_headers() {
    if (t_.block_rank() != 0 || has_headers_) return;
    for (std::uint32_t rank : over_block_threads(t_, rank_count())) {
      if (rank == call_.args().peers.rank) continue;
      HeaderPoll<T> poll{t_, header_slot(rank), rank, {}};
      if (!wait_until(t_, call_, Phase::kHeader, poll)) continue;
      WaitReport report;
      const FailureKind kind = compare_headers(own_header(), poll.pack, rank, report);
      if (kind != FailureKind::kNone) call_.record(kind, Phase::kHeader, report);
    }
  }

 private:
  LAMPPOST_DEVICE bool awaits_header() const {
    return t_.block_rank() == 0 && t_.thread_rank() < rank_count() &&
           t_.thread_rank() != call_.args().peers.rank;
  }
  /// In a workspace.
  LAMPPOST_DEVICE std::uint64_t slot_offset(std::uint32_t rank, std::uint32_t index) const {
    return data_ + std::uint64_t{rank} * call_.args().stride_bytes +
           std::uint64_t{index} * sizeof(Pack);
  }
  LAMPPOST_DEVICE bool clears_itself() const { return call_.args().deferred_bytes == 0; }

  LAMPPOST_DEVICE Pack* header_slot(std::uint32_t rank) const {
    return call_.template own<Pack>(call_.args().layout.header(call_.generation(), rank));
  }
  LAMPPOST_DEVICE Poll poll_of(const Missing& wanted, const Pack& own) const {
    const CallArgs& args = call_.args();
    const std::uint32_t left = kIsPair ? 1 : rank_count() - wanted.first_rank;
    Poll poll{t_,
              call_.template own<std::byte>(slot_offset(wanted.first_rank, wanted.index)),
              args.stride_bytes,
              wanted.first_rank,
              left < kBatch ? left : static_cast<std::uint32_t>(kBatch),
              args.peers.rank,
              {}};
    for (Pack& pack : poll.pack) pack = own;
    return poll;
  }

  LAMPPOST_DEVICE Pack own_header() const {
    return header_of(call_.sequence(), call_.communicator_generation(), call_.args());
  }

  T& t_;
  Call<T>& call_;
  std::uint64_t data_;
  Pack header_ = sentinel_pack();  // of rank thread_rank(), as begin_headers() found it
  bool has_headers_ = false;
};

}  // namespace lamppost::device
