// Are the fault targets able to find faults? Kernels with one planted bug each, run on the target
// that should find it, with random seeds until it does; and the correct kernel on the same target,
// which must never fail. Two ranks a case, each on an OS thread of its own.
#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <thread>
#include <vector>

#include "fibers/scheduler.hpp"
#include "lamppost/device/generic.hpp"
#include "lamppost/device/host.hpp"

namespace lamppost::test {
namespace {

using device::HostKernel;
using device::HostTarget;
using device::HostThread;
using device::kSentinel;
using device::Pack;

constexpr std::uint32_t kThreads = 64;
constexpr std::uint32_t kCalls = 40;

/// One rank's inbox: three generations of a pack a thread, a flag, and plain payload.
struct Inbox {
  Pack slot[3][kThreads];
  std::uint32_t payload[kThreads];
  std::uint32_t flag;
};

struct ExchangeArgs {
  Inbox* own;
  Inbox* peer;
  std::uint32_t rank;
  std::uint32_t* wrong;  // counts on this rank
};

enum class Bug { kNone, kOneWordOfFour, kTwoGenerations, kRelaxedFlag };

template <class T>
void bounded_pause(T& t, std::uint32_t& polls) {
  ++polls;
  t.pause();
}
constexpr std::uint32_t kMostPolls = 20'000;  // a bug may hang: bounded

/// Lamport: push, clear the previous generation, poll.
template <class T, Bug bug>
void lamport_exchange(T& t, const ExchangeArgs& args) {
  constexpr std::uint32_t kGenerations = bug == Bug::kTwoGenerations ? 2 : 3;
  const std::uint32_t me = t.thread_rank();
  std::uint32_t wrong = 0;
  for (std::uint32_t call = 1; call <= kCalls; ++call) {
    const std::uint32_t generation = call % kGenerations;
    const std::uint32_t previous = (call + kGenerations - 1) % kGenerations;
    const std::uint32_t value = call * 1000 + me;
    t.store_pack_relaxed_system(&args.peer->slot[generation][me],
                                Pack{{value, value + 1, value + 2, value + 3}});
    t.store_pack_relaxed_system(&args.own->slot[previous][me], device::sentinel_pack());
    Pack seen;
    std::uint32_t polls = 0;
    while (true) {
      seen = t.load_pack_relaxed_system(&args.own->slot[generation][me]);
      const bool ready =
          bug == Bug::kOneWordOfFour ? seen.word[0] != kSentinel : !device::has_sentinel(seen);
      if (ready || polls > kMostPolls) break;
      bounded_pause(t, polls);
    }
    for (std::uint32_t i = 0; i < 4; ++i) wrong += seen.word[i] != value + i ? 1 : 0;
    // A call ends when all its threads have ended: stands for the launch boundary. Its release
    // drains delayed stores, as the end of a launch does.
    t.block_sync();
    if (me == 0) t.store_release_system(&args.own->flag, call);
    t.block_sync();
  }
  if (wrong != 0) t.or_relaxed_device(args.wrong, wrong);
}

/// Plain payload under a flag.
template <class T, Bug bug>
void flag_exchange(T& t, const ExchangeArgs& args) {
  const std::uint32_t me = t.thread_rank();
  t.store_relaxed_system(&args.peer->payload[me], 77u + me);
  t.block_sync();
  if (me == 0) {
    if (bug == Bug::kRelaxedFlag) {
      t.store_relaxed_system(&args.peer->flag, 1u);
    } else {
      t.store_release_system(&args.peer->flag, 1u);
    }
    std::uint32_t polls = 0;
    while (t.load_acquire_system(&args.own->flag) != 1 && polls < kMostPolls)
      bounded_pause(t, polls);
  }
  t.block_sync();
  if (t.load_relaxed_system(&args.own->payload[me]) != 77u + me)
    t.or_relaxed_device(args.wrong, 1u);
}

template <class T, void (*kernel)(T&, const ExchangeArgs&)>
void entry(HostThread& thread, const void* args) {
  T target(thread);
  kernel(target, *static_cast<const ExchangeArgs*>(args));
}

/// Runs the kernel on two ranks; true if a rank read something wrong.
template <class T, void (*kernel)(T&, const ExchangeArgs&)>
bool goes_wrong(std::uint64_t seed) {
  fibers::set_host_seed(seed);
  std::vector<Inbox> inboxes(2);
  std::uint32_t wrong[2] = {};
  for (Inbox& inbox : inboxes) {
    inbox = Inbox{};
    for (auto& generation : inbox.slot) {
      for (Pack& pack : generation) pack = device::sentinel_pack();
    }
  }
  const HostKernel host_kernel{"exchange", entry<T, kernel>,     nullptr,
                               T::kLanes,  sizeof(ExchangeArgs), 16};
  std::vector<std::thread> ranks;
  for (std::uint32_t r = 0; r < 2; ++r) {
    ranks.emplace_back([&, r] {
      fibers::FiberScheduler scheduler(r);
      const ExchangeArgs args{&inboxes[r], &inboxes[1 - r], r, &wrong[r]};
      scheduler.run(host_kernel, 1, kThreads, &args);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  fibers::set_host_seed(0);
  return wrong[0] != 0 || wrong[1] != 0;
}

template <class T, void (*kernel)(T&, const ExchangeArgs&)>
int runs_until_wrong(int most_runs) {
  std::mt19937_64 random(std::random_device{}());
  for (int run = 1; run <= most_runs; ++run) {
    const std::uint64_t seed = random() | 1;
    if (goes_wrong<T, kernel>(seed)) {
      std::printf("wrong in run %d, LAMPPOST_HOST_SEED=%llu\n", run,
                  static_cast<unsigned long long>(seed));
      return run;
    }
  }
  return 0;
}

using Torn = HostTarget<32, device::TornMemory>;
using Delayed = HostTarget<64, device::DelayedMemory>;

TEST(PlantedFault, TornFindsAWordThatIsNotChecked) {
  EXPECT_GT((runs_until_wrong<Torn, lamport_exchange<Torn, Bug::kOneWordOfFour>>(200)), 0);
  EXPECT_EQ((runs_until_wrong<Torn, lamport_exchange<Torn, Bug::kNone>>(10)), 0);
}

TEST(PlantedFault, TwoGenerationsAreFoundTooFew) {
  EXPECT_GT((runs_until_wrong<Torn, lamport_exchange<Torn, Bug::kTwoGenerations>>(400)), 0);
  EXPECT_EQ((runs_until_wrong<Delayed, lamport_exchange<Delayed, Bug::kNone>>(10)), 0);
}

TEST(PlantedFault, DelayedFindsARelaxedFlag) {
  EXPECT_GT((runs_until_wrong<Delayed, flag_exchange<Delayed, Bug::kRelaxedFlag>>(500)), 0);
  EXPECT_EQ((runs_until_wrong<Delayed, flag_exchange<Delayed, Bug::kNone>>(50)), 0);
}

}  // namespace
}  // namespace lamppost::test
