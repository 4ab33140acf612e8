// Ranks as processes over the Unix-socket bootstrap and passed descriptors: right results, a rank
// that never calls seen from outside, a killed rank, a stopped rank.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <csignal>

#include "api/creation.hpp"
#include "api/handles.hpp"
#include "bootstrap/socket_bootstrap.hpp"
#include "health/health.hpp"
#include "support/collective_cases.hpp"
#include "support/environment_guard.hpp"
#include "support/fork_launcher.hpp"
#include "support/pidfd_probe.hpp"
#include "support/sleep.hpp"

namespace lamppost::test {
namespace {

constexpr int kRanks = 3;

/// Small integers: their sums are exact, so every rank can check without the others' inputs.
std::vector<float> input_of(int rank, std::size_t count, int call) {
  std::vector<float> input(count);
  for (std::size_t i = 0; i < count; ++i) {
    input[i] = static_cast<float>((rank + 1) * (static_cast<int>(i % 50) + call));
  }
  return input;
}

/// This process' rank: connects, creates; null after printing why not.
lpComm_t join(const std::string& address, int rank, std::int64_t timeout_ms) {
  auto bootstrap = make_socket_bootstrap({address, rank, kRanks, 1234, 20'000});
  if (!bootstrap.ok()) {
    std::fprintf(stderr, "rank %d: %s\n", rank, bootstrap.status().message().c_str());
    return nullptr;
  }
  lpConfig config = LP_CONFIG_INITIALIZER;
  config.timeout_ms = timeout_ms;
  config.setup_timeout_ms = 20'000;
  config.slot_bytes = 256 * 1024;
  auto created = create_communicator(*bootstrap.value(), resolve_config(&config));
  if (!created.ok()) {
    std::fprintf(stderr, "rank %d: %s\n", rank, created.status().message().c_str());
    return nullptr;
  }
  return publish(created.take()).value();
}

lpResult_t all_reduce(lpComm_t comm, std::vector<float>& data) {
  const lpResult_t result =
      lpAllReduce(data.data(), data.data(), data.size(), LP_FLOAT32, LP_SUM, comm, nullptr);
  if (result != LP_SUCCESS) return result;
  lpCommSynchronize(comm);
  lpResult_t error = LP_SUCCESS;
  lpCommGetAsyncError(comm, &error);
  return error;
}

bool is_right(const std::vector<float>& data, int call) {
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (data[i] != 6.0f * static_cast<float>(static_cast<int>(i % 50) + call)) return false;
  }
  return true;
}

/// Words that all processes share, to tell each other how far they are.
struct Progress {
  std::atomic<int> ready[kRanks];
  std::atomic<int> go;
};
Progress* shared_progress() {
  void* memory =
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return new (memory) Progress{};
}
void wait_for_all(const Progress& progress) {
  for (const auto& ready : progress.ready) {
    while (ready.load() == 0) sleep_ms(2);
  }
}

/// A whole life of all ranks.
void expect_right_sums() {
  const std::string address = unique_socket_address();
  const auto exits = run_ranks(kRanks, [&](int rank) {
    lpComm_t comm = join(address, rank, 30'000);
    if (comm == nullptr) return 1;
    for (int call = 0; call < 50; ++call) {
      std::vector<float> data =
          input_of(rank, static_cast<std::size_t>(1 + 977 * (call % 7)), call);
      if (all_reduce(comm, data) != LP_SUCCESS || !is_right(data, call)) return 2;
    }
    return lpCommDestroy(comm) == LP_SUCCESS ? 0 : 3;
  });
  for (const RankExit& exit : exits) EXPECT_EQ(exit.exit_code, 0);
}

TEST(Processes, ReduceRight) { expect_right_sums(); }

TEST(Processes, ReduceRightWhereARankHasNoSocketForDescriptors) {
  const std::string reason = why_no_pidfd();
  if (!reason.empty()) GTEST_SKIP() << reason;
  const EnvironmentGuard fault("LAMPPOST_FAULT", "rank=1,step=socket");
  expect_right_sums();
}

TEST(Processes, ARankThatNeverCallsIsSeenFromOutside) {
  const std::string address = unique_socket_address();
  Progress* progress = shared_progress();
  ForkedRanks ranks(kRanks, [&](int rank) {
    lpComm_t comm = join(address, rank, 2'500);
    if (comm == nullptr) return 1;
    progress->ready[rank] = 1;
    if (rank == 2) {
      while (progress->go == 0) sleep_ms(5);
      return 0;
    }
    std::vector<float> data = input_of(rank, 100, 1);
    const lpResult_t error = all_reduce(comm, data);
    lpHealth health = LP_HEALTH_INITIALIZER;
    lpCommGetHealth(comm, &health);
    const bool is_named =
        health.waited_for == 2 && health.waited_ms > 2250 && health.waited_ms < 2750;
    const bool is_failure = error == LP_ERROR_TIMEOUT || error == LP_ERROR_ABORTED;
    return is_named && is_failure && data[0] != data[0] && lpCommDestroy(comm) == LP_SUCCESS ? 0
                                                                                             : 2;
  });
  wait_for_all(*progress);
  sleep_ms(1'500);
  for (int rank : {0, 1}) {
    auto pages = read_process_health(ranks.pid(rank));
    ASSERT_TRUE(pages.ok()) << pages.status().message();
    ASSERT_EQ(pages.value().size(), 1u);
    const lpHealth& health = pages.value()[0].health;
    EXPECT_EQ(health.state, LP_HEALTH_WAITING) << describe_health(health);
    EXPECT_EQ(health.rank, rank);
    EXPECT_EQ(health.waited_for, 2) << describe_health(health);
    EXPECT_EQ(health.peers[2].state, LP_PEER_FINISHED);
    EXPECT_EQ(health.peers[1 - rank].state, LP_PEER_IN_CALL);
  }
  auto idle = read_process_health(ranks.pid(2));
  ASSERT_TRUE(idle.ok());
  EXPECT_EQ(idle.value()[0].health.state, LP_HEALTH_OK);
  sleep_ms(2'000);
  progress->go = 1;
  for (const RankExit& exit : ranks.wait_all(20'000)) EXPECT_EQ(exit.exit_code, 0);
}

TEST(Processes, AKilledRankIsNamedAndTheOthersGoOn) {
  const std::string address = unique_socket_address();
  Progress* progress = shared_progress();
  ForkedRanks ranks(kRanks, [&](int rank) {
    lpComm_t comm = join(address, rank, 1'000);
    if (comm == nullptr) return 1;
    progress->ready[rank] = 1;
    for (int call = 0;; ++call) {
      std::vector<float> data = input_of(rank, 3000, call);
      if (all_reduce(comm, data) == LP_SUCCESS) continue;
      lpHealth health = LP_HEALTH_INITIALIZER;
      lpCommGetHealth(comm, &health);
      return health.waited_for == 1 && lpCommDestroy(comm) == LP_SUCCESS ? 0 : 2;
    }
  });
  wait_for_all(*progress);
  sleep_ms(100);
  ranks.kill(1, SIGKILL);
  const auto& exits = ranks.wait_all(15'000);
  EXPECT_EQ(exits[0].exit_code, 0);
  EXPECT_EQ(exits[1].signal, SIGKILL);
  EXPECT_EQ(exits[2].exit_code, 0);
}

TEST(Processes, AStoppedRankDoesNotExpireWhenItGoesOn) {
  // Rank 0 waits, is stopped for longer than its timeout (a debugger), and goes on: the stop counts
  // as one clamped step, so that it still waits for rank 1 and succeeds.
  const std::string address = unique_socket_address();
  Progress* progress = shared_progress();
  ForkedRanks ranks(kRanks, [&](int rank) {
    lpComm_t comm = join(address, rank, 1'500);
    if (comm == nullptr) return 1;
    progress->ready[rank] = 1;
    if (rank != 0) {
      while (progress->go == 0) sleep_ms(2);
    }
    std::vector<float> data = input_of(rank, 64, 1);
    return all_reduce(comm, data) == LP_SUCCESS && is_right(data, 1) &&
                   lpCommDestroy(comm) == LP_SUCCESS
               ? 0
               : 2;
  });
  wait_for_all(*progress);
  sleep_ms(200);
  ranks.kill(0, SIGSTOP);
  sleep_ms(2'500);
  ranks.kill(0, SIGCONT);
  sleep_ms(100);
  progress->go = 1;
  for (const RankExit& exit : ranks.wait_all(15'000)) EXPECT_EQ(exit.exit_code, 0);
}

TEST(Processes, HealthOfAProcessWithoutCommunicators) {
  EXPECT_FALSE(read_process_health(999'999'999).ok());
  auto own = read_process_health(getpid());
  ASSERT_TRUE(own.ok());
  EXPECT_TRUE(own.value().empty());
}

}  // namespace
}  // namespace lamppost::test
