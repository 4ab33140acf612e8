// The probes on every host target: what they measure can be told from the clock they measure with; a
// communicator that was only probed for latency still works; a probe whose partner does not come ends.
#include <gtest/gtest.h>

#include <array>

#include "api/internal.hpp"
#include "collectives/probe/args.hpp"
#include "lamppost/device/pack.hpp"
#include "support/collective_cases.hpp"

namespace lamppost::test {
namespace {

constexpr int kWorld = 3;
constexpr std::uint32_t kRounds = 5;

class Probes : public testing::TestWithParam<HostVariant> {};
INSTANTIATE_TEST_SUITE_P(HostTargets, Probes, testing::ValuesIn(kHostVariants),
                         [](const auto& info) { return std::string(info.param.name); });

using Results = std::array<std::array<std::uint64_t, 2>, kWorld>;

GroupOptions options_of(const HostVariant& variant) {
  GroupOptions options;
  options.variant = variant;
  return options;
}

/// Every rank makes the request; its result is results[rank].
void probe_all(RankGroup& group, ProbeRequest request, Results& results) {
  for (int rank = 0; rank < kWorld; ++rank) {
    request.result = results[static_cast<std::size_t>(rank)].data();
    ASSERT_EQ(lpInternalProbe(group[rank], &request, nullptr), LP_SUCCESS)
        << lpGetLastError(group[rank]);
  }
  group.synchronize();
  EXPECT_EQ(group.errors(), std::vector<lpResult_t>(kWorld, LP_SUCCESS));
}

ProbeRequest one_way(Probe probe, std::uint32_t first, std::uint32_t second) {
  ProbeRequest request;
  request.probe = probe;
  request.first_rank = first;
  request.second_rank = second;
  request.rounds = kRounds;
  return request;
}

TEST_P(Probes, TimestampsGrow) {
  RankGroup group(1, options_of(GetParam()));
  std::array<std::uint64_t, 3> marks{};
  for (std::uint64_t& mark : marks) {
    ProbeRequest request;
    request.probe = Probe::kTimestamp;
    request.result = &mark;
    ASSERT_EQ(lpInternalProbe(group[0], &request, nullptr), LP_SUCCESS);
  }
  group.synchronize();
  EXPECT_GT(marks[0], 0u);
  EXPECT_GT(marks[1], marks[0]);
  EXPECT_GT(marks[2], marks[1]);
}

TEST_P(Probes, MessagesGoThereAndBackBetweenAnyTwo) {
  RankGroup group(kWorld, options_of(GetParam()));
  for (Probe probe : {Probe::kOneWayWord, Probe::kOneWayBlock, Probe::kOneWayWord}) {
    Results results{};
    probe_all(group, one_way(probe, 2, 0), results);
    EXPECT_GT(results[2][0], 0u);  // the first rank's
    EXPECT_EQ(results[0][0], 0u);
    EXPECT_EQ(results[1][0], 0u);
  }
}

/// Host ranks read one clock: the other's answer lies between sending and receiving.
TEST_P(Probes, OneClockHasNoOffset) {
  RankGroup group(kWorld, options_of(GetParam()));
  Results results{};
  probe_all(group, one_way(Probe::kOneWayClock, 0, 1), results);
  const auto most = static_cast<std::int64_t>(results[0][0] / 2 + kRounds);
  EXPECT_GT(most, static_cast<std::int64_t>(kRounds));
  EXPECT_LE(std::abs(static_cast<std::int64_t>(results[0][1])), most);
}

TEST_P(Probes, ACollectiveIsRightAfterLatencyProbes) {
  RankGroup group(kWorld, options_of(GetParam()));
  Results results{};
  for (int i = 0; i < 4; ++i) probe_all(group, one_way(Probe::kOneWayBlock, 0, 2), results);
  Random random(announce_seed());
  for (std::uint64_t count : {3000u, 8u, 3000u, 5000u}) {
    PlainCase plain;
    plain.count = count;
    const auto call = make_plain_call(kWorld, plain, random);
    for (int rank = 0; rank < kWorld; ++rank) {
      ASSERT_EQ(call->enqueue(group[rank], rank, nullptr), LP_SUCCESS);
    }
    group.synchronize();
    call->expect_right();
  }
}

TEST_P(Probes, PushFillsTheNextRanksSlotsAndNoMore) {
  RankGroup group(kWorld, options_of(GetParam()));
  constexpr std::uint64_t kPacks = 1000;
  ProbeRequest request;
  request.probe = Probe::kPush;
  request.bytes = kPacks * sizeof(device::Pack);
  Results results{};
  probe_all(group, request, results);
  const device::PeerTable& peers = group.communicator(0).workspace().peers.table;
  const device::Layout layout{kWorld, GroupOptions{}.slot_bytes};
  const auto* packs = device::at<device::Pack>(peers.own(), layout.data(0));
  std::uint64_t wrong = 0;
  for (std::uint32_t i = 0; i < kPacks; ++i) {
    if (packs[i].word[0] != i || packs[i].word[3] != i) ++wrong;
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(packs[kPacks].word[0], device::kSentinel);
}

TEST_P(Probes, PushGoesRoundTheDataRegion) {
  RankGroup group(kWorld, options_of(GetParam()));
  const device::Layout layout{kWorld, GroupOptions{}.slot_bytes};
  const std::uint64_t region_packs = layout.data_bytes() / sizeof(device::Pack);
  ProbeRequest request;
  request.probe = Probe::kPush;
  request.bytes = (region_packs + 10) * sizeof(device::Pack);
  Results results{};
  probe_all(group, request, results);
  const device::PeerTable& peers = group.communicator(0).workspace().peers.table;
  const auto* packs = device::at<device::Pack>(peers.own(), layout.data(0));
  EXPECT_EQ(packs[9].word[0], region_packs + 9);
  EXPECT_EQ(packs[10].word[0], 10u);
  EXPECT_EQ(packs[region_packs - 1].word[0], region_packs - 1);
}  // the guard behind the region is looked at when the communicator is destroyed

TEST(ProbeFailure, ALonelyRankTimesOutAndNamesTheOther) {
  GroupOptions options;
  options.timeout_ms = 100;
  RankGroup group(kWorld, options);
  Results results{};
  ProbeRequest request = one_way(Probe::kOneWayBlock, 0, 1);
  request.result = results[0].data();
  ASSERT_EQ(lpInternalProbe(group[0], &request, nullptr), LP_SUCCESS);
  EXPECT_EQ(lpCommSynchronize(group[0]), LP_SUCCESS);
  EXPECT_EQ(group.errors()[0], LP_ERROR_TIMEOUT);
  lpHealth health = LP_HEALTH_INITIALIZER;
  ASSERT_EQ(lpCommGetHealth(group[0], &health), LP_SUCCESS);
  EXPECT_EQ(health.waited_for, 1);
  EXPECT_EQ(results[0][0], 0u);
}

TEST(ProbeFailure, ImpossibleRequestsAreRefused) {
  RankGroup group(2);
  std::uint64_t result[2] = {};
  const auto refused = [&](auto change) {
    ProbeRequest request = one_way(Probe::kOneWayWord, 0, 1);
    request.result = result;
    change(request);
    return lpInternalProbe(group[0], &request, nullptr) == LP_ERROR_INVALID_ARGUMENT;
  };
  EXPECT_TRUE(refused([](ProbeRequest& r) { r.second_rank = 0; }));
  EXPECT_TRUE(refused([](ProbeRequest& r) { r.second_rank = 2; }));
  EXPECT_TRUE(refused([](ProbeRequest& r) { r.rounds = 0; }));
  EXPECT_TRUE(refused([](ProbeRequest& r) { r.result = nullptr; }));
  EXPECT_TRUE(refused([](ProbeRequest& r) { r.probe = static_cast<Probe>(6); }));
  EXPECT_TRUE(refused([](ProbeRequest& r) {
    r.probe = Probe::kPush;
    r.bytes = 24;
  }));
  EXPECT_EQ(lpInternalProbe(nullptr, nullptr, nullptr), LP_ERROR_INVALID_HANDLE);
}

}  // namespace
}  // namespace lamppost::test
