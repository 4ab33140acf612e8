// What lamppost-bench rests on: that its checks catch what they must, and its pure parts (sizes,
// rows, launch hints, times). No collective is called here.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <lamppost/types.hpp>
#include <map>
#include <set>
#include <thread>

#include "tools/bench/launch.hpp"
#include "tools/bench/numbers.hpp"
#include "tools/bench/options.hpp"
#include "tools/bench/timing.hpp"
#include "tools/bench/workload.hpp"
#include "tools/bench/world.hpp"

namespace lamppost::bench {
namespace {

constexpr int kRanks = 4;
constexpr lpDataType_t kTypes[] = {LP_BFLOAT16, LP_FLOAT16, LP_FLOAT32};

Workload make_workload(lpDataType_t type, std::int64_t tokens, std::int64_t hidden) {
  Workload workload;
  workload.type = type;
  workload.rank_count = kRanks;
  workload.row.tokens = tokens;
  workload.row.hidden = hidden;
  workload.row.elements = static_cast<std::uint64_t>(tokens * hidden);
  workload.row.bytes = workload.row.elements * element_bytes(type);
  return workload;
}

/// One tensor of Format's bits.
template <class Format>
using Bits = std::vector<typename Format::Bits>;

template <class Format>
Bits<Format> input_of(const Workload& workload, int rank) {
  Bits<Format> in(workload.row.elements);
  fill_input(workload, rank, in.data());
  return in;
}

/// What a right all-reduce gives: fp32 in rank order, rounded once.
template <class Format>
Bits<Format> right_sums(const Workload& workload) {
  std::vector<float> sums(workload.row.elements, 0.0f);
  for (int rank = 0; rank < workload.rank_count; ++rank) {
    const Bits<Format> in = input_of<Format>(workload, rank);
    for (std::size_t i = 0; i < in.size(); ++i) sums[i] += Format::decode(in[i]);
  }
  Bits<Format> out(sums.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = Format::encode(sums[i]);
  return out;
}

/// The exact sum of element i, and the sum of the absolute values.
template <class Format>
std::pair<double, double> exact_sum(const Workload& workload, std::size_t i) {
  double sum = 0;
  double magnitude = 0;
  for (int rank = 0; rank < workload.rank_count; ++rank) {
    const double value = Format::decode(input_of<Format>(workload, rank)[i]);
    sum += value;
    magnitude += std::abs(value);
  }
  return {sum, magnitude};
}

template <class Format>
struct Fused {
  Bits<Format> out;
  Bits<Format> residual_out;
};

/// What a right fused call gives, its norm in double.
template <class Format>
Fused<Format> right_fused(const Workload& workload) {
  Fused<Format> fused;
  fused.residual_out = right_sums<Format>(workload);
  Bits<Format> residual(workload.row.elements);
  Bits<Format> weight(static_cast<std::size_t>(workload.row.hidden));
  fill_residual(workload, residual.data());
  fill_weight(workload, weight.data());
  const std::size_t hidden = weight.size();
  fused.out.resize(residual.size());
  for (std::size_t start = 0; start < residual.size(); start += hidden) {
    double squares = 0;
    for (std::size_t c = start; c < start + hidden; ++c) {
      const float sum = Format::decode(fused.residual_out[c]) + Format::decode(residual[c]);
      fused.residual_out[c] = Format::encode(sum);
      squares += std::pow(Format::decode(fused.residual_out[c]), 2.0);
    }
    const double q =
        1 / std::sqrt(squares / static_cast<double>(hidden) + double{workload.epsilon});
    for (std::size_t c = start; c < start + hidden; ++c) {
      const double exact =
          Format::decode(fused.residual_out[c]) * q * Format::decode(weight[c - start]);
      fused.out[c] = Format::encode(static_cast<float>(exact));
    }
  }
  return fused;
}

/// The bits of the next number away from zero.
template <class Format>
typename Format::Bits next_away(typename Format::Bits bits) {
  return static_cast<typename Format::Bits>(bits + 1);
}

// ---- Number formats
// ------------------------------------------------------------------------------

TEST(BenchNumbers, SixteenBitPatternsSurviveARoundTrip) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if (!std::isnan(Fp16::decode(half))) {
      ASSERT_EQ(Fp16::encode(Fp16::decode(half)), half);
    }
    if (!std::isnan(Bf16::decode(half))) {
      ASSERT_EQ(Bf16::encode(Bf16::decode(half)), half);
    }
  }
}

TEST(BenchNumbers, RoundsToNearestEven) {
  EXPECT_EQ(Bf16::encode(1.0f + 0x1p-8f), 0x3f80);      // a tie: down to even
  EXPECT_EQ(Bf16::encode(1.0f + 3 * 0x1p-8f), 0x3f82);  // a tie: up to even
  EXPECT_EQ(Fp16::encode(1.0f + 0x1p-11f), 0x3c00);
  EXPECT_EQ(Fp16::encode(1.0f + 3 * 0x1p-11f), 0x3c02);
  EXPECT_EQ(Fp16::encode(65519.0f), 0x7bff);
  EXPECT_EQ(Fp16::encode(65520.0f), 0x7c00);
  EXPECT_EQ(Fp16::encode(0x1p-25f), 0x0000);  // half the smallest: to even
  EXPECT_EQ(Fp16::encode(1.5f * 0x1p-24f), 0x0002);
}

TEST(BenchNumbers, HalfUlp) {
  EXPECT_EQ(half_ulp<Bf16>(1.0), 0x1p-8);
  EXPECT_EQ(half_ulp<Bf16>(1.99), 0x1p-8);
  EXPECT_EQ(half_ulp<Fp16>(2.0), 0x1p-10);
  EXPECT_EQ(half_ulp<Fp16>(0.0), 0x1p-25);
  EXPECT_EQ(half_ulp<Fp32>(-4.0), 0x1p-22);
}

// ---- Inputs
// --------------------------------------------------------------------------------------

TEST(BenchInputs, DifferByRankAndRowAndRepeat) {
  Workload workload = make_workload(LP_FLOAT32, 1, 1000);
  std::set<std::uint64_t> hashes;
  for (int row = 0; row < 3; ++row) {
    workload.row.index = row;
    for (int rank = 0; rank < kRanks; ++rank) {
      const Bits<Fp32> in = input_of<Fp32>(workload, rank);
      hashes.insert(hash_bytes(in.data(), workload.row.bytes));
      EXPECT_EQ(in, input_of<Fp32>(workload, rank));
    }
  }
  EXPECT_EQ(hashes.size(), 12u);
}

TEST(BenchInputs, HaveBothSignsManyMagnitudesAndZeros) {
  const Bits<Fp32> in = input_of<Fp32>(make_workload(LP_FLOAT32, 1, 10000), 1);
  int negative = 0;
  int zero = 0;
  std::set<int> binades;
  for (const std::uint32_t bits : in) {
    const float value = Fp32::decode(bits);
    if (value < 0) ++negative;
    if (value == 0) ++zero;
    if (value != 0) binades.insert(std::ilogb(value));
  }
  EXPECT_NEAR(negative, 5000, 300);
  EXPECT_GT(zero, 50);
  EXPECT_EQ(binades.size(), 16u);
}

// ---- The reference catches
// -----------------------------------------------------------------------

TEST(BenchCheck, RightSumsPass) {
  for (const lpDataType_t type : kTypes) {
    with_format(type, [type](auto format) {
      const Workload workload = make_workload(type, 1, 20000);
      const auto out = right_sums<decltype(format)>(workload);
      EXPECT_EQ(count_wrong_sums(workload, out.data()), 0u) << type_name(type);
    });
  }
}

TEST(BenchCheck, OneUlpBeyondTheBoundIsWrong) {
  for (const lpDataType_t type : kTypes) {
    with_format(type, [type](auto format) {
      using Format = decltype(format);
      const Workload workload = make_workload(type, 1, 64);
      const Bits<Format> right = right_sums<Format>(workload);
      for (std::size_t i = 0; i < right.size(); ++i) {
        const auto [exact, magnitude] = exact_sum<Format>(workload, i);
        const double bound = sum_bound(type, kRanks, exact, magnitude);
        Bits<Format> out = right;
        while (std::abs(Format::decode(out[i]) - exact) <= bound) {
          ASSERT_EQ(count_wrong_sums(workload, out.data()), 0u) << type_name(type) << " " << i;
          out[i] = next_away<Format>(out[i]);
        }
        ASSERT_EQ(count_wrong_sums(workload, out.data()), 1u) << type_name(type) << " " << i;
      }
    });
  }
}

TEST(BenchCheck, SixteenBitBoundIsTight) {
  // For 16-bit types the fp32 part of the bound is small: two ulps are always too many.
  const Workload workload = make_workload(LP_BFLOAT16, 1, 1000);
  Bits<Bf16> out = right_sums<Bf16>(workload);
  std::uint64_t changed = 0;
  for (auto& bits : out) {
    if ((bits & 0x7fff) == 0) continue;  // a sum that cancelled says little about its ulp
    const double bound_in_ulps = sum_bound(LP_BFLOAT16, kRanks, Bf16::decode(bits), 0) /
                                 (2 * half_ulp<Bf16>(Bf16::decode(bits)));
    EXPECT_DOUBLE_EQ(bound_in_ulps, 0.5);
    bits = static_cast<std::uint16_t>(bits + 2);
    ++changed;
  }
  EXPECT_GT(count_wrong_sums(workload, out.data()), changed * 98 / 100);
}

TEST(BenchCheck, ASwappedPairIsTwoWrongValues) {
  for (const lpDataType_t type : kTypes) {
    with_format(type, [type](auto format) {
      const Workload workload = make_workload(type, 1, 100);
      auto out = right_sums<decltype(format)>(workload);
      ASSERT_NE(out[40], out[41]);
      std::swap(out[40], out[41]);
      EXPECT_EQ(count_wrong_sums(workload, out.data()), 2u) << type_name(type);
    });
  }
}

TEST(BenchCheck, NotANumberAndInfinityAreWrong) {
  const Workload workload = make_workload(LP_FLOAT16, 1, 8);
  Bits<Fp16> out = right_sums<Fp16>(workload);
  out[3] = 0x7fff;
  out[5] = 0x7c00;
  EXPECT_EQ(count_wrong_sums(workload, out.data()), 2u);
}

TEST(BenchCheck, SumsOfAnotherRowOrSeedAreWrong) {
  Workload workload = make_workload(LP_BFLOAT16, 1, 1000);
  const Bits<Bf16> out = right_sums<Bf16>(workload);
  workload.row.index = 1;
  EXPECT_GT(count_wrong_sums(workload, out.data()), 950u);
  workload.row.index = 0;
  workload.seed = 2;
  EXPECT_GT(count_wrong_sums(workload, out.data()), 950u);
}

TEST(BenchCheck, FusedCatchesResidualNormAndSwap) {
  for (const lpDataType_t type : kTypes) {
    with_format(type, [type](auto format) {
      using Format = decltype(format);
      const Workload workload = make_workload(type, 3, 200);
      const Fused<Format> right = right_fused<Format>(workload);
      const auto wrong = [&workload](const Fused<Format>& fused) {
        return count_wrong_fused(workload, fused.out.data(), fused.residual_out.data());
      };
      EXPECT_EQ(wrong(right), 0u) << type_name(type);

      Fused<Format> fused = right;
      std::swap(fused.out[210], fused.out[211]);
      EXPECT_EQ(wrong(fused), 2u) << type_name(type);

      fused = right;
      fused.out[7] = Format::encode(Format::decode(fused.out[7]) * 1.02f);
      EXPECT_EQ(wrong(fused), 1u) << type_name(type);

      // A wrong residual is wrong itself, and makes its whole row's norm wrong.
      fused = right;
      fused.residual_out[450] = Format::encode(1000.0f);
      EXPECT_GT(wrong(fused), 100u) << type_name(type);
    });
  }
}

TEST(BenchCheck, FusedOneUlpBeyondTheNormBoundIsWrong) {
  const Workload workload = make_workload(LP_FLOAT32, 1, 100);
  const Fused<Fp32> right = right_fused<Fp32>(workload);
  for (std::size_t i = 0; i < right.out.size(); ++i) {
    Fused<Fp32> fused = right;
    // The right value is within half an ulp of the exact one, so these lie on both sides.
    const double value = Fp32::decode(fused.out[i]);
    if (value == 0) continue;  // a zero weight: nothing but zero is right
    const double bound = norm_bound(LP_FLOAT32, 100, value);
    const double ulp = 2 * half_ulp<Fp32>(value);
    const auto count = [&](double distance) {
      fused.out[i] = Fp32::encode(static_cast<float>(value + distance));
      return count_wrong_fused(workload, fused.out.data(), fused.residual_out.data());
    };
    EXPECT_EQ(count(bound - 1.5 * ulp), 0u) << i;
    EXPECT_EQ(count(bound + 1.5 * ulp), 1u) << i;
  }
}

TEST(BenchCheck, NormBoundIsTheDocumentedOne) {
  const double unit = 0x1p-24;
  const double fp32_half_ulp = 0x1p-24;
  EXPECT_NEAR(norm_bound(LP_FLOAT32, 8, 1.0), 12.5 * unit + fp32_half_ulp, 1e-11);
  EXPECT_NEAR(norm_bound(LP_FLOAT32, 65536, 1.0), 19 * unit + fp32_half_ulp, 1e-11);
  EXPECT_NEAR(norm_bound(LP_FLOAT32, 9, 1.0), 13 * unit + fp32_half_ulp, 1e-11);
}

// ---- Across ranks
// --------------------------------------------------------------------------------

/// Runs count_rank_differences on threads, where rank r holds data[r].
std::vector<std::uint64_t> differences(const std::vector<std::vector<std::uint16_t>>& data) {
  const auto worlds = make_thread_worlds(static_cast<int>(data.size()));
  std::vector<std::uint64_t> found(data.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < data.size(); ++rank) {
    threads.emplace_back([&, rank] {
      const auto& mine = data[rank];
      found[rank] = count_rank_differences(*worlds[rank], mine.data(), 2 * mine.size(), 2);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return found;
}

TEST(BenchRanks, OneFlippedBitIsSeenByAllRanks) {
  std::vector<std::vector<std::uint16_t>> data(3, std::vector<std::uint16_t>(100'001, 0x3f80));
  EXPECT_EQ(differences(data), (std::vector<std::uint64_t>{0, 0, 0}));
  data[2][99'000] ^= 1;
  EXPECT_EQ(differences(data), (std::vector<std::uint64_t>{1, 1, 1}));
  data[1][0] ^= 0x8000;
  EXPECT_EQ(differences(data), (std::vector<std::uint64_t>{2, 2, 2}));
  data[0][100'000] ^= 2;  // rank 0 is the one that others are compared with
  EXPECT_EQ(differences(data), (std::vector<std::uint64_t>{4, 4, 4}));
}

TEST(BenchRanks, EmptyOutputsAreEqual) {
  EXPECT_EQ(differences({{}, {}}), (std::vector<std::uint64_t>{0, 0}));
}

TEST(BenchRanks, EveryBitAndItsPlaceCountsInTheHash) {
  std::vector<unsigned char> data(37, 0);
  std::set<std::uint64_t> hashes{hash_bytes(data.data(), data.size())};
  for (std::size_t bit = 0; bit < 8 * data.size(); ++bit) {
    data[bit / 8] ^= static_cast<unsigned char>(1u << (bit % 8));
    hashes.insert(hash_bytes(data.data(), data.size()));
    data[bit / 8] = 0;
  }
  hashes.insert(hash_bytes(data.data(), data.size() - 1));
  EXPECT_EQ(hashes.size(), 8 * data.size() + 2);
}

// ---- Sizes and rows
// ------------------------------------------------------------------------------

TEST(BenchSizes, Parse) {
  EXPECT_EQ(parse_size("0"), 0u);
  EXPECT_EQ(parse_size("8"), 8u);
  EXPECT_EQ(parse_size("64K"), 65536u);
  EXPECT_EQ(parse_size("4m"), 4u << 20);
  EXPECT_EQ(parse_size("1G"), 1u << 30);
  for (const char* text : {"", "K", "-1", "+1", "1.5M", "1KB", "1 K", " 1", "0x10", "K1", "1kk",
                           "9223372036854775808", "8589934592G"}) {
    EXPECT_FALSE(parse_size(text)) << text;
  }
}

ParsedOptions parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "lamppost-bench");
  return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

std::vector<std::uint64_t> row_bytes(std::vector<const char*> arguments) {
  const ParsedOptions parsed = parse(std::move(arguments));
  if (!parsed.options) return {};
  std::vector<std::uint64_t> bytes;
  for (const Row& row : plan_rows(*parsed.options)) bytes.push_back(row.bytes);
  return bytes;
}

TEST(BenchSizes, Rows) {
  using List = std::vector<std::uint64_t>;
  EXPECT_EQ(row_bytes({"-b", "8", "-e", "128", "-f", "4"}), (List{8, 32, 128}));
  EXPECT_EQ(row_bytes({"-b", "8", "-e", "100", "-f", "4"}), (List{8, 32}));
  EXPECT_EQ(row_bytes({"-b", "0", "-e", "8", "-f", "2"}), (List{0, 2, 4, 8}));
  EXPECT_EQ(row_bytes({"-b", "1K", "-e", "3K", "-i", "1K"}), (List{1024, 2048, 3072}));
  // Whole elements, and no row twice.
  EXPECT_EQ(row_bytes({"-b", "1", "-e", "5", "-i", "1", "--dtype", "fp32"}), (List{0, 4}));
  EXPECT_EQ(row_bytes({"-b", "2M"}), (List{2u << 20}));
  // The last of two counts, as with getopt.
  EXPECT_EQ(row_bytes({"-b", "8", "-e", "1M", "-e", "8"}), (List{8}));
}

TEST(BenchSizes, FusedRowsAreWholeTokens) {
  const ParsedOptions parsed = parse({"--op", "all_reduce_rmsnorm", "--hidden", "100", "-b", "1",
                                      "-e", "1000", "-f", "10", "--dtype", "fp16"});
  ASSERT_TRUE(parsed.options);
  const std::vector<Row> rows = plan_rows(*parsed.options);
  ASSERT_EQ(rows.size(), 2u);  // 1, 10 and 100 bytes are one token
  EXPECT_EQ(rows[0].tokens, 1);
  EXPECT_EQ(rows[1].tokens, 5);
  EXPECT_EQ(rows[1].index, 1);
  EXPECT_EQ(row_bytes({"--op", "all_reduce_rmsnorm", "--hidden", "8", "--tokens", "0,3,64"}),
            (std::vector<std::uint64_t>{0, 48, 1024}));
}

TEST(BenchOptions, BadOnesAreRefusedWithASentence) {
  const std::vector<std::pair<std::vector<const char*>, const char*>> cases = {
      {{"-b", "3x"}, "no size"},
      {{"-b", "2K", "-e", "1K"}, "above"},
      {{"--dtype", "fp64"}, "none of bf16, fp16, fp32"},
      {{"--tokens", "1"}, "all_reduce_rmsnorm"},
      {{"-i", "0"}, "never end"},
      {{"-f", "2", "-i", "8"}, "excludes"},
      {{"--graph", "--eager"}, "excludes"},
      {{"-t", "17"}, "range"},
      {{"-n", "0"}, "range"},
      {{"extra"}, "not expected"},
  };
  for (const auto& [arguments, needle] : cases) {
    const ParsedOptions parsed = parse(arguments);
    EXPECT_FALSE(parsed.options) << needle;
    EXPECT_EQ(parsed.exit_code, kBadArguments);
    EXPECT_NE(parsed.text.find(needle), std::string::npos) << parsed.text;
  }
  EXPECT_EQ(parse({"--help"}).exit_code, kSuccess);
}

// ---- Launch hints
// --------------------------------------------------------------------------------

Launcher launcher_in(const std::map<std::string, std::string>& variables) {
  return find_launcher([&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(BenchLaunch, LaunchersAreFound) {
  EXPECT_EQ(launcher_in({}).process_count, 0);
  EXPECT_EQ(launcher_in({{"OMPI_COMM_WORLD_SIZE", "4"}}).process_count, 4);
  EXPECT_EQ(launcher_in({{"PMI_SIZE", "8"}}).process_count, 8);
  EXPECT_EQ(launcher_in({{"PMIX_RANK", "2"}}).process_count, 3);
  EXPECT_EQ(launcher_in({{"OMPI_COMM_WORLD_SIZE", "four"}}).process_count, 0);
  EXPECT_EQ(launcher_in({{"SLURM_STEP_NUM_TASKS", "6"}, {"SLURM_PROCID", "0"}}).process_count, 6);
}

TEST(BenchLaunch, ASlurmAllocationAloneIsNoLaunch) {
  EXPECT_EQ(launcher_in({{"SLURM_NTASKS", "8"}}).process_count, 0);
  EXPECT_EQ(launcher_in({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}).process_count, 0);
  EXPECT_EQ(launcher_in({{"SLURM_STEP_NUM_TASKS", "8"}}).process_count, 0);
}

TEST(BenchLaunch, OnlyAMismatchIsAProblem) {
  const Launcher none;
  const Launcher one{"OMPI_COMM_WORLD_SIZE", 1};
  const Launcher four{"OMPI_COMM_WORLD_SIZE", 4};
  EXPECT_FALSE(launch_problem(none, false, 1));
  EXPECT_FALSE(launch_problem(none, true, 1));
  EXPECT_FALSE(launch_problem(one, true, 1));
  EXPECT_FALSE(launch_problem(four, true, 4));
  const auto without_mpi = launch_problem(four, false, 1);
  ASSERT_TRUE(without_mpi);
  EXPECT_NE(without_mpi->find("built without MPI"), std::string::npos);
  const auto wrong_mpi = launch_problem(four, true, 1);
  ASSERT_TRUE(wrong_mpi);
  EXPECT_NE(wrong_mpi->find("do not belong together"), std::string::npos);
}

// ---- Times
// ---------------------------------------------------------------------------------------

TEST(BenchTimes, AKnownCostIsWhatIsPrinted) {
  // Two ranks, three batches of 20 calls of 10 us; rank 1 starts 4 us later.
  std::vector<BatchTime> times;
  for (int rank = 0; rank < 2; ++rank) {
    for (std::int64_t batch = 0; batch < 3; ++batch) {
      const std::int64_t start = batch * 1'000'000 + rank * 4000;
      times.push_back({start, start, start + 200'000});
    }
  }
  const TimeStats stats = summarise(times, 2, 20);
  EXPECT_DOUBLE_EQ(stats.avg_us, 10);
  EXPECT_DOUBLE_EQ(stats.p50_us, 10);
  EXPECT_DOUBLE_EQ(stats.p99_us, 10);
  EXPECT_DOUBLE_EQ(stats.skew_us, 4);
}

TEST(BenchTimes, TheSlowestRankCounts) {
  const TimeStats stats = summarise({{0, 0, 1000}, {0, 0, 9000}, {0, 0, 3000}, {0, 0, 2000}}, 2, 1);
  EXPECT_EQ(stats.samples_us, (std::vector<double>{3, 9}));
  EXPECT_DOUBLE_EQ(stats.avg_us, 6);
  EXPECT_DOUBLE_EQ(stats.min_us, 3);
  EXPECT_DOUBLE_EQ(stats.max_us, 9);
}

TEST(BenchTimes, PercentilesAreNearestRank) {
  std::vector<BatchTime> times;
  for (std::int64_t i = 200; i >= 1; --i) times.push_back({0, 0, i * 1000});
  const TimeStats stats = summarise(times, 1, 1);
  EXPECT_DOUBLE_EQ(stats.p50_us, 100);
  EXPECT_DOUBLE_EQ(stats.p99_us, 198);
  EXPECT_DOUBLE_EQ(summarise({{0, 0, 5000}}, 1, 1).p99_us, 5);
}

}  // namespace
}  // namespace lamppost::bench
