// A rank that is late, missing or different: the call ends, the record names it, outputs are
// poison, the process goes on. Ranks are threads; tests/multi has the same with processes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <vector>

#include "health/health.hpp"
#include "support/collective_cases.hpp"
#include "support/environment_guard.hpp"
#include "support/sleep.hpp"
#include "support/test_stream.hpp"

namespace lamppost::test {
namespace {

lpHealth health_of(lpComm_t comm) {
  lpHealth health = LP_HEALTH_INITIALIZER;
  EXPECT_EQ(lpCommGetHealth(comm, &health), LP_SUCCESS);
  return health;
}

std::string text_of(const lpHealth& health) {
  std::vector<char> text(lpHealthToString(&health, nullptr, 0));
  lpHealthToString(&health, text.data(), text.size());
  return text.data();
}

/// One host target of each kind; a wait takes its time on all of them. Under a sanitizer the plain
/// one.
std::vector<HostVariant> targets() {
  if (kHasSanitizer) return {kHostVariants[0]};
  return {kHostVariants[0], kHostVariants[2], kHostVariants[3]};
}

class Failure : public testing::TestWithParam<HostVariant> {};
INSTANTIATE_TEST_SUITE_P(HostTargets, Failure, testing::ValuesIn(targets()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(Failure, ARankThatNeverCallsIsNamed) {
  Random random(announce_seed());
  GroupOptions options;
  options.variant = GetParam();
  RankGroup group(3, options);
  FusedCase c;
  c.tokens = 5;
  auto good = make_fused_call(3, c, random);
  run_and_check(group, *good);
  for (int r = 0; r < 3; ++r) ASSERT_EQ(lpCommSetTimeout(group[r], 2000), LP_SUCCESS);

  auto call = make_fused_call(3, c, random);
  for (int r : {0, 1}) ASSERT_EQ(call->enqueue(group[r], r, group.stream(r)), LP_SUCCESS);
  group.synchronize();  // succeeds: the kernels end by themselves
  int timed_out = 0;
  for (int r : {0, 1}) {
    const lpHealth health = health_of(group[r]);
    EXPECT_EQ(health.state, LP_HEALTH_FAILED);
    EXPECT_TRUE(health.error == LP_ERROR_TIMEOUT || health.error == LP_ERROR_ABORTED);
    timed_out += health.error == LP_ERROR_TIMEOUT ? 1 : 0;
    EXPECT_GE(health.waited_ms, 1800.0) << text_of(health);
    EXPECT_LE(health.waited_ms, 2200.0) << text_of(health);
    EXPECT_EQ(health.waited_for, 2) << text_of(health);
    EXPECT_EQ(health.missing[0], 4u) << text_of(health);
    EXPECT_EQ(health.call, 2u);
    EXPECT_EQ(health.peers[2].state, LP_PEER_FINISHED) << text_of(health);
    EXPECT_EQ(health.peers[2].call, 1u);
    EXPECT_NE(text_of(health).find("rank 2 has finished call 1"), std::string::npos)
        << text_of(health);
    call->expect_poison(r);
  }
  EXPECT_GE(timed_out, 1);
  // The error is sticky; nothing more is launched.
  EXPECT_NE(call->enqueue(group[0], 0, group.stream(0)), LP_SUCCESS);
  EXPECT_NE(std::string(lpGetLastError(group[0])).find("rank 2"), std::string::npos);
  // The late rank comes: it finds the abort, ends at once and poisons its output too.
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(call->enqueue(group[2], 2, group.stream(2)), LP_SUCCESS);
  group.synchronize();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(1500));
  EXPECT_EQ(group.errors()[2], LP_ERROR_ABORTED);
  call->expect_poison(2);

  RankGroup again(3, options);  // the process is healthy
  run_and_check(again, *make_fused_call(3, c, random));
}

TEST(FailureOnce, ProvisionalRecordShowsWhoWaitsAndGoesAway) {
  Random random(announce_seed());
  RankGroup group(2);
  auto call = make_plain_call(2, {100, LP_FLOAT32, false, 0}, random);
  ASSERT_EQ(call->enqueue(group[0], 0, group.stream(0)), LP_SUCCESS);
  sleep_ms(1400);
  const lpHealth waiting = health_of(group[0]);
  EXPECT_EQ(waiting.state, LP_HEALTH_WAITING);
  EXPECT_EQ(waiting.error, LP_SUCCESS);
  EXPECT_EQ(waiting.waited_for, 1);
  EXPECT_EQ(waiting.peers[1].state, LP_PEER_FINISHED);  // the self-test, call 0
  EXPECT_EQ(waiting.peers[1].call, 0u);
  EXPECT_NE(text_of(waiting).find("of rank 1 in call 1"), std::string::npos) << text_of(waiting);
  ASSERT_EQ(call->enqueue(group[1], 1, group.stream(1)), LP_SUCCESS);
  group.synchronize();
  call->expect_right();
  EXPECT_EQ(health_of(group[0]).state, LP_HEALTH_OK);
}

TEST(FailureOnce, TimeoutChangesForACallInFlight) {
  Random random(announce_seed());
  GroupOptions options;
  options.timeout_ms = 0;  // never
  RankGroup group(2, options);
  auto call = make_plain_call(2, {8, LP_BFLOAT16, false, 0}, random);
  ASSERT_EQ(call->enqueue(group[0], 0, group.stream(0)), LP_SUCCESS);
  sleep_ms(300);
  EXPECT_EQ(group.errors()[0], LP_SUCCESS);
  ASSERT_EQ(lpCommSetTimeout(group[0], 500), LP_SUCCESS);
  group.synchronize();
  EXPECT_EQ(group.errors()[0], LP_ERROR_TIMEOUT);
  call->expect_poison(0);
}

TEST(FailureOnce, ALateRankIsNoFailure) {
  Random random(announce_seed());
  const EnvironmentGuard fault("LAMPPOST_FAULT", "rank=1,call=2,phase=publish,delay_ms=700");
  RankGroup group(3);
  for (int i = 0; i < 4; ++i) {
    auto call = make_plain_call(3, {1000, LP_BFLOAT16, false, 0}, random);
    const auto start = std::chrono::steady_clock::now();
    run_and_check(group, *call);
    const auto took = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(took >= std::chrono::milliseconds(650), i == 1) << "call " << i + 1;
  }
}

TEST(FailureOnce, ARankLaterThanTheTimeoutEndsWithTheOthers) {
  // Rank 1 publishes only after the others have given up. Its own call may still succeed, since the
  // others had published; the next one must not.
  Random random(announce_seed());
  const EnvironmentGuard fault("LAMPPOST_FAULT", "rank=1,call=1,phase=publish,delay_ms=1500");
  GroupOptions options;
  options.timeout_ms = 500;
  RankGroup group(3, options);
  auto first = make_plain_call(3, {64, LP_FLOAT32, false, 0}, random);
  auto second = make_plain_call(3, {64, LP_FLOAT32, false, 0}, random);
  for (int r = 0; r < 3; ++r) {
    ASSERT_EQ(first->enqueue(group[r], r, group.stream(r)), LP_SUCCESS);
    ASSERT_EQ(second->enqueue(group[r], r, group.stream(r)), LP_SUCCESS);
  }
  group.synchronize();
  for (int r = 0; r < 3; ++r) {
    EXPECT_NE(group.errors()[static_cast<std::size_t>(r)], LP_SUCCESS);
    second->expect_poison(r);
  }
  for (int r : {0, 2}) {
    first->expect_poison(r);
    EXPECT_EQ(health_of(group[r]).waited_for, 1);
  }
  EXPECT_EQ(health_of(group[1]).abort_call, 1u);
}

/// Two ranks that make different calls; both must learn it at once, with both values. But a block that
/// starts after the peer has found out learns from the peer, and may be the first of its rank to fail.
void expect_mismatch(TestCall& of_rank0, TestCall& of_rank1, const std::string& text_of_rank0,
                     const std::string& text_of_rank1) {
  RankGroup group(2);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(of_rank0.enqueue(group[0], 0, group.stream(0)), LP_SUCCESS);
  ASSERT_EQ(of_rank1.enqueue(group[1], 1, group.stream(1)), LP_SUCCESS);
  group.synchronize();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  int found_out = 0;
  for (int r : {0, 1}) {
    const lpHealth health = health_of(group[r]);
    if (health.error == LP_ERROR_ABORTED) {
      EXPECT_EQ(health.abort_source, 1 - r) << text_of(health);
      EXPECT_EQ(health.abort_call, 1u) << text_of(health);
      continue;
    }
    ++found_out;
    EXPECT_EQ(health.error, LP_ERROR_MISMATCH) << text_of(health);
    EXPECT_EQ(health.waited_for, 1 - r);
    EXPECT_NE(health.expected, health.seen);
    EXPECT_NE(text_of(health).find(r == 0 ? text_of_rank0 : text_of_rank1), std::string::npos)
        << text_of(health);
  }
  EXPECT_GE(found_out, 1);
  of_rank0.expect_poison(0);
  of_rank1.expect_poison(1);
}

TEST(FailureOnce, DifferentCallsAreAMismatch) {
  Random random(announce_seed());
  FusedCase six;
  six.tokens = 6;
  FusedCase seven = six;
  seven.tokens = 7;
  FusedCase none = six;
  none.tokens = 0;
  FusedCase fp16 = six;
  fp16.type = LP_FLOAT16;
  FusedCase epsilon = six;
  epsilon.epsilon = 1e-5f;
  FusedCase wide = six;
  wide.hidden = 72;
  const auto fused = [&](const FusedCase& c) { return make_fused_call(2, c, random); };
  const std::string other = "another operation";
  expect_mismatch(*fused(six), *fused(seven), "6 tokens or elements here, 7 there",
                  "7 tokens or elements here, 6 there");
  expect_mismatch(*fused(seven), *fused(six), "7 tokens or elements here, 6 there",
                  "6 tokens or elements here, 7 there");
  expect_mismatch(*fused(six), *fused(none), "6 tokens or elements here, 0 there",
                  "0 tokens or elements here, 6 there");
  expect_mismatch(*fused(six), *fused(fp16), other, other);
  expect_mismatch(*fused(six), *fused(epsilon), other, other);
  expect_mismatch(*fused(six), *fused(wide), other, other);
  expect_mismatch(*fused(six), *make_plain_call(2, {6, LP_BFLOAT16, false, 0}, random), other,
                  other);
  expect_mismatch(*make_plain_call(2, {100, LP_FLOAT32, false, 0}, random),
                  *make_plain_call(2, {50, LP_FLOAT32, false, 0}, random),
                  "100 tokens or elements here, 50 there", "50 tokens or elements here, 100 there");
}

TEST(FailureOnce, TwoCallsInFlightAreReported) {
  Random random(announce_seed());
  // Both launches of rank 0 read call 1 and linger before they leave.
  const EnvironmentGuard fault("LAMPPOST_FAULT", "rank=0,call=1,phase=arrive,delay_ms=500");
  GroupOptions options;
  options.timeout_ms = 3000;
  RankGroup group(2, options);
  auto call = make_plain_call(2, {64, LP_FLOAT32, false, 0}, random);
  auto other = make_plain_call(2, {64, LP_FLOAT32, false, 0}, random);
  std::vector<TestStream> streams;
  std::vector<void*> graphs;
  for (TestCall* captured : {call.get(), other.get()}) {
    const TestStream& stream = streams.emplace_back(group.workbench(0));
    stream.begin_capture();
    ASSERT_EQ(captured->enqueue(group[0], 0, stream.handle()), LP_SUCCESS);
    graphs.push_back(stream.end_capture());
  }
  for (std::size_t i = 0; i < 2; ++i) streams[i].launch(graphs[i]);
  ASSERT_EQ(call->enqueue(group[1], 1, group.stream(1)), LP_SUCCESS);
  ASSERT_EQ(other->enqueue(group[1], 1, group.stream(1)), LP_SUCCESS);
  for (const TestStream& stream : streams) stream.synchronize();
  group.synchronize();
  EXPECT_EQ(group.errors()[0], LP_ERROR_CORRUPT);
  EXPECT_NE(text_of(health_of(group[0])).find("in flight"), std::string::npos);
  EXPECT_EQ(group.errors()[1], LP_ERROR_ABORTED);
  EXPECT_EQ(health_of(group[1]).abort_source, 0);
  for (std::size_t i = 0; i < 2; ++i) streams[i].destroy(graphs[i]);
}

TEST(FailureOnce, AFailedGraphReplayPoisonsAndEnds) {
  Random random(announce_seed());
  GroupOptions options;
  options.timeout_ms = 400;
  RankGroup group(2, options);
  auto call = make_plain_call(2, {640, LP_BFLOAT16, false, 0}, random);
  const TestStream stream(group.workbench(0));
  stream.begin_capture();
  for (int i = 0; i < 3; ++i) ASSERT_EQ(call->enqueue(group[0], 0, stream.handle()), LP_SUCCESS);
  void* graph = stream.end_capture();
  for (int replay = 0; replay < 3; ++replay) stream.launch(graph);
  const auto start = std::chrono::steady_clock::now();
  stream.synchronize();
  // One wait of 400 ms, not nine: calls after the failure wait for nobody.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(1500));
  EXPECT_EQ(group.errors()[0], LP_ERROR_TIMEOUT);
  call->expect_poison(0);
  stream.destroy(graph);
}

TEST(FailureOnce, OverwrittenGuardIsReported) {
  RankGroup group(2);
  Communicator& victim = group.communicator(1);
  const device::Layout layout = victim.workspace().layout;
  std::byte* own = victim.workspace().peers.table.own();
  for (std::uint64_t offset :
       {std::uint64_t{0}, device::Layout::kControlBytes - 4, layout.end_guard()}) {
    std::uint32_t kept = 0;
    ASSERT_TRUE(victim.driver().read(&kept, own + offset, sizeof(kept)).ok());
    const std::uint32_t wrong = 0;
    ASSERT_TRUE(victim.driver().write(own + offset, &wrong, sizeof(wrong)).ok());
    const Status status = check_guards(victim.driver(), victim.workspace());
    EXPECT_EQ(status.code(), LP_ERROR_CORRUPT) << offset;
    EXPECT_NE(status.message().find("rank 1"), std::string::npos) << status.message();
    ASSERT_TRUE(victim.driver().write(own + offset, &kept, sizeof(kept)).ok());
  }
}

TEST(FailureOnce, OverwrittenGuardIsReportedByDestroy) {
  lpConfig config = LP_CONFIG_INITIALIZER;
  config.backend = test_backend().backend;
  config.allow_shared_device = 1;
  const int devices[] = {0, 0};
  auto created = create_all(2, &config, devices);
  ASSERT_TRUE(created.ok()) << created.status().message();
  Communicator& victim = *created.value()[1];
  const std::uint32_t wrong = 0;
  std::byte* own = victim.workspace().peers.table.own();
  ASSERT_TRUE(victim.driver().write(own, &wrong, sizeof(wrong)).ok());
  EXPECT_EQ(victim.shut_down().code(), LP_ERROR_CORRUPT);
  EXPECT_TRUE(created.value()[0]->shut_down().ok());
}

}  // namespace
}  // namespace lamppost::test
