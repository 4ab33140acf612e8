// The host target itself: barriers, lane operations with 32 and 64 lanes, the summation tree, and
// that divergence and stack overflow stop the process with a message. Test kernels are launched by
// the scheduler directly.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

#include "fibers/scheduler.hpp"
#include "lamppost/device/generic.hpp"
#include "lamppost/device/host.hpp"
#include "support/sanitizer.hpp"

namespace lamppost::test {
namespace {

using device::HostKernel;
using device::HostTarget;
using device::HostThread;

template <class T, class Args, void (*kernel)(T&, const Args&)>
void entry(HostThread& thread, const void* args) {
  T target(thread);
  kernel(target, *static_cast<const Args*>(args));
}

template <class T, class Args, void (*kernel)(T&, const Args&), class Shared = device::Pack>
HostKernel host_kernel(const char* name) {
  return {name, entry<T, Args, kernel>, nullptr, T::kLanes, sizeof(Args), sizeof(Shared)};
}

// ---- Barrier: each round reads what the neighbour wrote in the round before
// --------------------------

struct RotateArgs {
  std::uint32_t* words;  // [grid][2][block]
  std::uint32_t rounds;
};

template <class T>
void rotate(T& t, const RotateArgs& args) {
  const std::uint32_t n = t.block_threads();
  std::uint32_t* words = args.words + t.block_rank() * 2 * n;
  t.store(words + t.thread_rank(), t.thread_rank());
  for (std::uint32_t round = 0; round < args.rounds; ++round) {
    t.block_sync();
    const std::uint32_t from = (t.thread_rank() + 1) % n + round % 2 * n;
    t.store(words + t.thread_rank() + (round + 1) % 2 * n, t.load(words + from));
  }
}

template <class T>
void check_rotate() {
  fibers::FiberScheduler scheduler(1);
  const auto kernel = host_kernel<T, RotateArgs, rotate<T>>("rotate");
  for (std::uint32_t threads : {64u, 128u, 192u}) {
    for (std::uint32_t blocks : {1u, 4u}) {
      std::vector<std::uint32_t> words(2 * threads * blocks);
      scheduler.run(kernel, blocks, threads, std::array{RotateArgs{words.data(), 5}}.data());
      for (std::uint32_t b = 0; b < blocks; ++b) {
        for (std::uint32_t i = 0; i < threads; ++i) {
          ASSERT_EQ(words[b * 2 * threads + threads + i], (i + 5) % threads);
        }
      }
    }
  }
}

TEST(HostTargetBarrier, OrdersRounds) {
  check_rotate<HostTarget<32>>();
  check_rotate<HostTarget<64>>();
}

// ---- Lane operations
// -------------------------------------------------------------------------------

struct LaneArgs {
  std::uint32_t* out;
};

template <class T>
void exchange_lanes(T& t, const LaneArgs& args) {
  std::uint32_t sum = 0;
  for (std::uint32_t mask = 0; mask < static_cast<std::uint32_t>(T::kLanes); ++mask) {
    const std::uint32_t got = t.lane_xor(t.thread_rank() * 100 + mask, mask);
    const std::uint32_t warp_start = t.thread_rank() - t.lane_rank();
    const std::uint32_t expected = (warp_start + (t.lane_rank() ^ mask)) * 100 + mask;
    sum += got == expected ? 1 : 0;
  }
  t.store(args.out + t.thread_rank(), sum);
}

template <class T>
void check_lanes() {
  fibers::FiberScheduler scheduler(2);
  std::vector<std::uint32_t> out(192);
  const auto kernel = host_kernel<T, LaneArgs, exchange_lanes<T>>("exchange_lanes");
  scheduler.run(kernel, 1, 192, std::array{LaneArgs{out.data()}}.data());
  for (std::uint32_t sum : out) ASSERT_EQ(sum, static_cast<std::uint32_t>(T::kLanes));
}

TEST(HostTargetLanes, XorReachesEveryLane) {
  check_lanes<HostTarget<32>>();
  check_lanes<HostTarget<64>>();
}

// ---- The norm's tree
// ---------------------------------------------------------------------------------

struct TreeArgs {
  const float* leaves;
  std::uint32_t leaf_count;
  float* sums;  // [thread]
};

template <class T>
void tree_sum(T& t, const TreeArgs& args) {
  auto& shared = t.template shared<device::LeafGroups>();
  for (std::uint32_t first = 0, pass = 0; first < args.leaf_count;
       first += t.block_threads(), ++pass) {
    const std::uint32_t i = first + t.thread_rank();
    add_leaves(t, shared, 0, pass, i < args.leaf_count ? args.leaves[i] : 0.0f);
  }
  t.block_sync();
  args.sums[t.thread_rank()] =
      sum_of_groups(t, shared, 0, (args.leaf_count + T::kLanes - 1) / T::kLanes);
}

float scalar_tree(std::vector<float> level) {
  level.resize(std::bit_ceil(level.size()), 0.0f);
  while (level.size() > 1) {
    for (std::size_t i = 0; i < level.size() / 2; ++i) level[i] = level[2 * i] + level[2 * i + 1];
    level.resize(level.size() / 2);
  }
  return level[0];
}

template <class T>
void check_tree(std::uint32_t threads, const std::vector<float>& leaves) {
  fibers::FiberScheduler scheduler(3);
  std::vector<float> sums(threads);
  const auto kernel = host_kernel<T, TreeArgs, tree_sum<T>, device::LeafGroups>("tree_sum");
  const TreeArgs args{leaves.data(), static_cast<std::uint32_t>(leaves.size()), sums.data()};
  scheduler.run(kernel, 1, threads, &args);
  for (float sum : sums) {
    ASSERT_EQ(device::bits_of(sum), device::bits_of(scalar_tree(leaves)))
        << T::kLanes << " lanes, " << threads << " threads, " << leaves.size() << " leaves";
  }
}

TEST(NormTree, IsTheSameForEveryBlockShapeAndLaneCount) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(0.0f, 1.0f);
  for (std::size_t count : {1u, 2u, 33u, 64u, 171u, 3u, 31u, 32u, 63u, 65u, 360u, 1000u, 8192u}) {
    if (kHasSanitizer && count == 3) break;
    std::vector<float> leaves(count);
    for (float& leaf : leaves) leaf = uniform(random);
    for (std::uint32_t threads : {64u, 192u, 128u, 512u}) {
      if (kHasSanitizer && threads == 128) break;
      check_tree<HostTarget<32>>(threads, leaves);
      check_tree<HostTarget<64>>(threads, leaves);
    }
  }
}

// ---- Divergence
// --------------------------------------------------------------------------------------

struct NoArgs {
  std::uint32_t unused;
};

using Plain = HostTarget<32>;

void skip_barrier(Plain& t, const NoArgs&) {
  if (t.thread_rank() != 5) t.block_sync();
}
void skip_lane_operation(Plain& t, const NoArgs&) {
  if (t.lane_rank() != 3) t.lane_xor(1, 1);
}
void mix_lane_operation_and_barrier(Plain& t, const NoArgs&) {
  if (t.lane_rank() < 16) {
    t.lane_xor(1, 1);
  } else {
    t.block_sync();
  }
}

template <void (*kernel)(Plain&, const NoArgs&)>
void run_alone() {
  fibers::FiberScheduler scheduler(4);
  const NoArgs args{};
  scheduler.run(host_kernel<Plain, NoArgs, kernel>("diverging"), 1, 64, &args);
}

TEST(HostTargetDeathTest, DivergenceStopsWithAMessage) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(run_alone<skip_barrier>(),
               "kernel diverging, block 0, thread [0-9]+: left the kernel");
  EXPECT_DEATH(run_alone<skip_lane_operation>(), "left the kernel while other lanes wait");
  EXPECT_DEATH(run_alone<mix_lane_operation_and_barrier>(), "lane operation");
}

}  // namespace
}  // namespace lamppost::test
