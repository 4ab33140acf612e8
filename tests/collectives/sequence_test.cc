// Sequences of calls: sizes that grow and shrink, types that alternate, eager, captured and mixed,
// one rank late. The protocol's state (three generations, extents, headers) is what is under test;
// each result is compared bit for bit.
#include <gtest/gtest.h>

#include <cstdlib>

#include "support/collective_cases.hpp"
#include "support/sleep.hpp"

namespace lamppost::test {
namespace {

struct SequenceCase {
  HostVariant variant;
  int world;
};

class Sequence : public testing::TestWithParam<SequenceCase> {};

std::vector<SequenceCase> sequence_cases() {
  const bool is_short = kHasSanitizer && std::getenv("LAMPPOST_TEST_ALL") == nullptr;
  std::vector<SequenceCase> cases;
  for (const HostVariant& variant : kHostVariants) {
    for (int world : {2, 3, 8}) {
      // Under a sanitizer one world for each fault target.
      if (is_short && world != 3 && variant.kernels != host_kernels) continue;
      cases.push_back({variant, world});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(HostTargets, Sequence, testing::ValuesIn(sequence_cases()),
                         [](const auto& info) {
                           return std::string(info.param.variant.name) + "_world" +
                                  std::to_string(info.param.world);
                         });

/// How much of the full sequence a build runs: all of it takes minutes on two cores, and says no
/// more of the protocol than its short form.
struct Extent {
  int random_calls;
  std::uint64_t most_tokens;
};

GroupOptions group_options(const SequenceCase& c) {
  GroupOptions options;
  options.variant = c.variant;
  if (c.world == 8) options.max_block_threads = 64;
  if (c.world == 8 && kHasSanitizer) options.max_blocks = 1;
  return options;
}

Extent extent_of(const HostVariant& variant, std::uint64_t hidden, int world) {
  if (std::getenv("LAMPPOST_TEST_ALL") != nullptr) return {200, 2048};
  if (kHasSanitizer) return hidden > 64 ? Extent{0, 1} : Extent{6, 6};
  const auto share = static_cast<std::uint64_t>(world) / 2;
  if (hidden > 64) return {variant.kernels == host_kernels ? 20 : 8, 64 / share};
  return variant.kernels == host_kernels ? Extent{200, 2048 / share / share}
                                         : Extent{30, 512 / share};
}

/// The token counts that found a public library's stale extents, then random ones.
std::vector<std::uint64_t> token_counts(Random& random, const SequenceCase& c,
                                        std::uint64_t hidden) {
  const Extent extent = extent_of(c.variant, hidden, c.world);
  std::vector<std::uint64_t> tokens = {1, 128, 1, 7, 64, 64, 1, 2048, 1};
  for (int i = 0; i < extent.random_calls; ++i) tokens.push_back(random() % 24);
  for (std::uint64_t& count : tokens) count = std::min(count, extent.most_tokens);
  return tokens;
}

std::unique_ptr<TestCall> make_call(int world, std::uint64_t tokens, std::uint64_t hidden,
                                    Random& random) {
  constexpr lpDataType_t kTypes[] = {LP_BFLOAT16, LP_FLOAT32};
  if (random() % 3 == 0) {
    return make_plain_call(world, {tokens * hidden, kTypes[random() % 2], random() % 2 == 0, 0},
                           random);
  }
  FusedCase c;
  c.tokens = tokens;
  c.hidden = hidden;
  c.type = kTypes[random() % 2];
  c.in_place = random() % 2 == 0;
  return make_fused_call(world, c, random);
}

/// Which way a batch of calls goes to the streams.
enum class Mode { kEager, kGraph };

/// Enqueues all calls of the batch on every rank, each from a thread of its own, one rank late.
void run_batch(RankGroup& group, std::vector<lpStream_t>& streams,
               std::vector<std::unique_ptr<TestCall>>& calls, Mode mode, int late_rank) {
  RankGroup::for_each_rank(group.size(), [&](int rank) {
    lpStream_t stream = streams[static_cast<std::size_t>(rank)];
    if (rank == late_rank) sleep_ms(5);
    lpGraph_t graph = nullptr;
    if (mode == Mode::kGraph) {
      EXPECT_EQ(lpStreamBeginCapture(stream), LP_SUCCESS);
    }
    for (auto& call : calls) {
      EXPECT_EQ(call->enqueue(group[rank], rank, stream), LP_SUCCESS)
          << lpGetLastError(group[rank]);
    }
    if (mode == Mode::kGraph) {
      EXPECT_EQ(lpStreamEndCapture(stream, &graph), LP_SUCCESS);
      EXPECT_EQ(lpGraphLaunch(graph, stream), LP_SUCCESS);
    }
    EXPECT_EQ(lpStreamSynchronize(stream), LP_SUCCESS);
    EXPECT_EQ(lpGraphDestroy(graph), LP_SUCCESS);
  });
  for (auto& call : calls) call->expect_right();
}

TEST_P(Sequence, ShuffledSizesTypesAndModes) {
  Random random(announce_seed());
  const int world = GetParam().world;
  RankGroup group(world, group_options(GetParam()));
  std::vector<lpStream_t> streams(static_cast<std::size_t>(world));
  for (int r = 0; r < world; ++r) {
    ASSERT_EQ(lpStreamCreate(group[r], &streams[static_cast<std::size_t>(r)]), LP_SUCCESS);
  }
  for (std::uint64_t hidden : {std::uint64_t{64}, std::uint64_t{2880}}) {
    const std::vector<std::uint64_t> tokens = token_counts(random, GetParam(), hidden);
    for (std::size_t next = 0; next < tokens.size();) {
      // Batches of up to 12 calls without synchronising in between, by turns eager and as a graph.
      std::vector<std::unique_ptr<TestCall>> calls;
      for (; calls.size() < 12 && next < tokens.size(); ++next) {
        calls.push_back(make_call(world, tokens[next], hidden, random));
      }
      const Mode mode = random() % 2 == 0 ? Mode::kEager : Mode::kGraph;
      run_batch(group, streams, calls, mode,
                static_cast<int>(random() % static_cast<std::uint64_t>(world)));
      if (HasFailure()) break;
    }
  }
  for (lpStream_t stream : streams) EXPECT_EQ(lpStreamDestroy(stream), LP_SUCCESS);
}

TEST_P(Sequence, GraphReplaysReadFreshInputs) {
  const int world = GetParam().world;
  if (kHasSanitizer && world == 8) GTEST_SKIP() << "the sequence above has eight ranks";
  Random random(announce_seed());
  RankGroup group(world, group_options(GetParam()));
  std::vector<std::unique_ptr<TestCall>> calls;
  for (std::uint64_t tokens : {1, 9, 0, 3}) calls.push_back(make_call(world, tokens, 64, random));
  std::vector<lpStream_t> streams(static_cast<std::size_t>(world));
  std::vector<lpGraph_t> graphs(static_cast<std::size_t>(world));
  for (int r = 0; r < world; ++r) {
    const auto i = static_cast<std::size_t>(r);
    ASSERT_EQ(lpStreamCreate(group[r], &streams[i]), LP_SUCCESS);
    ASSERT_EQ(lpStreamBeginCapture(streams[i]), LP_SUCCESS);
    for (auto& call : calls) ASSERT_EQ(call->enqueue(group[r], r, streams[i]), LP_SUCCESS);
    ASSERT_EQ(lpStreamEndCapture(streams[i], &graphs[i]), LP_SUCCESS);
  }
  auto eager = make_plain_call(world, {77, LP_FLOAT16, false, 0}, random);
  for (int replay = 0; replay < (kHasSanitizer ? 3 : 5); ++replay) {
    for (auto& call : calls) call->refill(random);
    for (std::size_t i = 0; i < streams.size(); ++i) {
      ASSERT_EQ(lpGraphLaunch(graphs[i], streams[i]), LP_SUCCESS);
      if (replay % 2 == 1) {
        ASSERT_EQ(eager->enqueue(group[static_cast<int>(i)], static_cast<int>(i), streams[i]),
                  LP_SUCCESS);
      }
    }
    for (lpStream_t stream : streams) ASSERT_EQ(lpStreamSynchronize(stream), LP_SUCCESS);
    for (auto& call : calls) call->expect_right();
    if (replay % 2 == 1) eager->expect_right();
  }
  for (lpGraph_t graph : graphs) EXPECT_EQ(lpGraphDestroy(graph), LP_SUCCESS);
  for (lpStream_t stream : streams) EXPECT_EQ(lpStreamDestroy(stream), LP_SUCCESS);
}

TEST_P(Sequence, StreamsByTurnsStayOrdered) {
  const int world = GetParam().world;
  if (kHasSanitizer && world == 8) GTEST_SKIP() << "the sequence above has eight ranks";
  Random random(announce_seed());
  RankGroup group(world, group_options(GetParam()));
  std::vector<std::vector<lpStream_t>> streams(static_cast<std::size_t>(world));
  for (int r = 0; r < world; ++r) {
    for (int s = 0; s < 3; ++s) {
      lpStream_t stream = nullptr;
      ASSERT_EQ(lpStreamCreate(group[r], &stream), LP_SUCCESS);
      streams[static_cast<std::size_t>(r)].push_back(stream);
    }
  }
  std::vector<std::unique_ptr<TestCall>> calls;
  for (int i = 0; i < (kHasSanitizer ? 9 : 24); ++i)
    calls.push_back(make_call(world, random() % 6, 64, random));
  RankGroup::for_each_rank(world, [&](int rank) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      // Ranks take different streams; only the order of calls is common.
      lpStream_t stream =
          streams[static_cast<std::size_t>(rank)][(i * static_cast<std::size_t>(rank + 1)) % 3];
      EXPECT_EQ(calls[i]->enqueue(group[rank], rank, stream), LP_SUCCESS);
    }
    for (lpStream_t stream : streams[static_cast<std::size_t>(rank)]) {
      EXPECT_EQ(lpStreamSynchronize(stream), LP_SUCCESS);
    }
  });
  for (auto& call : calls) call->expect_right();
  for (auto& of_rank : streams) {
    for (lpStream_t stream : of_rank) EXPECT_EQ(lpStreamDestroy(stream), LP_SUCCESS);
  }
}

}  // namespace
}  // namespace lamppost::test
