// What every bootstrap promises, run over threads and over sockets (processes). The sockets' own
// promises are in socket_bootstrap_test.cc; MPI's in tests/multi/mpi_bootstrap_test.cc.
#include "bootstrap/bootstrap.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/bootstrap_world.hpp"
#include "support/sleep.hpp"

namespace lamppost::test {
namespace {

constexpr std::int64_t kShortMs = 500;
// From the interface: an error comes at most this long after the deadline.
constexpr std::int64_t kSlackMs = 500;
// "At once", on a loaded machine under a sanitizer; far below the 30 s of the deadline.
constexpr std::int64_t kQuickMs = 3'000;

class BootstrapTest : public ::testing::TestWithParam<BootstrapKind> {};

INSTANTIATE_TEST_SUITE_P(All, BootstrapTest,
                         ::testing::Values(BootstrapKind::kThreads, BootstrapKind::kSockets),
                         [](const auto& kind) { return kind_name(kind.param); });

TEST_P(BootstrapTest, GathersInRankOrder) {
  for (int rank_count : {1, 2, 3, 8, 33}) {
    SCOPED_TRACE(rank_count);
    BootstrapWorld world(GetParam(), rank_count);
    ASSERT_TRUE(world.run([](Rank& rank) { return rank.gather_numbers(7); }));
    EXPECT_EQ(world.check_all(LP_SUCCESS, {}), "");
  }
}

TEST_P(BootstrapTest, ZeroBytesIsABarrier) {
  BootstrapWorld world(GetParam(), 3);
  ASSERT_TRUE(world.run([](Rank& rank) {
    // Rank 1 comes late; nobody may be through before it.
    if (rank.rank() == 1) sleep_ms(200);
    Status status = rank.timed([&] { return rank.bootstrap().barrier("late"); });
    return status.ok() ? rank.bootstrap().barrier("again") : status;
  }));
  EXPECT_EQ(world.check_all(LP_SUCCESS, {}), "");
  EXPECT_GE(world.report(0).elapsed_ms + 50, 150);
}

TEST_P(BootstrapTest, BackToBackGathersDoNotMix) {
  BootstrapWorld world(GetParam(), 5);
  ASSERT_TRUE(world.run([](Rank& rank) {
    for (std::uint64_t step = 0; step < 200; ++step) {
      Status status = rank.gather_numbers(step);
      if (!status.ok()) return status;
      if (step % 50 == static_cast<std::uint64_t>(rank.rank())) sleep_ms(2);
    }
    return Status();
  }));
  EXPECT_EQ(world.check_all(LP_SUCCESS, {}), "");
}

TEST_P(BootstrapTest, LargePayload) {
  constexpr std::size_t kBytes = 3 << 20;  // far above what a socket buffers
  BootstrapWorld world(GetParam(), 4);
  ASSERT_TRUE(world.run([](Rank& rank) {
    const std::vector<char> mine(kBytes, static_cast<char>('a' + rank.rank()));
    std::vector<char> all(kBytes * 4);
    std::vector<char> expected;
    for (char name : {'a', 'b', 'c', 'd'}) expected.insert(expected.end(), kBytes, name);
    for (int round = 0; round < 2; ++round) {
      Status status = rank.bootstrap().all_gather(mine.data(), all.data(), kBytes, "large");
      if (!status.ok()) return status;
      if (all != expected) {
        const auto at = std::mismatch(all.begin(), all.end(), expected.begin()).first - all.begin();
        return Status(LP_ERROR_INTERNAL, fmt::format("byte {} is wrong", at));
      }
    }
    return Status();
  }));
  EXPECT_EQ(world.check_all(LP_SUCCESS, {}), "");
}

TEST_P(BootstrapTest, MissingRankTimesOutEverywhere) {
  for (int missing : {0, 1, 3}) {
    SCOPED_TRACE(missing);
    BootstrapWorld world(GetParam(), 4);
    ASSERT_TRUE(world.run([missing](Rank& rank) {
      Status status = rank.gather_numbers(1);
      if (!status.ok()) return status;
      rank.bootstrap().set_timeout_ms(kShortMs);
      if (rank.rank() == missing) rank.wait_for_others();
      // The late rank, too, hears at once what happened.
      return rank.timed([&] { return rank.gather_numbers(2, "second"); });
    }));
    EXPECT_EQ(world.check_all(LP_ERROR_TIMEOUT, {fmt::format("rank {} did not come", missing),
                                                 "'second'", "within 0.5 s"}),
              "");
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == missing) continue;
      EXPECT_GE(world.report(rank).elapsed_ms, kShortMs - 150);
    }
    EXPECT_LE(world.slowest_ms(), kShortMs + kSlackMs);
    EXPECT_LE(world.report(missing).elapsed_ms, kShortMs / 2);
  }
}

TEST_P(BootstrapTest, RanksThatNeverCameAreAllNamed) {
  BootstrapWorld world(GetParam(), 4);
  world.set_timeout_ms(kShortMs);
  world.set_absent({1, 3});
  ASSERT_TRUE(
      world.run([](Rank& rank) { return rank.timed([&] { return rank.gather_numbers(1); }); }));
  EXPECT_EQ(world.check_all(LP_ERROR_TIMEOUT, {"ranks 1, 3 did not come"}, {1, 3}), "");
  EXPECT_LE(world.slowest_ms(), kShortMs + kSlackMs);
}

TEST_P(BootstrapTest, EarliestDeadlineCounts) {
  BootstrapWorld world(GetParam(), 4);
  ASSERT_TRUE(world.run([](Rank& rank) {
    Status status = rank.gather_numbers(1);
    if (!status.ok()) return status;
    if (rank.rank() == 2) rank.wait_for_others();
    if (rank.rank() == 3) rank.bootstrap().set_timeout_ms(kShortMs);
    return rank.timed([&] { return rank.gather_numbers(2); });
  }));
  EXPECT_EQ(world.check_all(LP_ERROR_TIMEOUT, {"rank 2 did not come within 0.5 s"}), "");
  EXPECT_LE(world.slowest_ms(), kShortMs + kSlackMs);
}

TEST_P(BootstrapTest, DeadRankIsNamedAtOnce) {
  for (int victim : {0, 1, 3}) {
    for (int death_ms : {0, 100}) {
      SCOPED_TRACE(fmt::format("victim {} after {} ms", victim, death_ms));
      BootstrapWorld world(GetParam(), 4);
      ASSERT_TRUE(world.run([=](Rank& rank) {
        Status status = rank.gather_numbers(1);
        if (!status.ok()) return status;
        if (rank.rank() == victim) {
          sleep_ms(death_ms);
          return rank.die();
        }
        if (death_ms == 0) sleep_ms(50);  // the others come when it is dead already
        return rank.timed([&] { return rank.gather_numbers(2, "second"); });
      }));
      const std::string words = fmt::format("'second': rank {} is gone", victim);
      EXPECT_EQ(world.check_all(LP_ERROR_PEER_LOST, {words}, {victim}), "");
      EXPECT_LE(world.slowest_ms({victim}), kQuickMs);
    }
  }
}

TEST_P(BootstrapTest, RankThatLeavesAfterTheLastGatherSpoilsNothing) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    BootstrapWorld world(GetParam(), 3);
    ASSERT_TRUE(world.run([](Rank& rank) { return rank.gather_numbers(1); }));
    EXPECT_EQ(world.check_all(LP_SUCCESS, {}), "");
  }
}

TEST_P(BootstrapTest, FailureStays) {
  BootstrapWorld world(GetParam(), 3);
  ASSERT_TRUE(world.run([](Rank& rank) {
    Status status = rank.gather_numbers(1);
    if (!status.ok()) return status;
    if (rank.rank() == 1) return rank.die();
    status = rank.gather_numbers(2);
    Status again = rank.timed([&] { return rank.gather_numbers(3); });
    return again.message() == status.message() ? again : Status(LP_ERROR_INTERNAL, "changed");
  }));
  EXPECT_EQ(world.check_all(LP_ERROR_PEER_LOST, {"rank 1"}, {1}), "");
  EXPECT_LE(world.slowest_ms({1}), 100);
}

TEST_P(BootstrapTest, DifferentBytesOrPhaseAreNamed) {
  for (bool other_bytes : {true, false}) {
    for (int odd : {0, 2}) {
      SCOPED_TRACE(fmt::format("{} of rank {}", other_bytes ? "bytes" : "phase", odd));
      BootstrapWorld world(GetParam(), 3);
      ASSERT_TRUE(world.run([=](Rank& rank) {
        const bool mine_is_odd = rank.rank() == odd;
        std::vector<char> mine(16), all(48);
        const std::size_t bytes = other_bytes && mine_is_odd ? 16 : 8;
        const char* phase = !other_bytes && mine_is_odd ? "handles" : "sizes";
        return rank.timed(
            [&] { return rank.bootstrap().all_gather(mine.data(), all.data(), bytes, phase); });
      }));
      const std::string odd_call =
          fmt::format("rank {} gathers {} bytes in step '{}'", odd, other_bytes ? 16 : 8,
                      other_bytes ? "sizes" : "handles");
      EXPECT_EQ(world.check_all(LP_ERROR_BOOTSTRAP, {odd_call, "gathers 8 bytes in step 'sizes'"}),
                "");
      EXPECT_LE(world.slowest_ms(), kQuickMs);
    }
  }
}

class VoteTest : public BootstrapTest {};

INSTANTIATE_TEST_SUITE_P(All, VoteTest,
                         ::testing::Values(BootstrapKind::kThreads, BootstrapKind::kSockets),
                         [](const auto& kind) { return kind_name(kind.param); });

TEST_P(VoteTest, EachRankFailingGivesOneVerdict) {
  for (int failing = 0; failing < 4; ++failing) {
    SCOPED_TRACE(failing);
    BootstrapWorld world(GetParam(), 4);
    ASSERT_TRUE(world.run([failing](Rank& rank) {
      Status mine;
      if (rank.rank() == failing) mine = Status(LP_ERROR_OUT_OF_MEMORY, "no room");
      Status verdict = vote(rank.bootstrap(), mine, "map peer memory");
      // The bootstrap itself is as good as before: fallbacks go on with it.
      Status after = rank.gather_numbers(1);
      return after.ok() ? verdict : after;
    }));
    const std::string text =
        fmt::format("rank {} failed at step 'map peer memory': no room", failing);
    EXPECT_EQ(world.check_all(LP_ERROR_OUT_OF_MEMORY, {text}), "");
    EXPECT_EQ(world.report(0).text, text);
  }
}

TEST_P(VoteTest, AllWellIsOk) {
  BootstrapWorld world(GetParam(), 4);
  ASSERT_TRUE(world.run([](Rank& rank) { return vote(rank.bootstrap(), Status(), "export"); }));
  EXPECT_EQ(world.check_all(LP_SUCCESS, {}), "");
}

TEST_P(VoteTest, LowestFailingRankWins) {
  BootstrapWorld world(GetParam(), 4);
  ASSERT_TRUE(world.run([](Rank& rank) {
    Status mine;
    if (rank.rank() == 1) mine = Status(LP_ERROR_DRIVER, std::string(1000, 'x'));
    if (rank.rank() == 3) mine = Status(LP_ERROR_SYSTEM, "later");
    return vote(rank.bootstrap(), mine, "import");
  }));
  EXPECT_EQ(world.check_all(LP_ERROR_DRIVER, {"rank 1 failed at step 'import': xxx"}), "");
}

TEST_P(VoteTest, LostPeerKeepsContextAndOwnFailure) {
  BootstrapWorld world(GetParam(), 3);
  ASSERT_TRUE(world.run([](Rank& rank) {
    Status status = rank.gather_numbers(1);
    if (!status.ok()) return status;
    if (rank.rank() == 2) return rank.die();
    return vote(rank.bootstrap(), Status(LP_ERROR_DRIVER, "no handle"), "export");
  }));
  EXPECT_EQ(world.check_all(LP_ERROR_PEER_LOST,
                            {"vote on 'export'", "this rank had failed: no handle", "rank 2"}, {2}),
            "");
}

}  // namespace
}  // namespace lamppost::test
