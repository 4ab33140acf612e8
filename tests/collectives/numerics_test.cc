// The numerics contract: every pattern of the 16-bit types, random fp32, equality of code paths.
#include "support/collective_cases.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace lamppost::test {
namespace {

Bits every_pattern() {
  Bits bits(65536);
  for (std::uint32_t i = 0; i < bits.size(); ++i) bits[i] = i;
  return bits;
}

/// 1e6 random words, and every class of fp32: zeros, subnormals, Inf, NaN.
Bits fp32_patterns(Random& random) {
  Bits bits(1'000'000);
  for (std::uint32_t& word : bits) word = static_cast<std::uint32_t>(random());
  for (std::uint32_t sign : {0u, 0x80000000u}) {
    for (std::uint32_t i = 0; i < 32; ++i) bits.push_back(sign | 1u << i % 31);
    for (std::uint32_t word : {0u, 1u, 0x7fffffu, 0x800000u, 0x7f7fffffu, 0x7f800000u, 0x7f800001u,
                               0x7fc00000u, 0x7fffffffu}) {
      bits.push_back(sign | word);
    }
  }
  return bits;
}

/// What the contract says of one value that goes through a sum with zeros.
void expect_passes(std::uint32_t in, std::uint32_t out, lpDataType_t type) {
  const float value = decode(in, type);
  const std::uint32_t canonical_nan = type == LP_FLOAT32 ? 0x7fffffffu : 0x7fffu;
  if (std::isnan(value)) {
    ASSERT_EQ(out, canonical_nan) << std::hex << in;
  } else if (value == 0.0f) {
    ASSERT_EQ(out, 0u) << std::hex << in;
  } else {
    ASSERT_EQ(out, in) << std::hex << in;
  }
}

void check_patterns(const HostVariant& variant, int world, const Bits& patterns, lpDataType_t type) {
  GroupOptions options;
  options.variant = variant;
  RankGroup group(world, options);
  for (int sender = 0; sender < world; ++sender) {
    std::vector<Bits> inputs(static_cast<std::size_t>(world), Bits(patterns.size(), 0));
    inputs[static_cast<std::size_t>(sender)] = patterns;
    const PlainCase c{patterns.size(), type, false, 0};
    auto call = make_plain_call(inputs, c);
    run_and_check(group, *call);
    const Bits reference = all_reduce_bits(inputs, type);
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      expect_passes(patterns[i], reference[i], type);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

class Patterns : public testing::TestWithParam<HostVariant> {};
INSTANTIATE_TEST_SUITE_P(HostTargets, Patterns, testing::ValuesIn(kHostVariants),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(Patterns, EveryBf16AndFp16) {
  announce_seed();
  for (lpDataType_t type : {LP_BFLOAT16, LP_FLOAT16}) {
    for (int world : {1, 2, 3}) check_patterns(GetParam(), world, every_pattern(), type);
  }
}

TEST(Numerics, RandomFp32) {
  Random random(announce_seed());
  for (int world : {1, 2}) check_patterns(kHostVariants[0], world, fp32_patterns(random), LP_FLOAT32);
}

TEST(Numerics, PairsOfPatternsWithZeros) {
  // A 16-bit pair of +0 and -0 is the sentinel; every pattern beside each zero must pass.
  for (lpDataType_t type : {LP_BFLOAT16, LP_FLOAT16}) {
    Bits pairs;
    for (std::uint32_t zero : {0u, 0x8000u}) {
      for (std::uint32_t i = 0; i < 65536; ++i) {
        pairs.push_back(zero);
        pairs.push_back(i);
        pairs.push_back(i);
        pairs.push_back(zero);
      }
    }
    check_patterns(kHostVariants[0], 2, pairs, type);
  }
}

TEST(Numerics, RandomPairsOfPatterns) {
  // Two ranks add in the 16-bit type itself, three in fp32; both are the fp32 sum, rounded once.
  Random random(announce_seed());
  for (lpDataType_t type : {LP_BFLOAT16, LP_FLOAT16}) {
    for (std::size_t world : {2, 3}) {
      std::vector<Bits> inputs(world, Bits(1'000'000));
      for (Bits& bits : inputs) {
        for (std::uint32_t& pattern : bits) pattern = static_cast<std::uint32_t>(random() % 65536);
      }
      RankGroup group(static_cast<int>(world));
      run_and_check(group, *make_plain_call(inputs, {inputs[0].size(), type, false, 0}));
    }
  }
}

/// Runs one fused case and returns the bits of all its outputs on rank 0.
struct Outputs {
  Bits sum, residual, out;
  friend bool operator==(const Outputs&, const Outputs&) = default;
};

struct FusedInputs {
  FusedCase c;
  std::vector<Bits> in;
  Bits residual;
  Bits weight;
};

FusedInputs random_inputs(int world, const FusedCase& c, Random& random) {
  FusedInputs inputs{c, {}, random_bits(c.tokens * c.hidden, c.type, random),
                     random_bits(c.hidden, c.type, random)};
  for (int r = 0; r < world; ++r) {
    inputs.in.push_back(random_bits(c.tokens * c.hidden, c.type, random));
  }
  return inputs;
}

std::vector<Outputs> run_fused(RankGroup& group, const FusedInputs& inputs) {
  const FusedCase& c = inputs.c;
  const std::uint64_t count = c.tokens * c.hidden;
  struct Tensors {
    GuardedTensor in, out, residual_in, residual_out, sum, weight;
  };
  std::vector<Tensors> tensors;
  for (int r = 0; r < group.size(); ++r) {
    Tensors t;
    for (GuardedTensor* tensor : {&t.in, &t.out, &t.residual_in, &t.residual_out, &t.sum}) {
      *tensor = GuardedTensor({count, c.type, 0}, r);
    }
    t.weight = GuardedTensor({c.hidden, c.type, 0}, r);
    t.in.set(inputs.in[static_cast<std::size_t>(r)]);
    t.residual_in.set(inputs.residual);
    t.weight.set(inputs.weight);
    tensors.push_back(std::move(t));
  }
  for (int r = 0; r < group.size(); ++r) {
    Tensors& t = tensors[static_cast<std::size_t>(r)];
    lpAllReduceRMSNormArgs args = LP_ALL_REDUCE_RMS_NORM_INITIALIZER;
    args.in = t.in.data();
    args.out = t.out.data();
    args.residual_in = t.residual_in.data();
    args.residual_out = t.residual_out.data();
    args.all_reduce_out = t.sum.data();
    args.weight = t.weight.data();
    args.type = args.weight_type = c.type;
    args.tokens = static_cast<std::int64_t>(c.tokens);
    args.hidden = static_cast<std::int64_t>(c.hidden);
    args.epsilon = c.epsilon;
    args.weight_bias = c.weight_bias;
    EXPECT_EQ(lpAllReduceRMSNorm(&args, group[r], group.stream(r)), LP_SUCCESS)
        << lpGetLastError(group[r]);
  }
  group.synchronize();
  std::vector<Outputs> outputs;
  for (Tensors& t : tensors) outputs.push_back({t.sum.bits(), t.residual_out.bits(), t.out.bits()});
  return outputs;
}

TEST(Numerics, SameBitsForEveryLaunchShapeAndTarget) {
  Random random(announce_seed());
  for (lpDataType_t type : {LP_BFLOAT16, LP_FLOAT16, LP_FLOAT32}) {
    FusedCase c;
    c.tokens = 5;
    c.hidden = 2880;
    c.type = type;
    const FusedInputs inputs = random_inputs(4, c, random);
    std::vector<Outputs> first;
    for (const HostVariant& variant : kHostVariants) {
      for (std::uint32_t threads : {64, 128, 192, 512}) {
        for (std::uint32_t blocks : {1, 3}) {
          GroupOptions options;
          options.variant = variant;
          options.max_block_threads = threads;
          options.max_blocks = blocks;
          RankGroup group(4, options);
          const std::vector<Outputs> outputs = run_fused(group, inputs);
          if (first.empty()) first = outputs;
          for (const Outputs& of_rank : outputs) {
            ASSERT_EQ(of_rank, first[0]) << variant.name << " " << threads << " x " << blocks;
          }
        }
      }
    }
  }
}

TEST(Numerics, FusedIsFusedAtWorldOneOnTheAllReduce) {
  Random random(announce_seed());
  for (lpDataType_t type : {LP_BFLOAT16, LP_FLOAT16, LP_FLOAT32}) {
    for (int world : {2, 3, 4, 5, 8}) {
      FusedCase c;
      c.tokens = 7;
      c.hidden = 520;
      c.type = type;
      c.weight_bias = 1.0f;
      const FusedInputs inputs = random_inputs(world, c, random);
      RankGroup group(world);
      const Outputs fused = run_fused(group, inputs)[0];
      FusedInputs summed = inputs;
      summed.in = {all_reduce_bits(inputs.in, c.type)};
      RankGroup alone(1);
      ASSERT_EQ(run_fused(alone, summed)[0], fused) << "world " << world;
    }
  }
}

TEST(Numerics, ARowDoesNotDependOnItsBatch) {
  Random random(announce_seed());
  FusedCase c;
  c.tokens = 128;
  c.hidden = 264;
  RankGroup group(3);
  const FusedInputs batch = random_inputs(3, c, random);
  const Outputs whole = run_fused(group, batch)[0];
  for (std::uint64_t row : {0, 6, 127}) {
    FusedInputs one = batch;
    one.c.tokens = 1;
    const auto cut = [&](const Bits& bits) {
      const auto begin = bits.begin() + static_cast<std::ptrdiff_t>(row * c.hidden);
      return Bits(begin, begin + static_cast<std::ptrdiff_t>(c.hidden));
    };
    for (Bits& in : one.in) in = cut(in);
    one.residual = cut(batch.residual);
    const Outputs alone = run_fused(group, one)[0];
    EXPECT_EQ(alone.out, cut(whole.out));
    EXPECT_EQ(alone.residual, cut(whole.residual));
  }
}

TEST(Numerics, SpecialValuesNeitherHangNorLeak) {
  // An Inf or NaN makes its own row non-finite and no other.
  RankGroup group(2);
  FusedCase c;
  c.tokens = 3;
  c.hidden = 64;
  Random random(announce_seed());
  FusedInputs inputs = random_inputs(2, c, random);
  inputs.in[0][64 + 5] = 0x7f80;  // +Inf in row 1
  inputs.in[1][64 + 5] = 0xff80;  // -Inf: the sum is NaN
  const Outputs outputs = run_fused(group, inputs)[0];
  for (std::size_t i = 0; i < outputs.out.size(); ++i) {
    EXPECT_EQ(std::isnan(decode(outputs.out[i], LP_BFLOAT16)), i / 64 == 1) << i;
  }
}

}  // namespace
}  // namespace lamppost::test
