// Conversions, packs, the sentinel and the layout: exhaustive where the domain is 16 bits.
#include "lamppost/device/generic.hpp"
#include "lamppost/device/host.hpp"
#include "lamppost/device/layout.hpp"
#include "lamppost/device/pack.hpp"
#include "support/reference.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace lamppost::test {
namespace {

using device::AbortWord;
using device::ArrivalWord;
using device::Bf16;
using device::Fp16;
using device::kSentinel;
using device::Layout;
using device::Pack;

std::uint32_t bits_of_float(float value) { return device::bits_of(value); }

TEST(Conversions, EveryFp16AndBf16Exactly) {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float fp16 = to_float(Fp16{bits});
    const float bf16 = to_float(Bf16{bits});
    const float fp16_expected = decode(i, LP_FLOAT16);
    const float bf16_expected = decode(i, LP_BFLOAT16);
    if (std::isnan(fp16_expected)) {
      ASSERT_TRUE(std::isnan(fp16)) << i;
      ASSERT_EQ(device::round_to<Fp16>(fp16).bits, 0x7fff);
    } else {
      ASSERT_EQ(bits_of_float(fp16), bits_of_float(fp16_expected)) << i;
      ASSERT_EQ(device::round_to<Fp16>(fp16).bits, bits) << i;
    }
    if (std::isnan(bf16_expected)) {
      ASSERT_TRUE(std::isnan(bf16)) << i;
      ASSERT_EQ(device::round_to<Bf16>(bf16).bits, 0x7fff);
    } else {
      ASSERT_EQ(bits_of_float(bf16), bits_of_float(bf16_expected)) << i;
      ASSERT_EQ(device::round_to<Bf16>(bf16).bits, bits) << i;
    }
  }
}

void expect_rounds(std::uint32_t word) {
  const float value = device::float_of(word);
  ASSERT_EQ(device::round_to<Fp16>(value).bits, encode(value, LP_FLOAT16)) << std::hex << word;
  ASSERT_EQ(device::round_to<Bf16>(value).bits, encode(value, LP_BFLOAT16)) << std::hex << word;
}

TEST(Conversions, RoundingOfFp32) {
  // Every value of each 16-bit type, the midpoint above it, and their neighbours.
  for (std::uint32_t i = 0; i < 65536; ++i) {
    for (lpDataType_t type : {LP_FLOAT16, LP_BFLOAT16}) {
      const std::uint32_t word = bits_of_float(decode(i, type));
      const std::uint32_t half = type == LP_FLOAT16 ? 1u << 12 : 1u << 15;
      for (std::uint32_t at : {word, word + half}) {
        for (std::uint32_t near : {at - 1, at, at + 1}) expect_rounds(near);
        if (HasFatalFailure()) return;
      }
    }
  }
  std::mt19937 random(20240229);
  for (int i = 0; i < 2'000'000 && !HasFatalFailure(); ++i) expect_rounds(random());
}

TEST(Sentinel, IsJudgedByWordAndBits) {
  EXPECT_TRUE(device::has_sentinel(device::sentinel_pack()));
  for (int i = 0; i < 4; ++i) {
    Pack pack{{1, 2, 3, 4}};
    EXPECT_FALSE(device::has_sentinel(pack));
    pack.word[i] = kSentinel;
    EXPECT_TRUE(device::has_sentinel(pack));
  }
  // Near misses: a negative subnormal, -0 in the low half of a 16-bit pair, two -0.
  EXPECT_FALSE(device::has_sentinel(Pack{{0x80000001u, 0x00008000u, 0x80008000u, 0x7fffffffu}}));
}

template <class Element>
void expect_no_negative_zero(std::uint32_t low, std::uint32_t high, std::uint32_t nan) {
  const auto clean = [&](std::uint32_t half) {
    if (half == 0x8000u) return 0u;
    return (half & 0x7fffu) > nan ? 0x7fffu : half;
  };
  const std::uint32_t word = low | high << 16;
  const device::Fragment<Element> in{{Pack{{word, word, word, word}}}};
  const auto out = device::without_negative_zero<device::HostTarget<32>>(in);
  for (const std::uint32_t seen : out.pack[0].word) {
    ASSERT_EQ(seen, clean(low) | clean(high) << 16) << std::hex << word;
  }
}

TEST(Sentinel, NoWordOfAFragmentWithoutNegativeZero) {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    for (std::uint32_t zero : {0u, 0x8000u}) {
      expect_no_negative_zero<Bf16>(zero, i, 0x7f80u);
      expect_no_negative_zero<Bf16>(i, zero, 0x7f80u);
      expect_no_negative_zero<Fp16>(zero, i, 0x7c00u);
      expect_no_negative_zero<Fp16>(i, zero, 0x7c00u);
      if (HasFatalFailure()) return;
    }
  }
  const device::Fragment<float> in{{Pack{{kSentinel, 0x80000001u, 0, 0xff800000u}},
                                    Pack{{1, kSentinel, 0x7f800001u, 0x3f800000u}}}};
  const auto out = device::without_negative_zero<device::HostTarget<32>>(in);
  const std::uint32_t expected[] = {0, 0x80000001u, 0, 0xff800000u, 1, 0, 0x7fffffffu, 0x3f800000u};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(out.pack[i / 4].word[i % 4], expected[i]);
}

TEST(LayoutOfWorkspace, RegionsDoNotOverlapForAnyWorld) {
  for (std::uint32_t ranks = 1; ranks <= device::kMaxRanks; ++ranks) {
    for (std::uint64_t slot : {std::uint64_t{1} << 18, std::uint64_t{1} << 30}) {
      const Layout layout{ranks, slot};
      std::uint64_t end = Layout::kControlBytes;
      for (std::uint32_t g = 0; g < device::kGenerations; ++g) {
        ASSERT_EQ(layout.header(g, 0), end);
        ASSERT_LE(layout.header(g, ranks - 1) + sizeof(Pack), layout.data(g));
        end = layout.data(g) + ranks * slot;
      }
      ASSERT_EQ(layout.end_guard(), end);
      ASSERT_EQ(layout.bytes(), end + device::kPageBytes);
    }
  }
}

TEST(Words, AbortWordIsCurrentOnlyForItsGenerationAndLaterCalls) {
  const AbortWord word{3, 5, 71, 100};
  const AbortWord back = AbortWord::unpack(word.pack());
  EXPECT_EQ(back.pack(), word.pack());
  EXPECT_EQ(back.missing_rank, 71u);
  EXPECT_TRUE(back.is_current(3, 100));
  EXPECT_TRUE(back.is_current(3, 101));
  EXPECT_FALSE(back.is_current(3, 99));
  EXPECT_FALSE(back.is_current(4, 100));
  EXPECT_FALSE(AbortWord::unpack(0).is_current(1, 0));
  // Across the wrap of the 30-bit sequence.
  const AbortWord last{3, 5, 71, device::kSequenceMask};
  EXPECT_TRUE(last.is_current(3, 0));
  EXPECT_FALSE(AbortWord({3, 5, 71, 0}).is_current(3, device::kSequenceMask));
}

TEST(Words, ArrivalWordTellsLaunchesApart) {
  const std::uint64_t start = ArrivalWord::first(7);
  const std::uint64_t full = start + 4 * ArrivalWord::increment(1000);
  EXPECT_EQ(full, ArrivalWord::expected(7, 1000, 4));
  EXPECT_EQ(ArrivalWord::blocks(full), 4u);
  EXPECT_TRUE(ArrivalWord::has_sequence(full, 7));
  const std::uint64_t mixed = start + 3 * ArrivalWord::increment(1000) + ArrivalWord::increment(1001);
  EXPECT_NE(mixed, ArrivalWord::expected(7, 1000, 4));
  EXPECT_NE(mixed, ArrivalWord::expected(7, 1001, 4));
  const std::uint64_t troubled = full + 3 * ArrivalWord::kTrouble;
  EXPECT_EQ(ArrivalWord::without_trouble(troubled), full);
  EXPECT_NE(ArrivalWord::without_trouble(troubled), troubled);
  // The largest sum stays clear of the sequence.
  const std::uint64_t most = ArrivalWord::expected(7, 0xfffff, ArrivalWord::kMostBlocks);
  EXPECT_TRUE(ArrivalWord::has_sequence(most, 7));
  EXPECT_EQ(ArrivalWord::blocks(most), ArrivalWord::kMostBlocks);
}

}  // namespace
}  // namespace lamppost::test
