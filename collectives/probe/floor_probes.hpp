// Probes: the least that a machine asks for a launch, a message, and a byte. lamppost-bench
// measures with them; collectives do not use them.
//
// shape    Empty and timestamp: one thread that matters. One-way: one block; thread 0, or all
// threads
//          for the block-wide variant. Push: any grid.
// memory   One-way: the flag and payload of the two ranks' self-test cells; block-wide: the first
//          kProbeBlockBytes of generation 0, which is left as sentinels. Push: the data region of
//          the next rank's generation 0, from the start again and again; left full of packs.
// steps    One-way, rank A: 1. Store round r. 2. Wait until B has answered r.
//          One-way, rank B: 1. Wait for round r. 2. Store r.
// ordered  A word is its own flag, and so is each word of a pack. The clock's payload is ordered by
//          release and acquire of its flag.
// reuse    Rounds alternate strictly: A stores r + 1 after it has seen B's r, which B stored after
// it
//          had read A's r. Flags never come back on a communicator.
//
// One-way probes are calls, which all ranks make, but they clear nothing: before a communicator's
// first collective only. After a push the communicator takes no collective any more.
#pragma once

#include "collectives/probe/args.hpp"
#include "collectives/self_test/peer_self_test.hpp"
#include "lamppost/device/group.hpp"
#include "lamppost/device/pack.hpp"
#include "lamppost/device/wait.hpp"

namespace lamppost {

template <device::Target T>
LAMPPOST_DEVICE void probe_empty(T&, const ProbeArgs&) {}

template <device::Target T>
LAMPPOST_DEVICE void probe_timestamp(T& t, const ProbeArgs& args) {
  if (t.block_rank() != 0 || t.thread_rank() != 0) return;
  t.store_relaxed_system(args.request.result, t.ticks());
}

/// Waits until all words of a pack are `wanted`.
template <device::Target T>
struct TagPoll {
  T& t;
  const device::Pack* slot;
  std::uint32_t wanted;
  std::uint32_t rank;
  std::uint32_t seen;

  LAMPPOST_DEVICE bool is_ready() {
    const device::Pack pack = t.load_pack_relaxed_system(slot);
    seen = pack.word[0];
    return pack.word[0] == wanted && pack.word[1] == wanted && pack.word[2] == wanted &&
           pack.word[3] == wanted;
  }
  LAMPPOST_DEVICE void report(device::WaitReport& report) const {
    report.add_missing(rank);
    report.expected = wanted;
    report.seen = seen;
  }
  LAMPPOST_DEVICE device::FailureKind find_mismatch(device::WaitReport&) const {
    return device::FailureKind::kNone;
  }
};

/// The self-test's, in the shape of WordPoll.
template <device::Target T>
struct ClockPoll : FlagPoll<T> {};

/// As the self-test's, without its order.
template <device::Target T>
struct WordPoll : FlagPoll<T> {
  LAMPPOST_DEVICE bool is_ready() {
    this->seen = this->t.load_relaxed_system(this->flag);
    return static_cast<std::int32_t>(this->seen - this->wanted) >= 0;
  }
};

/// One thread of each of the two ranks. Round 0 brings them together and is not counted.
template <device::Target T, class Poll>
LAMPPOST_DEVICE void pass_word(T& t, device::Call<T>& call, const ProbeArgs& args) {
  using device::Layout;
  using device::SelfTestCell;
  const ProbeRequest& request = args.request;
  const device::PeerTable& peers = args.call.peers;
  const bool is_first = peers.rank == request.first_rank;
  const bool has_clock = request.probe == Probe::kOneWayClock;
  const std::uint32_t peer = is_first ? request.second_rank : request.first_rank;
  auto* theirs = device::at<SelfTestCell>(peers.workspace(peer), Layout::kSelfTest) + peers.rank;
  auto* mine = call.template own<SelfTestCell>(Layout::kSelfTest) + peer;
  auto* their_clock = reinterpret_cast<std::uint64_t*>(&theirs->payload[0][0]);
  const auto* my_clock = reinterpret_cast<const std::uint64_t*>(&mine->payload[0][0]);
  std::uint64_t start = 0;
  std::uint64_t offsets = 0;
  for (std::uint32_t round = 0; round <= request.rounds; ++round) {
    const std::uint32_t flag = args.first_flag + round;
    Poll poll{{t, &mine->flag, flag, peer, 0}};
    if (round == 1) start = t.ticks();
    const std::uint64_t sent = has_clock ? t.ticks() : 0;
    if (is_first) t.store_relaxed_system(&theirs->flag, flag);     // 1. A
    if (!wait_until(t, call, device::Phase::kData, poll)) return;  // 2. A, 1. B
    if (!is_first && has_clock) {
      t.store_relaxed_system(their_clock, t.ticks());
      t.store_release_system(&theirs->flag, flag);  // 2. B
    } else if (!is_first) {
      t.store_relaxed_system(&theirs->flag, flag);
    } else if (has_clock && round > 0) {
      offsets += t.load_relaxed_system(my_clock) - (sent + (t.ticks() - sent) / 2);
    }
  }
  if (!is_first) return;
  t.store_relaxed_system(request.result, t.ticks() - start);
  if (has_clock) t.store_relaxed_system(request.result + 1, offsets);
}

/// All threads of one block of each of the two ranks; every thread visits every block_sync.
template <device::Target T>
LAMPPOST_DEVICE void pass_block(T& t, device::Call<T>& call, const ProbeArgs& args) {
  using device::Pack;
  const ProbeRequest& request = args.request;
  const device::PeerTable& peers = args.call.peers;
  const bool is_first = peers.rank == request.first_rank;
  const std::uint32_t peer = is_first ? request.second_rank : request.first_rank;
  const std::uint64_t offset = args.call.layout.data(0);
  Pack* theirs = device::at<Pack>(peers.workspace(peer), offset);
  Pack* mine = call.template own<Pack>(offset);
  constexpr std::uint32_t kPacks = kProbeBlockBytes / sizeof(Pack);
  const auto push = [&](std::uint32_t flag) {
    if (call.has_failed()) return;
    for (std::uint32_t i : over_block_threads(t, kPacks)) {
      t.store_pack_relaxed_system(theirs + i, Pack{{flag, flag, flag, flag}});
    }
  };
  std::uint64_t start = 0;
  for (std::uint32_t round = 0; round <= request.rounds; ++round) {
    const std::uint32_t flag = args.first_flag + round;
    if (round == 1) start = t.ticks();
    if (is_first) push(flag);                                // 1. A
    for (std::uint32_t i : over_block_threads(t, kPacks)) {  // 2. A, 1. B
      TagPoll<T> poll{t, mine + i, flag, peer, 0};
      if (!wait_until(t, call, device::Phase::kData, poll)) break;
    }
    t.block_sync();
    if (!is_first) push(flag);  // 2. B
  }
  if (is_first && t.thread_rank() == 0 && !call.has_failed()) {
    t.store_relaxed_system(request.result, t.ticks() - start);
  }
  constexpr std::uint32_t kEmpty = device::kSentinel;
  for (std::uint32_t i : over_block_threads(t, kPacks)) {
    t.store_pack_relaxed_system(mine + i, Pack{{kEmpty, kEmpty, kEmpty, kEmpty}});
  }
}

template <device::Target T>
LAMPPOST_DEVICE void probe_one_way(T& t, const ProbeArgs& args) {
  device::Call<T> call(t, args.call, t.template shared<device::CallShared>());
  call.describe();
  const std::uint32_t rank = args.call.peers.rank;
  const bool takes_part = rank == args.request.first_rank || rank == args.request.second_rank;
  if (call.is_active() && takes_part) {
    if (args.request.probe == Probe::kOneWayBlock) {
      pass_block(t, call, args);
    } else if (t.thread_rank() == 0 && args.request.probe == Probe::kOneWayClock) {
      pass_word<T, ClockPoll<T>>(t, call, args);
    } else if (t.thread_rank() == 0) {
      pass_word<T, WordPoll<T>>(t, call, args);
    }
  }
  call.leave([] {});
}

template <device::Target T>
LAMPPOST_DEVICE void probe_push(T& t, const ProbeArgs& args) {
  using device::Pack;
  const device::PeerTable& peers = args.call.peers;
  const device::Layout& layout = args.call.layout;
  std::byte* next = peers.ring[peers.rank_count == 1 ? 0 : 1];
  Pack* region = device::at<Pack>(next, layout.data(0));
  const std::uint64_t region_packs = layout.data_bytes() / sizeof(Pack);
  const device::StrideRange mine =
      over_grid_threads(t, static_cast<std::uint32_t>(args.request.bytes / sizeof(Pack)));
  std::uint64_t place = mine.first;
  for (std::uint32_t i : mine) {
    while (place >= region_packs) place -= region_packs;
    t.store_pack_relaxed_system(region + place, Pack{{i, i, i, i}});
    place += mine.stride;
  }
}

}  // namespace lamppost
