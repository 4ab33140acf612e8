// Sequences of calls: sizes that grow and shrink, types that alternate, eager, captured and mixed,
// one rank late. The protocol's state (three generations, extents, headers) is what is under test;
// each result is compared bit for bit.
#include <gtest/gtest.h>

#include <barrier>
#include <cstdlib>

#include "support/collective_cases.hpp"
#include "support/sleep.hpp"
#include "support/test_stream.hpp"

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

/// Enqueues all calls of the batch on every rank, each from a thread of its own, one rank late. A graph
/// is instantiated before any rank starts, and destroyed after all have ended: both may wait for the
/// device, which may be running another rank that waits for this one.
void run_batch(RankGroup& group, const std::vector<TestStream>& streams,
               std::vector<std::unique_ptr<TestCall>>& calls, Mode mode, int late_rank) {
  std::barrier all_ranks(group.size());
  RankGroup::for_each_rank(group.size(), [&](int rank) {
    const TestStream& stream = streams[static_cast<std::size_t>(rank)];
    const auto enqueue_all = [&] {
      for (auto& call : calls) {
        EXPECT_EQ(call->enqueue(group[rank], rank, stream.handle()), LP_SUCCESS)
            << lpGetLastError(group[rank]);
      }
    };
    void* graph = nullptr;
    if (mode == Mode::kGraph) {
      stream.begin_capture();
      enqueue_all();
      graph = stream.end_capture();
    }
    all_ranks.arrive_and_wait();
    if (rank == late_rank) sleep_ms(5);
    if (mode == Mode::kEager) enqueue_all();
    if (graph != nullptr) stream.launch(graph);
    stream.synchronize();
    all_ranks.arrive_and_wait();
    if (graph != nullptr) stream.destroy(graph);
  });
  for (auto& call : calls) call->expect_right();
}

TEST_P(Sequence, ShuffledSizesTypesAndModes) {
  Random random(announce_seed());
  const int world = GetParam().world;
  RankGroup group(world, group_options(GetParam()));
  const std::vector<TestStream> streams = make_streams(group);
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
}

TEST_P(Sequence, GraphReplaysReadFreshInputs) {
  const int world = GetParam().world;
  if (kHasSanitizer && world == 8) GTEST_SKIP() << "the sequence above has eight ranks";
  Random random(announce_seed());
  RankGroup group(world, group_options(GetParam()));
  std::vector<std::unique_ptr<TestCall>> calls;
  for (std::uint64_t tokens : {1, 9, 0, 3}) calls.push_back(make_call(world, tokens, 64, random));
  const std::vector<TestStream> streams = make_streams(group);
  std::vector<void*> graphs;
  for (int r = 0; r < world; ++r) {
    const TestStream& stream = streams[static_cast<std::size_t>(r)];
    stream.begin_capture();
    for (auto& call : calls) ASSERT_EQ(call->enqueue(group[r], r, stream.handle()), LP_SUCCESS);
    graphs.push_back(stream.end_capture());
  }
  auto eager = make_plain_call(world, {77, LP_FLOAT16, false, 0}, random);
  for (int replay = 0; replay < (kHasSanitizer ? 3 : 5); ++replay) {
    for (auto& call : calls) call->refill(random);
    for (std::size_t i = 0; i < streams.size(); ++i) {
      streams[i].launch(graphs[i]);
      if (replay % 2 == 1) {
        const int rank = static_cast<int>(i);
        ASSERT_EQ(eager->enqueue(group[rank], rank, streams[i].handle()), LP_SUCCESS);
      }
    }
    for (const TestStream& stream : streams) stream.synchronize();
    for (auto& call : calls) call->expect_right();
    if (replay % 2 == 1) eager->expect_right();
  }
  for (std::size_t i = 0; i < streams.size(); ++i) streams[i].destroy(graphs[i]);
}

TEST_P(Sequence, StreamsByTurnsStayOrdered) {
  const int world = GetParam().world;
  if (kHasSanitizer && world == 8) GTEST_SKIP() << "the sequence above has eight ranks";
  Random random(announce_seed());
  RankGroup group(world, group_options(GetParam()));
  std::vector<std::vector<TestStream>> streams(static_cast<std::size_t>(world));
  for (int r = 0; r < world; ++r) {
    for (int s = 0; s < 3; ++s) {
      streams[static_cast<std::size_t>(r)].emplace_back(group.workbench(r));
    }
  }
  std::vector<std::unique_ptr<TestCall>> calls;
  for (int i = 0; i < (kHasSanitizer ? 9 : 24); ++i)
    calls.push_back(make_call(world, random() % 6, 64, random));
  // A stream that waits for another may hold up a third on the same hardware queue: where ranks share a
  // device, that would be the one whose call ends the wait.
  std::barrier all_ranks(world);
  const bool is_step_by_step = !test_backend().is_host() && test_backend().shares_devices(world);
  RankGroup::for_each_rank(world, [&](int rank) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      // Ranks take different streams; only the order of calls is common.
      const TestStream& stream =
          streams[static_cast<std::size_t>(rank)][(i * static_cast<std::size_t>(rank + 1)) % 3];
      EXPECT_EQ(calls[i]->enqueue(group[rank], rank, stream.handle()), LP_SUCCESS);
      if (is_step_by_step) {
        stream.synchronize();
        all_ranks.arrive_and_wait();
      }
    }
    for (const TestStream& stream : streams[static_cast<std::size_t>(rank)]) stream.synchronize();
  });
  for (auto& call : calls) call->expect_right();
}

}  // namespace
}  // namespace lamppost::test
