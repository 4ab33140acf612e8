// What only the socket bootstrap promises: strangers, refusals, signals, descriptors, addresses.
#include "bootstrap/socket_bootstrap.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "bootstrap/socket_channel.hpp"
#include "bootstrap/thread_bootstrap.hpp"
#include "support/bootstrap_world.hpp"
#include "support/fork_launcher.hpp"
#include "support/sleep.hpp"

namespace lamppost::test {
namespace {

constexpr std::uint64_t kSecret = 0x0123456789abcdef;

SocketBootstrapOptions options_for(const std::string& address, int rank, int rank_count) {
  return {address, rank, rank_count, kSecret, 20'000};
}

/// Joins and gathers; 0 if all is well. For bodies of run_ranks.
int join_and_gather(const SocketBootstrapOptions& options) {
  auto made = make_socket_bootstrap(options);
  if (!made.ok()) return 1;
  std::vector<int> all;
  if (!all_gather_value(*made.value(), options.rank, all, "test").ok()) return 2;
  for (int rank = 0; rank < options.rank_count; ++rank) {
    if (all[static_cast<std::size_t>(rank)] != rank) return 3;
  }
  return 0;
}

/// Joins, which must fail with `code` and `word` in its text; 0 if so.
int fail_to_join(const SocketBootstrapOptions& options, lpResult_t code, const std::string& word) {
  auto made = make_socket_bootstrap(options);
  if (made.ok()) return 1;
  if (made.status().code() == code && made.status().message().find(word) != std::string::npos) {
    return 0;
  }
  fmt::print(stderr, "rank {}: {} ({})\n", options.rank, made.status().message(),
             int(made.status().code()));
  return 2;
}

void expect_all_ok(const std::vector<RankExit>& exits) {
  for (std::size_t rank = 0; rank < exits.size(); ++rank) {
    EXPECT_TRUE(exits[rank].ok()) << "rank " << rank << ": exit code " << exits[rank].exit_code
                                  << ", signal " << exits[rank].signal;
  }
}

FileDescriptor connect_raw(const std::string& address) {
  auto connected = boot::connect_to(address, boot::Deadline::after_ms(10'000));
  return connected.ok() ? connected.take() : FileDescriptor();
}

TEST(SocketBootstrapTest, StrangersAreIgnored) {
  const std::string address = unique_socket_address();
  // Process 3 is three strangers; rank 2 comes last, after them.
  expect_all_ok(run_ranks(4, [&](int process) {
    if (process == 2) sleep_ms(500);
    if (process != 3) return join_and_gather(options_for(address, process, 3));
    boot::SocketChannel silent(connect_raw(address));
    boot::SocketChannel garbage(connect_raw(address));
    boot::Frame noise;
    noise.magic = 0x6e6f697365;
    garbage.try_send(noise);
    SocketBootstrapOptions other_job = options_for(address, 2, 3);
    other_job.secret += 1;
    const int failed = fail_to_join(other_job, LP_ERROR_PEER_LOST, "secret");
    sleep_ms(500);  // the silent one stays while the ranks join
    return failed;
  }));
}

TEST(SocketBootstrapTest, ManyStrangersDoNotUseUpDescriptors) {
  const std::string address = unique_socket_address();
  expect_all_ok(run_ranks(3, [&](int process) {
    const rlimit few = {128, 128};
    if (process == 0) ::setrlimit(RLIMIT_NOFILE, &few);
    if (process == 1) sleep_ms(500);
    if (process != 2) return join_and_gather(options_for(address, process, 2));
    std::vector<FileDescriptor> held;
    for (int i = 0; i < 300; ++i) held.push_back(connect_raw(address));
    sleep_ms(300);
    return 0;
  }));
}

TEST(SocketBootstrapTest, SecondProcessOfARankIsRefused) {
  const std::string address = unique_socket_address();
  expect_all_ok(run_ranks(4, [&](int process) {
    if (process == 2) sleep_ms(500);
    if (process != 3) return join_and_gather(options_for(address, process, 3));
    sleep_ms(200);  // rank 1 is first
    return fail_to_join(options_for(address, 1, 3), LP_ERROR_BOOTSTRAP,
                        "rank 1 has joined already");
  }));
}

TEST(SocketBootstrapTest, OtherRankCountFailsEveryRank) {
  const std::string address = unique_socket_address();
  expect_all_ok(run_ranks(3, [&](int rank) {
    if (rank == 2) sleep_ms(200);
    return fail_to_join(options_for(address, rank, rank == 2 ? 5 : 3), LP_ERROR_BOOTSTRAP,
                        "rank 2 was told of 5 ranks, rank 0 of 3");
  }));
}

TEST(SocketBootstrapTest, OtherVersionFailsEveryRank) {
  const std::string address = unique_socket_address();
  expect_all_ok(run_ranks(3, [&](int rank) {
    const char* words = "rank 2 speaks bootstrap version 7, rank 0 version 1";
    if (rank < 2) return fail_to_join(options_for(address, rank, 3), LP_ERROR_BOOTSTRAP, words);
    sleep_ms(200);
    boot::SocketChannel channel(connect_raw(address));
    boot::Frame hello;
    hello.version = 7;
    hello.kind = boot::FrameKind::kHello;
    hello.secret = kSecret;
    hello.rank = 2;
    hello.rank_count = 3;
    channel.try_send(hello);
    sleep_ms(200);
    return 0;
  }));
}

TEST(SocketBootstrapTest, DeathWhileJoiningIsNamed) {
  const std::string address = unique_socket_address();
  ForkedRanks ranks(4, [&](int rank) {
    if (rank == 3) sleep_ms(10'000);  // never joins: the others wait in the join
    return fail_to_join(options_for(address, rank, 4), LP_ERROR_PEER_LOST, "rank 1 is gone");
  });
  sleep_ms(500);
  ranks.kill(1, SIGKILL);
  sleep_ms(500);
  ranks.kill(3, SIGKILL);
  const auto exits = ranks.wait_all(5'000);
  EXPECT_TRUE(exits[0].ok());
  EXPECT_EQ(exits[1].signal, SIGKILL);
  EXPECT_TRUE(exits[2].ok());
}

std::atomic<int> alarms{0};

TEST(SocketBootstrapTest, SignalsAreHarmless) {
  BootstrapWorld world(BootstrapKind::kSockets, 4);
  ASSERT_TRUE(world.run([](Rank& rank) {
    struct sigaction action = {};
    action.sa_handler = [](int) { alarms.fetch_add(1, std::memory_order_relaxed); };
    ::sigaction(SIGALRM, &action, nullptr);  // without SA_RESTART
    const itimerval every_ms = {{0, 1000}, {0, 1000}};
    ::setitimer(ITIMER_REAL, &every_ms, nullptr);
    const std::vector<char> mine(1 << 20, 'm');
    std::vector<char> all(4 << 20);
    Status status;
    for (std::uint64_t step = 0; step < 100 && status.ok(); ++step) {
      status = rank.gather_numbers(step);
      if (step % 20 != 0 || !status.ok()) continue;
      if (rank.rank() == static_cast<int>(step / 20) % 4) sleep_ms(30);
      status = rank.bootstrap().all_gather(mine.data(), all.data(), mine.size(), "large");
    }
    if (status.ok() && alarms < 20) return Status(LP_ERROR_INTERNAL, "no alarms came");
    return status;
  }));
  EXPECT_EQ(world.check_all(LP_SUCCESS, {}), "");
}

TEST(SocketBootstrapTest, SignalsWhileJoiningAreHarmless) {
  const std::string address = unique_socket_address();
  expect_all_ok(run_ranks(3, [&](int rank) {
    struct sigaction action = {};
    action.sa_handler = [](int) {};
    ::sigaction(SIGALRM, &action, nullptr);
    const itimerval every_ms = {{0, 1000}, {0, 1000}};
    ::setitimer(ITIMER_REAL, &every_ms, nullptr);
    const auto start = std::chrono::steady_clock::now();  // a plain sleep would be cut short
    while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(100 * (2 - rank))) {
    }
    return join_and_gather(options_for(address, rank, 3));
  }));
}

TEST(SocketBootstrapTest, PathAddressLeavesNoFile) {
  const std::string path = fmt::format("/tmp/lamppost-test-{}.sock", ::getpid());
  expect_all_ok(
      run_ranks(3, [&](int rank) { return join_and_gather(options_for(path, rank, 3)); }));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(SocketBootstrapTest, DescriptorsAreClosed) {
  const auto count_descriptors = [] {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return std::distance(begin(files), end(files));
  };
  const std::string address = unique_socket_address();
  expect_all_ok(run_ranks(3, [&](int rank) {
    const auto before = count_descriptors();
    for (int repeat = 0; repeat < 30; ++repeat) {
      const std::string name = fmt::format("{}-{}", address, repeat);
      if (const int failed = join_and_gather(options_for(name, rank, 3)); failed != 0)
        return failed;
    }
    return count_descriptors() == before ? 0 : 4;
  }));
}

TEST(SocketBootstrapTest, SecondJobWithTheAddressIsToldSo) {
  const std::string address = unique_socket_address();
  expect_all_ok(run_ranks(3, [&](int process) {
    if (process == 1) sleep_ms(400);
    if (process < 2) return join_and_gather(options_for(address, process, 2));
    sleep_ms(200);
    return fail_to_join(options_for(address, 0, 2), LP_ERROR_BOOTSTRAP, "is in use");
  }));
}

TEST(SocketBootstrapTest, BadOptionsAreRefused) {
  const auto code = [](const SocketBootstrapOptions& options) {
    return make_socket_bootstrap(options).status().code();
  };
  EXPECT_EQ(code({"@a", 0, 0, 1, 100}), LP_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code({"@a", 0, LP_MAX_RANKS + 1, 1, 100}), LP_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code({"@a", 2, 2, 1, 100}), LP_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code({"@a", -1, 2, 1, 100}), LP_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code({"@a", 0, 2, 1, 0}), LP_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code({"", 0, 2, 1, 100}), LP_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(code({std::string(108, 'a'), 1, 2, 1, 100}), LP_ERROR_INVALID_ARGUMENT);
}

TEST(ThreadBootstrapTest, RankOutOfRangeOrTakenIsRefused) {
  const auto group = std::make_shared<ThreadGroup>(2);
  EXPECT_EQ(make_thread_bootstrap(group, 2)->barrier("x").code(), LP_ERROR_BOOTSTRAP);
  EXPECT_EQ(make_thread_bootstrap(group, -1)->barrier("x").code(), LP_ERROR_BOOTSTRAP);
  const auto first = make_thread_bootstrap(group, 0);
  EXPECT_EQ(make_thread_bootstrap(group, 0)->barrier("x").code(), LP_ERROR_BOOTSTRAP);
}

}  // namespace
}  // namespace lamppost::test
