// The arithmetic behind lamppost-bench's columns: which buffers a batch goes through, what the devices'
// clocks say, what the floor is, which device a rank gets; and the options that ask for them.
#include <gtest/gtest.h>

#include "tools/bench/devices.hpp"
#include "tools/bench/floor_model.hpp"
#include "tools/bench/options.hpp"
#include "tools/bench/rotation.hpp"
#include "tools/bench/survey.hpp"
#include "tools/bench/timing.hpp"

namespace lamppost::bench {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

// ---- Rotation

TEST(BenchRotation, GoesThroughTwiceTheCache) {
  const RotationPlan plan = plan_rotation(0, {4 * kMiB, 50 * kMiB, 200});
  EXPECT_EQ(plan.sets, 25);
  EXPECT_EQ(plan.cache, CacheState::kCold);
  EXPECT_EQ(plan_rotation(0, {3 * kMiB, 50 * kMiB, 200}).sets, 34);  // rounded up
}

TEST(BenchRotation, NoMoreSetsThanCallsAndWhatStaysInTheCacheIsWarm) {
  const RotationPlan plan = plan_rotation(0, {kMiB, 50 * kMiB, 20});
  EXPECT_EQ(plan.sets, 20);
  EXPECT_EQ(plan.cache, CacheState::kWarm);
  EXPECT_EQ(plan_rotation(0, {kMiB, 20 * kMiB, 20}).cache, CacheState::kWarm);
  EXPECT_EQ(plan_rotation(0, {kMiB, 20 * kMiB - 1, 20}).cache, CacheState::kCold);
}

TEST(BenchRotation, OneSetOfAMessageBeyondTheCacheIsCold) {
  const RotationPlan plan = plan_rotation(0, {128 * kMiB, 50 * kMiB, 20});
  EXPECT_EQ(plan.sets, 1);
  EXPECT_EQ(plan.cache, CacheState::kCold);
}

TEST(BenchRotation, MemoryIsALimitForWhatIsChosenOnly) {
  const RotationFacts facts{kMostRotationBytes / 4, kMostRotationBytes, 20};
  EXPECT_EQ(plan_rotation(0, facts).sets, 4);
  EXPECT_EQ(plan_rotation(7, facts).sets, 7);
}

TEST(BenchRotation, AnUnknownCacheAsksForNoRotation) {
  EXPECT_EQ(plan_rotation(0, {kMiB, 0, 20}).sets, 1);
  EXPECT_EQ(plan_rotation(5, {kMiB, 0, 20}).sets, 5);
  EXPECT_EQ(plan_rotation(5, {kMiB, 0, 20}).cache, CacheState::kUnknown);
  EXPECT_EQ(plan_rotation(0, {0, kMiB, 20}).sets, 1);  // nothing to rotate
}

TEST(BenchRotation, AskedForIsTakenAsFarAsItIsUsed) {
  EXPECT_EQ(plan_rotation(1, {kMiB, 50 * kMiB, 20}).sets, 1);
  EXPECT_EQ(plan_rotation(30, {kMiB, 50 * kMiB, 20}).sets, 20);
}

// ---- Times

TEST(BenchDevice, FromTheLatestStartToTheLatestEnd) {
  // Two ranks, two batches of ten calls.
  const std::vector<DeviceSpan> spans = {
      {0, 50'000}, {100'000, 190'000},       // rank 0
      {3'000, 53'000}, {100'000, 170'000}};  // rank 1
  const DeviceTimes times = summarise_device(spans, 2, 10);
  EXPECT_TRUE(times.is_measured);
  EXPECT_EQ(times.samples_us, (std::vector<double>{5, 9}));
  EXPECT_DOUBLE_EQ(times.p50_us, 5);
  EXPECT_DOUBLE_EQ(times.p99_us, 9);
  EXPECT_DOUBLE_EQ(times.skew_us, 0);  // of {3, 0}, the smaller: nearest rank
  EXPECT_DOUBLE_EQ(summarise_device({{0, 9}, {7'000, 8'000}}, 2, 1).skew_us, 7);
}

TEST(BenchTimes, HostIsTheEnqueueingAloneOnTheSlowestRank) {
  // One batch of four calls: 8 us and 20 us to enqueue, 100 us to run.
  const TimeStats stats = summarise({{0, 8'000, 100'000}, {1'000, 21'000, 100'000}}, 2, 4);
  EXPECT_DOUBLE_EQ(stats.host_us, 5);
  EXPECT_DOUBLE_EQ(stats.p50_us, 25);
}

// ---- Floor

Floor two_gpus() {
  Floor floor;
  floor.is_measured = true;
  floor.word_us = 0.75;
  floor.block_us = 0.9;
  floor.graph_node_us = 0.5;
  floor.eager_launch_us = 2;
  floor.links = {{kMiB, 200}, {8 * kMiB, 400}};
  return floor;
}

TEST(BenchFloor, IsLaunchAndMessageAndBytes) {
  EXPECT_DOUBLE_EQ(floor_us(two_gpus(), {Mode::kGraph, 2, 0}), 1.25);
  EXPECT_DOUBLE_EQ(floor_us(two_gpus(), {Mode::kEager, 2, 0}), 2.75);
  EXPECT_DOUBLE_EQ(floor_us(two_gpus(), {Mode::kGraph, 2, 2'000'000}), 1.25 + 10);
  EXPECT_DOUBLE_EQ(floor_us(two_gpus(), {Mode::kGraph, 4, 2'000'000}), 1.25 + 10);  // a link each
}

TEST(BenchFloor, OneRankPushesNothingAndWaitsForNobody) {
  EXPECT_DOUBLE_EQ(floor_us(two_gpus(), {Mode::kGraph, 1, 2'000'000}), 0.5);
}

TEST(BenchFloor, TheRateIsThatOfTheNextSmallerSize) {
  EXPECT_DOUBLE_EQ(link_gbps(two_gpus(), 0), 200);
  EXPECT_DOUBLE_EQ(link_gbps(two_gpus(), 8 * kMiB - 1), 200);
  EXPECT_DOUBLE_EQ(link_gbps(two_gpus(), 8 * kMiB), 400);
  EXPECT_DOUBLE_EQ(link_gbps(Floor{}, kMiB), 0);
}

TEST(BenchFloor, NothingIsMadeUp) {
  Floor unmeasured = two_gpus();
  unmeasured.is_measured = false;
  EXPECT_EQ(floor_us(unmeasured, {Mode::kGraph, 2, kMiB}), 0);
  Floor no_rate = two_gpus();
  no_rate.links = {{kMiB, 0}};
  EXPECT_DOUBLE_EQ(floor_us(no_rate, {Mode::kGraph, 2, kMiB}), 1.25);
}

TEST(BenchFloor, LaunchAndLatencyDoNotCountInARate) {
  // 5 us of launch, and 100 GB/s.
  EXPECT_DOUBLE_EQ(marginal_gbps({1'000'000, 15'000}, {4'000'000, 45'000}), 100);
  EXPECT_EQ(marginal_gbps({1'000'000, 15'000}, {4'000'000, 15'000}), 0);
}

// ---- Devices and options

TEST(BenchDevices, OneARankOrByTurns) {
  EXPECT_EQ(device_of(3, 0, Sharing::kExclusive), LP_DEFAULT);
  EXPECT_EQ(device_of(3, 0, Sharing::kShared), LP_DEFAULT);
  EXPECT_EQ(device_of(3, 2, Sharing::kExclusive), 3);  // creation says that there is none
  EXPECT_EQ(device_of(3, 2, Sharing::kShared), 1);
  EXPECT_EQ(device_of(1, 8, Sharing::kShared), 1);
}

ParsedOptions parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "lamppost-bench");
  return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

TEST(BenchDevices, ConfigurationSaysWhatWasAskedFor) {
  const lpConfig plain = config_of(*parse({}).options, 2);
  EXPECT_EQ(plain.device, 2);
  EXPECT_EQ(plain.allow_shared_device, 0);
  EXPECT_EQ(plain.early_launch, 0);
  const lpConfig asked = config_of(*parse({"--share-devices", "--early-launch"}).options, 0);
  EXPECT_EQ(asked.allow_shared_device, 1);
  EXPECT_EQ(asked.early_launch, 1);
}

TEST(BenchOptions, WarmUpLastsAWhileOnGpusAndTwiceWhereTheyAreIdle) {
  const Options plain = *parse({}).options;
  EXPECT_EQ(warmup_ms_of(plain, LP_BACKEND_HOST, true), 0);
  EXPECT_EQ(warmup_ms_of(plain, LP_BACKEND_CUDA, true), 200);
  EXPECT_EQ(warmup_ms_of(plain, LP_BACKEND_CUDA, false), 100);
  const Options asked = *parse({"--warmup-ms", "7"}).options;
  EXPECT_EQ(warmup_ms_of(asked, LP_BACKEND_HOST, false), 7);
  EXPECT_EQ(warmup_ms_of(*parse({"--warmup-ms", "0"}).options, LP_BACKEND_CUDA, true), 0);
}

TEST(BenchOptions, Rotation) {
  EXPECT_EQ(parse({}).options->rotate_sets, 0);
  EXPECT_EQ(parse({"--rotate", "auto"}).options->rotate_sets, 0);
  EXPECT_EQ(parse({"--rotate", "off"}).options->rotate_sets, 1);
  EXPECT_EQ(parse({"--rotate", "12"}).options->rotate_sets, 12);
  for (const char* bad : {"0", "-1", "many", "2M"}) {
    const ParsedOptions parsed = parse({"--rotate", bad});
    EXPECT_FALSE(parsed.options) << bad;
    EXPECT_NE(parsed.text.find("--rotate"), std::string::npos) << parsed.text;
  }
}

TEST(BenchOptions, WhatDoesNotGoTogetherIsRefusedWithTheReason) {
  const std::vector<std::pair<std::vector<const char*>, const char*>> cases = {
      {{"--compare", "nccl", "--backend", "host"}, "host backend"},
      {{"--compare", "nccl", "--share-devices"}, "share a device"},
      {{"--compare", "nccl", "--op", "all_reduce_rmsnorm"}, "--op all_reduce"},
      {{"--compare", "mpi"}, "none of nccl"},
      {{"--op", "host_cost", "--graph"}, "no --graph"},
      {{"--op", "init", "--floor"}, "no --floor"},
      {{"--op", "host_cost", "--tokens", "1"}, "all_reduce_rmsnorm"},
  };
  for (const auto& [arguments, needle] : cases) {
    const ParsedOptions parsed = parse(arguments);
    EXPECT_FALSE(parsed.options) << needle;
    EXPECT_EQ(parsed.exit_code, kBadArguments);
    EXPECT_NE(parsed.text.find(needle), std::string::npos) << parsed.text;
  }
  EXPECT_TRUE(parse({"--compare", "nccl"}).options);
}

TEST(BenchOptions, CostsHaveNothingToCheckAndCreationHasOneRow) {
  EXPECT_EQ(parse({"--op", "host_cost"}).options->check, Check::kOff);
  EXPECT_EQ(parse({"--op", "all_reduce"}).options->check, Check::kOn);
  EXPECT_EQ(plan_rows(*parse({"--op", "init"}).options).size(), 1u);
}

TEST(BenchProbes, OnlyWhereSomethingComesOfIt) {
  EXPECT_FALSE(needs_probes(*parse({}).options, 0));  // host ranks have one clock
  EXPECT_TRUE(needs_probes(*parse({}).options, 2));
  EXPECT_TRUE(needs_probes(*parse({"--floor"}).options, 0));
  EXPECT_FALSE(needs_probes(*parse({"--op", "init"}).options, 2));
}

}  // namespace
}  // namespace lamppost::bench
