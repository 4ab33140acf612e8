// What only a GPU can show: that a failed call leaves the device usable, that ranks by the dozen run on
// one device, early launches, streams that are gone, memory that the device cannot reach.
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "support/collective_cases.hpp"
#include "support/test_stream.hpp"

namespace lamppost::test {
namespace {

using Clock = std::chrono::steady_clock;

lpHealth health_of(lpComm_t comm) {
  lpHealth health = LP_HEALTH_INITIALIZER;
  EXPECT_EQ(lpCommGetHealth(comm, &health), LP_SUCCESS);
  return health;
}

TEST(Device, WorldsUpToSixteenOnOneDevice) {
  Random random(announce_seed());
  for (int world : {2, 3, 8, 16}) {
    SCOPED_TRACE(testing::Message() << "world " << world);
    RankGroup group(world);
    for (std::uint64_t tokens : {1, 8, 33}) {
      FusedCase c;
      c.tokens = tokens;
      c.hidden = 7168;
      run_and_check(group, *make_fused_call(world, c, random));
    }
    for (std::uint64_t count : {0, 1, 100'000, 1'000'003}) {
      run_and_check(group, *make_plain_call(world, {count, LP_BFLOAT16, false, 0}, random));
    }
  }
}

TEST(Device, AfterATimeoutTheDeviceGoesOn) {
  Random random(announce_seed());
  GroupOptions options;
  options.timeout_ms = 1000;
  RankGroup healthy(2);
  auto kept = make_plain_call(2, {5000, LP_FLOAT32, false, 0}, random);
  const std::vector<TestStream> streams = make_streams(healthy);
  std::vector<void*> graphs;
  for (int r = 0; r < 2; ++r) {
    streams[static_cast<std::size_t>(r)].begin_capture();
    ASSERT_EQ(kept->enqueue(healthy[r], r, streams[static_cast<std::size_t>(r)].handle()), LP_SUCCESS);
    graphs.push_back(streams[static_cast<std::size_t>(r)].end_capture());
  }
  FusedCase c;
  c.tokens = 8;
  c.hidden = 7168;
  {
    RankGroup group(2, options);
    auto call = make_fused_call(2, c, random);
    // A graph of the communicator that will fail.
    const TestStream stream(group.workbench(0));
    stream.begin_capture();
    ASSERT_EQ(call->enqueue(group[0], 0, stream.handle()), LP_SUCCESS);
    void* graph = stream.end_capture();
    stream.launch(graph);
    ASSERT_EQ(call->enqueue(group[1], 1, group.stream(1)), LP_SUCCESS);
    stream.synchronize();
    group.synchronize();
    call->expect_right();

    auto lonely = make_fused_call(2, c, random);
    ASSERT_EQ(lonely->enqueue(group[0], 0, group.stream(0)), LP_SUCCESS);
    // While rank 0 waits, other work of the same device runs and ends.
    const auto start = Clock::now();
    for (std::size_t r = 0; r < 2; ++r) streams[r].launch(graphs[r]);
    for (const TestStream& other : streams) other.synchronize();
    EXPECT_LT(Clock::now() - start, std::chrono::milliseconds(500));
    kept->expect_right();
    EXPECT_EQ(group.errors()[0], LP_SUCCESS);  // still waiting

    group.synchronize();
    EXPECT_EQ(group.errors()[0], LP_ERROR_TIMEOUT);
    const lpHealth health = health_of(group[0]);
    EXPECT_EQ(health.waited_for, 1);
    EXPECT_GE(health.waited_ms, 900.0);
    EXPECT_LE(health.waited_ms, 1100.0);
    lonely->expect_poison(0);
    // The next driver calls succeed, and the old graph ends at once, with poison.
    const Result<void*> memory = group.workbench(0).allocate(1 << 20);
    ASSERT_TRUE(memory.ok()) << memory.status().message();
    group.workbench(0).free(memory.value());
    const auto replayed = Clock::now();
    stream.launch(graph);
    stream.synchronize();
    EXPECT_LT(Clock::now() - replayed, std::chrono::milliseconds(500));
    call->expect_poison(0);
    stream.destroy(graph);
  }
  // A new communicator works; so does a graph of another one that was captured before the failure.
  RankGroup again(2, options);
  run_and_check(again, *make_fused_call(2, c, random));
  kept->refill(random);
  for (std::size_t r = 0; r < 2; ++r) streams[r].launch(graphs[r]);
  for (const TestStream& stream : streams) stream.synchronize();
  kept->expect_right();
  for (std::size_t r = 0; r < 2; ++r) streams[r].destroy(graphs[r]);
}

TEST(Device, OneRankOnTheDefaultStream) {
  Random random(announce_seed());
  RankGroup alone(1);
  auto call = make_plain_call(1, {1000, LP_BFLOAT16, false, 0}, random);
  ASSERT_EQ(call->enqueue(alone[0], 0, nullptr), LP_SUCCESS) << lpGetLastError(alone[0]);
  ASSERT_EQ(lpCommSynchronize(alone[0]), LP_SUCCESS);
  call->expect_right();
}

TEST(Device, AStreamThatIsGoneDoesNotStopTheNextCall) {
  Random random(announce_seed());
  RankGroup group(2);
  for (int turn = 0; turn < 5; ++turn) {
    auto call = make_plain_call(2, {1000, LP_BFLOAT16, false, 0}, random);
    const std::vector<TestStream> streams = make_streams(group);
    for (int r = 0; r < 2; ++r) {
      ASSERT_EQ(call->enqueue(group[r], r, streams[static_cast<std::size_t>(r)].handle()), LP_SUCCESS)
          << lpGetLastError(group[r]);
    }
    for (const TestStream& stream : streams) stream.synchronize();
    call->expect_right();
  }
  // And the group is destroyed with its last stream gone.
}

TEST(Device, MemoryThatTheDeviceCannotReachIsRefused) {
  RankGroup alone(1);
  std::vector<float> ordinary(1024);
  EXPECT_EQ(lpAllReduce(ordinary.data(), ordinary.data(), 1024, LP_FLOAT32, LP_SUM, alone[0],
                        alone.stream(0)),
            LP_ERROR_INVALID_ARGUMENT);
  const std::string text = lpGetLastError(alone[0]);
  EXPECT_NE(text.find("in is"), std::string::npos) << text;
  EXPECT_EQ(lpStreamCreate(alone[0], nullptr), LP_ERROR_INVALID_ARGUMENT);
  lpStream_t stream = nullptr;
  EXPECT_EQ(lpStreamCreate(alone[0], &stream), LP_ERROR_NOT_SUPPORTED);
}

TEST(Device, EarlyLaunchesKeepTheirOrder) {
  Random random(announce_seed());
  GroupOptions options;
  options.early_launch = true;
  RankGroup group(3, options);
  const std::vector<TestStream> streams = make_streams(group);
  for (int turn = 0; turn < 4; ++turn) {
    std::vector<std::unique_ptr<TestCall>> calls;
    for (int i = 0; i < 40; ++i) {
      FusedCase c;
      c.tokens = random() % 12;
      c.hidden = 2880;
      c.type = random_type(random);
      calls.push_back(make_fused_call(3, c, random));
    }
    std::vector<void*> graphs;
    for (int r = 0; r < 3; ++r) {
      const TestStream& stream = streams[static_cast<std::size_t>(r)];
      if (turn % 2 == 1) stream.begin_capture();
      for (auto& call : calls) {
        ASSERT_EQ(call->enqueue(group[r], r, stream.handle()), LP_SUCCESS) << lpGetLastError(group[r]);
      }
      graphs.push_back(turn % 2 == 1 ? stream.end_capture() : nullptr);
    }
    for (std::size_t r = 0; r < 3; ++r) {
      if (graphs[r] != nullptr) streams[r].launch(graphs[r]);
    }
    for (const TestStream& stream : streams) stream.synchronize();
    for (auto& call : calls) call->expect_right();
    for (std::size_t r = 0; r < 3; ++r) {
      if (graphs[r] != nullptr) streams[r].destroy(graphs[r]);
    }
  }
}

}  // namespace
}  // namespace lamppost::test
