// The collectives against the bit-exact reference, on every host target: shapes, types, worlds,
// alignments, in place, optional outputs. All ranks in one process, so that ThreadSanitizer sees
// them all.
#include <gtest/gtest.h>

#include <vector>

#include "support/collective_cases.hpp"

namespace lamppost::test {
namespace {

std::vector<int> worlds() { return kHasSanitizer ? std::vector{1, 3} : std::vector{1, 2, 3, 8}; }

class AllReduce : public testing::TestWithParam<HostVariant> {};

INSTANTIATE_TEST_SUITE_P(HostTargets, AllReduce, testing::ValuesIn(kHostVariants),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(AllReduce, PlainCounts) {
  Random random(announce_seed());
  for (int world : worlds()) {
    GroupOptions options;
    options.variant = GetParam();
    RankGroup group(world, options);
    for (std::uint64_t count : {0, 1, 7, 8, 9, 64, 1000, 4097}) {
      SCOPED_TRACE(testing::Message() << "world " << world << " count " << count);
      const PlainCase c{count, random_type(random), random() % 2 == 0,
                        static_cast<std::uint32_t>(random() % 3)};
      run_and_check(group, *make_plain_call(world, c, random));
    }
  }
}

TEST_P(AllReduce, FusedShapes) {
  Random random(announce_seed());
  for (int world : worlds()) {
    GroupOptions options;
    options.variant = GetParam();
    RankGroup group(world, options);
    for (std::uint64_t hidden : {1, 2, 7, 8, 9, 64, 1368, 2880}) {
      if (kHasSanitizer && hidden > 64) continue;
      for (std::uint64_t tokens : {1, 5}) {
        FusedCase c;
        c.tokens = tokens;
        c.hidden = hidden;
        c.type = random_type(random);
        c.weight_is_fp32 = random() % 2 == 0;
        c.has_residual = random() % 4 != 0;
        c.wants_residual_out = random() % 2 == 0;
        c.wants_all_reduce_out = random() % 2 == 0;
        c.in_place = random() % 2 == 0;
        c.offset_elements = static_cast<std::uint32_t>(random() % 3);
        c.weight_bias = random() % 2 == 0 ? 1.0f : 0.0f;
        SCOPED_TRACE(testing::Message() << "world " << world << ": " << describe(c));
        run_and_check(group, *make_fused_call(world, c, random));
      }
    }
  }
}

TEST_P(AllReduce, LargestHidden) {
  if (kHasSanitizer) GTEST_SKIP() << "the sizes are for the plain build";
  Random random(announce_seed());
  GroupOptions options;
  options.variant = GetParam();
  RankGroup group(2, options);
  for (lpDataType_t type : {LP_BFLOAT16, LP_FLOAT32}) {
    FusedCase c;
    c.tokens = 1;
    c.hidden = LP_MAX_HIDDEN;
    c.type = type;
    run_and_check(group, *make_fused_call(2, c, random));
  }
}

TEST_P(AllReduce, LargerThanASlotRunsAsSeveralLaunches) {
  if (kHasSanitizer) GTEST_SKIP() << "the sizes are for the plain build";
  Random random(announce_seed());
  GroupOptions options;
  options.variant = GetParam();
  RankGroup group(2, options);
  const std::uint64_t slot_elements = options.slot_bytes / 4;
  for (std::uint64_t count : {slot_elements - 1, slot_elements, slot_elements + 1}) {
    run_and_check(group, *make_plain_call(2, {count, LP_FLOAT32, false, 0}, random));
  }
  FusedCase c;
  c.tokens = 50;
  c.hidden = 2880;  // 45 rows a launch
  c.in_place = true;
  run_and_check(group, *make_fused_call(2, c, random));
}

TEST(AllReduceWorlds, EveryWorldToday) {
  Random random(announce_seed());
  for (int world = 1; world <= LP_MAX_WORLD_TODAY; world += kHasSanitizer ? 8 : 1) {
    SCOPED_TRACE(testing::Message() << "world " << world);
    GroupOptions options;
    options.max_block_threads = 64;  // keeps 16 ranks' fibers within a sanitizer's limits
    options.max_blocks = 2;
    RankGroup group(world, options);
    run_and_check(group, *make_plain_call(world, {333, LP_FLOAT16, true, 1}, random));
    FusedCase c;
    c.tokens = 3;
    c.hidden = 200;
    run_and_check(group, *make_fused_call(world, c, random));
  }
}

}  // namespace
}  // namespace lamppost::test
