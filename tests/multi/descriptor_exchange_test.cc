// Descriptors between processes, where something stands in the way: no socket on a rank, another
// network or PID namespace, system calls that a sandbox denies, no free descriptor. Every rank gets
// every descriptor, or every rank the same error.
#include "transports/descriptor_exchange.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <chrono>
#include <cstring>
#include <functional>

#include "bootstrap/socket_bootstrap.hpp"
#include "support/fork_launcher.hpp"
#include "support/pidfd_probe.hpp"
#include "support/resource_count.hpp"

namespace lamppost::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRanks = 3;
constexpr std::int64_t kTimeoutMs = 20'000;
enum RankCode { kGood = 0, kNoBootstrap = 1, kWrongContent = 2, kLeak = 3, kNotPrepared = 4 };

struct Verdict {
  int code;
  char text[1024];
};

/// What the ranks have in their way, and how they ended.
class Exchange {
 public:
  Exchange() {
    void* memory = mmap(nullptr, kRanks * sizeof(Verdict), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    verdicts_ = static_cast<Verdict*>(memory);
  }
  ~Exchange() { munmap(verdicts_, kRanks * sizeof(Verdict)); }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  std::string fault;                                     // LAMPPOST_FAULT's
  std::function<bool(int)> prepare;                      // in a rank, once it has a bootstrap
  std::function<int(const std::function<int()>&)> wrap;  // runs rank 1's body
  bool rank_one_has_none = false;                        // its descriptor is a closed one

  void run() {
    address_ = unique_socket_address();
    const Clock::time_point start = Clock::now();
    const auto exits = run_ranks(kRanks, [this](int rank) {
      const auto body = [this, rank] { return take_part(rank); };
      return rank == 1 && wrap ? wrap(body) : body();
    });
    EXPECT_LT(Clock::now() - start, std::chrono::milliseconds(kTimeoutMs / 2 - 2'000));
    for (const RankExit& exit : exits) EXPECT_EQ(exit.exit_code, kGood);
  }

  void expect_success() {
    run();
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(verdicts_[rank].code, LP_SUCCESS) << verdicts_[rank].text;
    }
  }

  /// The text that all ranks got.
  std::string expect_failure(lpResult_t code) {
    run();
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(verdicts_[rank].code, code) << verdicts_[rank].text;
      EXPECT_STREQ(verdicts_[rank].text, verdicts_[0].text);
    }
    return verdicts_[0].text;
  }

 private:
  int take_part(int rank) {
    auto bootstrap = make_socket_bootstrap({address_, rank, kRanks, 4321, kTimeoutMs});
    if (!bootstrap.ok()) return kNoBootstrap;
    FileDescriptor mine(memfd_create("lamppost-test", MFD_CLOEXEC));
    if (pwrite(mine.get(), &rank, sizeof(rank), 0) != sizeof(rank)) return kNotPrepared;
    std::vector<bool> wanted(kRanks, true);
    wanted[static_cast<std::size_t>(rank)] = false;
    const PlantedFault planted = parse_planted_fault(fault).take();
    if (prepare && !prepare(rank)) return kNotPrepared;
    const int before = count_resources().descriptors;
    const int given = rank == 1 && rank_one_has_none ? 1000 : mine.get();
    int code = kGood;
    {
      const auto received = exchange_descriptors(*bootstrap.value(), {given, wanted, planted});
      verdicts_[rank].code = received.status().code();
      std::strncpy(verdicts_[rank].text, received.status().message().c_str(), 1023);
      if (received.ok() && !is_right(received.value(), wanted)) code = kWrongContent;
    }
    return count_resources().descriptors == before ? code : kLeak;
  }

  static bool is_right(const std::vector<FileDescriptor>& received,
                       const std::vector<bool>& wanted) {
    for (int rank = 0; rank < kRanks; ++rank) {
      const FileDescriptor& descriptor = received[static_cast<std::size_t>(rank)];
      if (descriptor.is_open() != wanted[static_cast<std::size_t>(rank)]) return false;
      int content = rank;
      if (descriptor.is_open() && pread(descriptor.get(), &content, 4, 0) != 4) return false;
      if (content != rank) return false;
    }
    return true;
  }

  std::string address_;
  Verdict* verdicts_;
};

/// From now on this system call fails with `error` in this process. False if that cannot be had.
bool deny(long call, int error) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  sock_fprog filter{4, program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

/// Whether `preparation` works in a process of its own.
bool is_possible(const std::function<bool()>& preparation) {
  return run_ranks(1, [&](int) { return preparation() ? 0 : 1; })[0].ok();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class Descriptors : public testing::Test {
 protected:
  Exchange exchange_;
};

/// Those that need the second way to work.
class DescriptorsByPidfd : public Descriptors {
 protected:
  void SetUp() override {
    const std::string reason = why_no_pidfd();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
};

TEST_F(Descriptors, GoOverSockets) {
  exchange_.prepare = [](int) { return deny(SYS_pidfd_getfd, EPERM); };  // not needed
  if (!is_possible([] { return deny(SYS_pidfd_getfd, EPERM); })) exchange_.prepare = nullptr;
  exchange_.expect_success();
}

TEST_F(DescriptorsByPidfd, AreTakenWhereAnyRankHasNoSocket) {
  for (int rank = 0; rank < kRanks; ++rank) {
    SCOPED_TRACE(rank);
    exchange_.fault = fmt::format("rank={},step=socket", rank);
    exchange_.expect_success();
  }
}

TEST_F(DescriptorsByPidfd, AreTakenAcrossNetworkNamespaces) {
  const auto leave = [] { return unshare(CLONE_NEWNET) == 0; };
  if (!is_possible(leave)) GTEST_SKIP() << "no network namespace can be made here";
  exchange_.prepare = [&](int rank) { return rank != 1 || leave(); };
  exchange_.expect_success();
}

TEST_F(Descriptors, BothWaysFailWithOneErrorThatNamesTheFirst) {
  exchange_.fault = "rank=2,step=socket,step=pidfd";
  const std::string text = exchange_.expect_failure(LP_ERROR_SYSTEM);
  EXPECT_EQ(
      text.find("rank 2 failed at step 'connect Unix sockets for memory descriptors': planted"), 0u)
      << text;
  EXPECT_TRUE(
      has(text, "without sockets, rank 2 failed at step 'take memory descriptors by pidfd'"))
      << text;
}

TEST_F(DescriptorsByPidfd, RefusalIsExplained) {
  struct Case {
    long call;
    int error;
    const char* advice;
  };
  for (const Case& c :
       {Case{SYS_pidfd_getfd, EPERM, "pidfd_getfd of rank 0 failed: Operation not permitted"},
        Case{SYS_pidfd_getfd, EPERM, "--cap-add=SYS_PTRACE"},
        Case{SYS_pidfd_getfd, ENOSYS, "Linux 5.6"},
        Case{SYS_pidfd_open, ENOSYS, "pidfd_open of rank 0 failed"}}) {
    SCOPED_TRACE(c.advice);
    if (!is_possible([&] { return deny(c.call, c.error); }))
      GTEST_SKIP() << "no seccomp filter here";
    exchange_.fault = "rank=0,step=socket";
    exchange_.prepare = [&](int rank) { return rank != 2 || deny(c.call, c.error); };
    const std::string text = exchange_.expect_failure(LP_ERROR_SYSTEM);
    EXPECT_TRUE(has(text, "rank 0 failed at step 'connect Unix sockets")) << text;
    EXPECT_TRUE(has(text, "rank 2 failed at step 'take memory descriptors by pidfd'")) << text;
    EXPECT_TRUE(has(text, c.advice)) << text;
  }
}

TEST_F(DescriptorsByPidfd, AProcessOfTheSameNumberElsewhereIsNotTakenForTheRank) {
  exchange_.wrap = [](const std::function<int()>& body) -> int {
    if (unshare(CLONE_NEWPID) != 0) return kNotPrepared;
    const pid_t child = fork();
    if (child == 0) _exit(body());
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  const auto is_first = [&] { return exchange_.wrap([] { return getpid() == 1 ? 0 : 1; }) == 0; };
  if (!is_possible(is_first)) GTEST_SKIP() << "no PID namespace can be made here";
  exchange_.fault = "rank=0,step=socket";
  const std::string text = exchange_.expect_failure(LP_ERROR_SYSTEM);
  EXPECT_TRUE(has(text, "PID namespace")) << text;
}

TEST_F(Descriptors, NobodyWaitsForARankThatCannotSend) {
  exchange_.rank_one_has_none = true;
  const std::string text = exchange_.expect_failure(LP_ERROR_SYSTEM);
  EXPECT_EQ(text.find("rank 1 failed at step 'exchange memory descriptors'"), 0u) << text;
  EXPECT_TRUE(has(text, "Bad file descriptor")) << text;
}

TEST_F(Descriptors, ALimitOfOpenFilesIsNamed) {
  exchange_.prepare = [](int rank) {
    if (rank != 2) return true;
    const int next = dup(0);  // room for the mailbox and one descriptor
    close(next);
    const rlimit limit{static_cast<rlim_t>(next) + 2, static_cast<rlim_t>(next) + 2};
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
  };
  const std::string text = exchange_.expect_failure(LP_ERROR_RESOURCE_LIMIT);
  EXPECT_TRUE(has(text, "rank 2 failed")) << text;
  EXPECT_TRUE(has(text, "ulimit -n")) << text;
}

}  // namespace
}  // namespace lamppost::test
