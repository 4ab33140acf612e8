// The self-test that ends a communicator's creation: every ordered pair of ranks exchanges data under
// a flag, over the real load and store path, for a number of rounds. Wrong data is kCorrupt naming
// the peer; a peer that does not answer is kTimedOut.
//
// shape    One block; thread p talks with rank p.
// memory   SelfTestCell p of this rank's workspace is written by rank p only: two payloads by turns,
//          then the flag.
// steps    1. Store payload (round, sender, receiver) into the peer; flag = round by release.
//          2. Wait until the peer's flag is at least round (acquire); check its payload.
// ordered  Release/acquire on the flag orders payload before check.
// reuse    Round k+2 overwrites the payload of round k after the peer's flag k+1 was seen, which the
//          peer stored after it had checked round k.
#pragma once

#include "collectives/self_test/args.hpp"
#include "lamppost/device/group.hpp"
#include "lamppost/device/pack.hpp"
#include "lamppost/device/wait.hpp"

namespace lamppost {

/// Flags are monotonic: compared by distance, never by equality.
template <device::Target T>
struct FlagPoll {
  T& t;
  const std::uint32_t* flag;
  std::uint32_t wanted;
  std::uint32_t rank;
  std::uint32_t seen;

  LAMPPOST_DEVICE bool is_ready() {
    seen = t.load_acquire_system(flag);
    return static_cast<std::int32_t>(seen - wanted) >= 0;
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

LAMPPOST_DEVICE device::Pack self_test_payload(std::uint32_t round, std::uint32_t sender,
                                               std::uint32_t receiver, std::uint32_t part) {
  const std::uint32_t base = round * 0x9e3779b9u ^ (sender << 16 | receiver << 8 | part);
  return device::Pack{{base, ~base, base * 3u, base ^ 0xa5a5a5a5u}};
}

/// One thread, one peer, all rounds.
template <device::Target T>
LAMPPOST_DEVICE void self_test_pair(T& t, device::Call<T>& call, std::uint32_t rounds,
                                    std::uint32_t peer) {
  using device::Layout;
  using device::SelfTestCell;
  const device::PeerTable& peers = call.args().peers;
  auto* theirs =
      device::at<SelfTestCell>(peers.workspace(peer), Layout::kSelfTest) + peers.rank;
  auto* mine = call.template own<SelfTestCell>(Layout::kSelfTest) + peer;
  for (std::uint32_t round = 1; round <= rounds; ++round) {
    for (std::uint32_t part = 0; part < 2; ++part) {
      t.store_pack_relaxed_system(&theirs->payload[round % 2][part],
                                  self_test_payload(round, peers.rank, peer, part));
    }
    t.store_release_system(&theirs->flag, round);
    FlagPoll<T> poll{t, &mine->flag, round, peer, 0};
    if (!wait_until(t, call, device::Phase::kData, poll)) return;
    for (std::uint32_t part = 0; part < 2; ++part) {
      const auto seen = t.load_pack_relaxed_system(&mine->payload[round % 2][part]);
      const auto expected = self_test_payload(round, peer, peers.rank, part);
      if (is_same_pack(seen, expected)) continue;
      device::WaitReport report;
      report.waited_for = peer;
      report.element = round;
      report.expected = expected.word[0];
      report.seen = seen.word[0];
      call.record(device::FailureKind::kCorrupt, device::Phase::kData, report);
      return;
    }
  }
}

template <device::Target T>
LAMPPOST_DEVICE void peer_self_test(T& t, const SelfTestArgs& args) {
  device::Call<T> call(t, args.call, t.template shared<device::CallShared>());
  call.describe();
  if (call.is_active()) {
    for (std::uint32_t peer : over_block_threads(t, args.call.peers.rank_count)) {
      if (peer != args.call.peers.rank) self_test_pair(t, call, args.rounds, peer);
    }
  }
  call.leave([] {});
}

}  // namespace lamppost
