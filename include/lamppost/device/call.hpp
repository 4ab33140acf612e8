// Call: one launch as the failure protocol sees it. Reads the control line, keeps the descriptor
// ring, records a failure once, tells the peers, counts the blocks out and advances the sequence.
// Every kernel makes one Call a thread; every thread of every block must reach leave().
// Call 0 of a communicator is the self-test that ends its creation; the caller's first is kFirstCall.
//
// Why it is ordered
//   start   The control line was stored by the previous call's last block (launch boundary). Peers
//           may store `abort` at any time: one thread reads the line and the block shares it, so that
//           a block never splits over it. Blocks may differ; failure is data, not control flow.
//   fail    One lane wins record_claim; it alone writes the record, then record_valid by release,
//           then FAILED, then the abort words. Whoever sees record_valid sees the whole record.
//   arrive  A block is counted out once, after a meeting of its threads that comes after its last wait.
//           The add carries whether the block is in trouble (a wait of it failed or was long, or the
//           call began failed), so without trouble the last one out need look nowhere: its add is
//           relaxed, and the launch boundary orders the blocks' work for the next call. It may be
//           under way while the block stores its last outputs. With trouble, and where another stream
//           will wait for this launch's ticket, it comes after the outputs, acq_rel: the last one out is
//           ordered after everything any such block did, so what it sees of FAILED is final for this
//           call, and its ticket releases all of it. What a block without trouble stores later is right,
//           so an output element of a failed call is right or poison.
//   Two launches in flight on one communicator, whatever their interleaving, are reported by at least
//   one block as kCorrupt: it finds another sequence than it read, a count above its grid, or, as the
//   last one out, launch numbers that are not all its own (tests/models/in_flight.pml).
#pragma once

#include "lamppost/device/control_page.hpp"
#include "lamppost/device/peers.hpp"

#include <initializer_list>

namespace lamppost::device {

inline constexpr std::uint32_t kFirstCall = 1;

/// A delay planted by LAMPPOST_FAULT; phase kNone: off.
struct FaultArgs {
  std::uint32_t phase;  // Phase
  std::uint32_t call;
  std::uint64_t delay_ms;
};

/// The part of every kernel's arguments that the protocol needs.
struct CallArgs {
  ControlPage* page;             // as this device addresses it
  Layout layout;
  std::uint32_t stride_bytes;    // one rank's part of this call's data, whole packs
  std::uint32_t deferred_bytes;  // of this call's data: what the next call clears (Extents)
  std::uint32_t operation_hash;  // 31 bits; equal on all ranks for equal calls
  std::uint32_t extent;          // 31 bits; tokens or elements
  std::uint32_t columns;         // elements of a row
  std::uint32_t ticket;          // eager launches, counted by the host; 0: captured, or none wanted
  FaultArgs fault;
  PeerTable peers;
};

/// What a lane knows when a wait ends badly.
struct WaitReport {
  std::uint32_t waited_for = kNoRank;
  std::uint64_t abort = 0;  // the AbortWord that ended the wait; 0: none did
  std::uint32_t missing[3] = {0, 0, 0};
  std::uint32_t element = 0;
  std::uint32_t expected = 0;
  std::uint32_t seen = 0;
  std::uint64_t start_ticks = 0;
  std::uint64_t elapsed_ticks = 0;

  LAMPPOST_DEVICE void add_missing(std::uint32_t rank) {
    for (std::uint32_t i = 0; i < 3; ++i) missing[i] |= rank / 32 == i ? 1u << rank % 32 : 0u;
    if (waited_for == kNoRank) waited_for = rank;
  }
};

/// The first loads of a call, by thread 0 of a block: on their way while the kernel starts others.
struct CallStart {
  Pack line;
  Pack extents;
};

/// The block's share of a Call.
struct CallShared {
  CallStart start;
  std::uint32_t is_aborted;
  std::uint32_t must_poison;
};

/// What one block finds when it leaves.
struct Departure {
  bool must_poison;  // every output of the call
  bool is_last;      // of its launch
};

template <Target T>
class Call {
 public:
  LAMPPOST_DEVICE static CallStart start(T& t, const CallArgs& args) {
    CallStart start;
    if (t.thread_rank() == 0) {
      std::byte* own = args.peers.own();
      start.line = t.load_pack_relaxed_system(at<Pack>(own, Layout::kControlLine));
      start.extents = t.load_pack_relaxed_system(at<Pack>(own, Layout::kExtents));
    }
    return start;
  }

  /// Block-wide: every thread of the block comes.
  LAMPPOST_DEVICE Call(T& t, const CallArgs& args, CallShared& shared, const CallStart& start)
      : t_(t), args_(args), shared_(shared) {
    if (t.thread_rank() == 0) shared.start = start;
    t.block_sync();
    const auto line = __builtin_bit_cast(ControlLine, shared.start.line);
    sequence_ = line.call >> 2;
    generation_ = line.call & 3u;
    communicator_generation_ = line.state >> 1;
    is_active_ = (line.state & 1u) == 0;
    if (is_active_ && line.abort_hint != 0) end_if_aborted();
    delay_if_planted(Phase::kStart);
  }
  LAMPPOST_DEVICE Call(T& t, const CallArgs& args, CallShared& shared)
      : Call(t, args, shared, start(t, args)) {}

  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// False: the communicator has failed. The call pushes nothing and waits for nothing.
  LAMPPOST_DEVICE bool is_active() const { return is_active_; }
  /// True once a wait of this thread has failed.
  LAMPPOST_DEVICE bool has_failed() const { return has_failed_; }
  LAMPPOST_DEVICE std::uint32_t sequence() const { return sequence_; }
  LAMPPOST_DEVICE std::uint32_t generation() const { return generation_; }
  /// The one before, which this call clears, and how much of its data it clears.
  LAMPPOST_DEVICE std::uint32_t previous_generation() const {
    return generation_ == 0 ? kGenerations - 1 : generation_ - 1;
  }
  LAMPPOST_DEVICE std::uint32_t bytes_to_clear() const {
    return shared_.start.extents.word[previous_generation()];
  }
  LAMPPOST_DEVICE std::uint32_t communicator_generation() const { return communicator_generation_; }
  LAMPPOST_DEVICE const CallArgs& args() const { return args_; }
  LAMPPOST_DEVICE T& target() const { return t_; }

  /// This rank's workspace at an offset of Layout.
  template <class V>
  LAMPPOST_DEVICE V* own(std::uint64_t offset) const {
    return at<V>(args_.peers.own(), offset);
  }

  /// Block 0 enters this call in the ring that peers read. In every kernel, before its first wait.
  LAMPPOST_DEVICE void describe() {
    if (t_.block_rank() != 0 || t_.thread_rank() + 1 != t_.block_threads()) return;
    auto* packs = reinterpret_cast<Pack*>(ring_entry(args_.peers.rank, sequence_));
    t_.store_pack_relaxed_system(
        packs, Pack{{sequence_, args_.operation_hash, args_.extent, args_.columns}});
    t_.store_pack_relaxed_system(packs + 1,
                                 Pack{{sequence_, t_.grid_blocks(), t_.block_threads(), 0}});
  }

  /// Why a wait should end now, from the words that change while a call runs; kNone: no reason.
  LAMPPOST_DEVICE FailureKind look_for_failure(WaitReport& report) {
    if (t_.load_relaxed_system(&args_.page->abort_requested) != 0) {
      return FailureKind::kAbortedLocally;
    }
    report.abort = find_abort();
    if (report.abort != 0) return FailureKind::kAbortedByPeer;
    // Another lane of this rank has failed and holds the record; this one only adds to the mask.
    const std::uint32_t state =
        t_.load_relaxed_system(&own<ControlLine>(Layout::kControlLine)->state);
    return (state & 1u) != 0 ? FailureKind::kTimedOut : FailureKind::kNone;
  }

  /// Marks this thread's call as failed; the first of the rank writes the record and tells peers.
  /// kNone: this thread's wait is a long one, and goes on; the first of the call writes the provisional
  /// record.
  LAMPPOST_DEVICE void record(FailureKind kind, Phase phase, const WaitReport& report) {
    is_in_trouble_ = true;
    has_failed_ = kind != FailureKind::kNone;
    ControlPage* page = args_.page;
    const std::uint32_t version = t_.load_relaxed_system(&page->provisional_version) + 1;
    if (!(has_failed_ ? claim_record(report) : claim_note())) return;
    write_record(has_failed_ ? page->record : page->provisional[version % 2], phase, report);
    if (!has_failed_) {
      t_.store_release_system(&page->provisional_version, version);
      t_.store_release_system(&page->provisional_active, 1);
      return;
    }
    t_.store_release_system(&page->record_valid, static_cast<std::uint32_t>(kind));
    t_.store_relaxed_system(&own<ControlLine>(Layout::kControlLine)->state,
                            communicator_generation_ << 1 | 1u);
    tell_peers(report);
  }

  /// A meeting of the block, and a block_sync(), after which only outputs of this call are stored. If
  /// every thread `is_done`, waiting for nothing any more, the block counts itself out now. May be left
  /// out; leave() comes in any case.
  LAMPPOST_DEVICE void arrive_early(bool is_done) {
    arrives_late_ = t_.block_any(is_in_trouble_ || !is_done) || args_.ticket != 0;
    if (t_.thread_rank() == 0 && !arrives_late_) arrival_ = add_arrival();
  }

  /// The block's last act. Block-wide. `poison()` is called, by all threads of the block, if the call has
  /// failed and this block must poison every output of it. The last block out then stores an eager
  /// launch's ticket, for other streams and for the host.
  template <class Poison>
  LAMPPOST_DEVICE void leave(Poison&& poison) {
    if (arrives_late_) is_in_trouble_ = t_.block_any(is_in_trouble_ || !is_active_);
    bool is_last = false;
    if (t_.thread_rank() == 0) {
      if (arrives_late_) arrival_ = add_arrival();
      const Departure departure = depart();
      shared_.must_poison = departure.must_poison ? 1 : 0;
      is_last = departure.is_last;
    }
    t_.block_sync();
    if (shared_.must_poison != 0) {
      poison();
      t_.block_sync();
    }
    if (is_last && args_.ticket != 0) {
      t_.store_release_system(own<std::uint32_t>(Layout::kFinishedTicket), args_.ticket);
    }
  }

  /// Waits here if LAMPPOST_FAULT names this call and phase. Bounded by the planted time.
  LAMPPOST_DEVICE void delay_if_planted(Phase phase) {
    const FaultArgs& fault = args_.fault;
    if (fault.phase != static_cast<std::uint32_t>(phase) || fault.call != sequence_) return;
    const std::uint64_t start = t_.ticks();
    const std::uint64_t delay = fault.delay_ms * (t_.ticks_per_second() / 1000);
    while (t_.ticks() - start < delay) t_.pause();
  }

 private:
  /// Adds to the mask of missing ranks; true for the first failing lane of the rank.
  LAMPPOST_DEVICE bool claim_record(const WaitReport& report) {
    FailureWords* words = own<FailureWords>(Layout::kFailure);
    for (int i = 0; i < 3; ++i) {
      if (report.missing[i] != 0) t_.or_relaxed_device(&words->missing[i], report.missing[i]);
    }
    return t_.compare_exchange_relaxed_device(&words->record_claim, 0, 1) == 0;
  }

  /// True for the first lane of the rank whose wait in this call has become a long one.
  LAMPPOST_DEVICE bool claim_note() {
    FailureWords* words = own<FailureWords>(Layout::kFailure);
    const std::uint32_t last = t_.load_relaxed_system(&words->provisional_claim);
    return last != sequence_ + 1 && t_.compare_exchange_relaxed_device(
                                        &words->provisional_claim, last, sequence_ + 1) == last;
  }

  /// A peer's abort word that is current for this call; 0: there is none.
  LAMPPOST_DEVICE std::uint64_t find_abort() {
    const auto* aborts = own<std::uint64_t>(Layout::kAborts);
    LAMPPOST_NO_UNROLL for (std::uint32_t rank = 0; rank < args_.peers.rank_count; ++rank) {
      const std::uint64_t word = t_.load_relaxed_system(aborts + rank);
      if (AbortWord::unpack(word).is_current(communicator_generation_, sequence_)) return word;
    }
    return 0;
  }

  /// Block-wide, at the start of a call that has been hinted at.
  LAMPPOST_DEVICE void end_if_aborted() {
    if (t_.thread_rank() == 0) {
      WaitReport report;
      report.abort = find_abort();
      shared_.is_aborted = report.abort != 0 ? 1 : 0;
      if (report.abort != 0) record(FailureKind::kAbortedByPeer, Phase::kStart, report);
    }
    t_.block_sync();
    is_active_ = shared_.is_aborted == 0;
  }

  LAMPPOST_DEVICE Descriptor* ring_entry(std::uint32_t rank, std::uint32_t sequence) const {
    return at<Descriptor>(args_.peers.workspace(rank), Layout::kRing) + sequence % kRingEntries;
  }

  LAMPPOST_DEVICE PeerSnapshot snapshot(std::uint32_t rank) {
    const std::uint32_t call_word =
        t_.load_relaxed_system(&at<ControlLine>(args_.peers.workspace(rank), Layout::kControlLine)->call);
    const std::uint32_t next = call_word >> 2;  // the call it is in, or will make next
    for (std::uint32_t sequence : {next, (next - 1) & kSequenceMask}) {
      const auto* packs = reinterpret_cast<const Pack*>(ring_entry(rank, sequence));
      const Pack first = t_.load_pack_relaxed_system(packs);
      const Pack second = t_.load_pack_relaxed_system(packs + 1);
      const bool is_written = second.word[1] != 0;  // a grid has at least one block
      if (!is_written || first.word[0] != sequence || second.word[0] != sequence) continue;
      const PeerState state = second.word[3] != 0 ? PeerState::kFinished : PeerState::kInCall;
      return {static_cast<std::uint32_t>(state), sequence, first.word[1], first.word[2],
              first.word[3]};
    }
    return {static_cast<std::uint32_t>(PeerState::kNeverLaunched), 0, 0, 0, 0};
  }

  LAMPPOST_DEVICE void store_word(std::uint32_t& target, std::uint32_t value) {
    t_.store_relaxed_system(&target, value);
  }

  LAMPPOST_DEVICE void write_record(HealthRecord& record, Phase phase, const WaitReport& report) {
    store_word(record.call, sequence_);
    store_word(record.phase, static_cast<std::uint32_t>(phase));
    store_word(record.waited_for, report.waited_for);
    const AbortWord abort = AbortWord::unpack(report.abort);
    store_word(record.abort_source, report.abort == 0 ? kNoRank : abort.source_rank);
    store_word(record.abort_call, abort.call);
    store_word(record.element, report.element);
    store_word(record.expected, report.expected);
    store_word(record.seen, report.seen);
    store_word(record.block, t_.block_rank());
    store_word(record.thread, t_.thread_rank());
    for (int i = 0; i < 3; ++i) store_word(record.missing[i], report.missing[i]);
    t_.store_relaxed_system(&record.start_ticks, report.start_ticks);
    t_.store_relaxed_system(&record.elapsed_ticks, report.elapsed_ticks);
    LAMPPOST_NO_UNROLL for (std::uint32_t rank = 0; rank < args_.peers.rank_count; ++rank) {
      const PeerSnapshot peer = snapshot(rank);
      store_word(record.peers[rank].state, peer.state);
      store_word(record.peers[rank].call, peer.call);
      store_word(record.peers[rank].operation_hash, peer.operation_hash);
      store_word(record.peers[rank].extent, peer.extent);
      store_word(record.peers[rank].columns, peer.columns);
    }
  }

  /// A word that ended this rank's wait is passed on as it is, so that every rank names the rank that
  /// failed first.
  LAMPPOST_DEVICE void tell_peers(const WaitReport& report) {
    const AbortWord mine{
        communicator_generation_, args_.peers.rank,
        report.waited_for == kNoRank ? AbortWord::kNobody : report.waited_for, sequence_};
    const std::uint64_t word = report.abort != 0 ? report.abort : mine.pack();
    LAMPPOST_NO_UNROLL for (std::uint32_t rank = 0; rank < args_.peers.rank_count; ++rank) {
      if (rank == args_.peers.rank) continue;
      std::byte* peer = args_.peers.workspace(rank);
      t_.store_relaxed_system(at<std::uint64_t>(peer, Layout::kAborts) + args_.peers.rank, word);
      t_.store_relaxed_system(&at<ControlLine>(peer, Layout::kControlLine)->abort_hint, 1u);
    }
  }

  /// One thread a block counts it out. What the arrival word held before.
  LAMPPOST_DEVICE std::uint64_t add_arrival() {
    delay_if_planted(Phase::kArrive);
    auto* arrivals = own<std::uint64_t>(Layout::kArrival);
    const std::uint64_t increment = ArrivalWord::increment(t_.launch_number()) +
                                    (is_in_trouble_ ? ArrivalWord::kTrouble : 0);
    return is_in_trouble_ || args_.ticket != 0 ? t_.add_acq_rel_device(arrivals, increment)
                                               : t_.add_relaxed_device(arrivals, increment);
  }

  /// The thread that has counted its block out.
  LAMPPOST_DEVICE Departure depart() {
    const std::uint64_t old = arrival_;
    const std::uint32_t arrived_before = ArrivalWord::blocks(old);
    const bool is_last = arrived_before + 1 == t_.grid_blocks();
    const std::uint64_t one_launch =
        ArrivalWord::expected(sequence_, t_.launch_number(), arrived_before);
    const bool is_alone = ArrivalWord::has_sequence(old, sequence_) &&
                          arrived_before < t_.grid_blocks() &&
                          (!is_last || ArrivalWord::without_trouble(old) == one_launch);
    if (!is_alone) {
      WaitReport report;
      report.expected = static_cast<std::uint32_t>(one_launch >> 12);
      report.seen = static_cast<std::uint32_t>(old >> 12);
      report.element = arrived_before;
      record(FailureKind::kCorrupt, Phase::kArrive, report);
      return {true, is_last};
    }
    if (!is_last) return {false, false};
    const bool was_in_trouble = is_in_trouble_ || ArrivalWord::without_trouble(old) != old;
    const bool has_failed = was_in_trouble && settle_trouble();
    advance();
    return {has_failed, true};
  }

  /// The last block out of a call in which some block was in trouble. True: the call has failed.
  LAMPPOST_DEVICE bool settle_trouble() {
    t_.add_acq_rel_device(own<std::uint64_t>(Layout::kArrival), 0);  // after all that they did
    FailureWords* words = own<FailureWords>(Layout::kFailure);
    if (t_.load_relaxed_system(&words->provisional_claim) == sequence_ + 1) {
      t_.store_relaxed_system(&args_.page->provisional_active, 0u);
    }
    const ControlLine* line = own<ControlLine>(Layout::kControlLine);
    if ((t_.load_relaxed_system(&line->state) & 1u) == 0) return false;
    for (int i = 0; i < 3; ++i) {
      store_word(args_.page->record.missing[i], t_.load_relaxed_system(&words->missing[i]));
    }
    return true;
  }

  /// The last block out of a call.
  LAMPPOST_DEVICE void advance() {
    const std::uint32_t next_sequence = (sequence_ + 1) & kSequenceMask;
    const std::uint32_t next_generation = generation_ + 1 == kGenerations ? 0 : generation_ + 1;
    ControlLine* line = own<ControlLine>(Layout::kControlLine);
    t_.store_relaxed_system(own<std::uint32_t>(Layout::kExtents) + generation_, args_.deferred_bytes);
    t_.store_relaxed_system(own<std::uint64_t>(Layout::kArrival),
                            ArrivalWord::first(next_sequence));
    t_.store_relaxed_system(&line->call, ControlLine::pack_call(next_sequence, next_generation));
    t_.store_relaxed_system(&ring_entry(args_.peers.rank, sequence_)->finished, 1u);
  }

  T& t_;
  const CallArgs& args_;
  CallShared& shared_;
  std::uint32_t sequence_;
  std::uint32_t generation_;
  std::uint32_t communicator_generation_;
  std::uint64_t arrival_ = 0;  // the arrival word before this block's add; thread 0
  bool arrives_late_ = true;
  bool is_active_;
  bool has_failed_ = false;
  bool is_in_trouble_ = false;  // this thread; in leave() the block: the last one out must look
};

}  // namespace lamppost::device
