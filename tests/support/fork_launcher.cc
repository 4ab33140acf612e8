#include "support/fork_launcher.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <random>
#include <thread>

namespace lamppost::test {
namespace {

[[noreturn]] void run_child(int rank, const RankBody& body, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kExceptionExit);  // it died before the line above
  int code = kExceptionExit;
  try {
    code = body(rank);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
  } catch (...) {
    std::fprintf(stderr, "rank %d: unknown exception\n", rank);
  }
  std::fflush(nullptr);
  ::_exit(code);
}

}  // namespace

ForkedRanks::ForkedRanks(int rank_count, const RankBody& body)
    : pids_(static_cast<std::size_t>(rank_count), -1),
      exits_(static_cast<std::size_t>(rank_count)) {
  const pid_t parent = ::getpid();
  std::fflush(nullptr);  // or each child would print the parent's buffered text again
  for (int rank = 0; rank < rank_count; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) run_child(rank, body, parent);
    if (child < 0) std::perror("fork");
    pids_[static_cast<std::size_t>(rank)] = child;
  }
}

ForkedRanks::~ForkedRanks() { wait_all(0); }

pid_t ForkedRanks::pid(int rank) const { return pids_[static_cast<std::size_t>(rank)]; }

void ForkedRanks::kill(int rank, int signal) {
  if (pid(rank) > 0) ::kill(pid(rank), signal);  // not reaped: the number is still this child's
}

const std::vector<RankExit>& ForkedRanks::wait_all(std::int64_t timeout_ms) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  const int rank_count = static_cast<int>(pids_.size());
  for (;;) {
    bool running = false;
    for (int rank = 0; rank < rank_count; ++rank) running |= !reap(rank, WNOHANG);
    if (!running || std::chrono::steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (int rank = 0; rank < rank_count; ++rank) {
    if (pid(rank) <= 0) continue;
    exits_[static_cast<std::size_t>(rank)].timed_out = true;
    kill(rank, SIGKILL);
    (void)reap(rank, 0);
  }
  return exits_;
}

/// True if `rank` has ended and its end is recorded.
bool ForkedRanks::reap(int rank, int wait_flags) {
  const auto index = static_cast<std::size_t>(rank);
  if (pids_[index] <= 0) return true;
  int status = 0;
  pid_t reaped = 0;
  do {
    reaped = ::waitpid(pids_[index], &status, wait_flags);
  } while (reaped < 0 && errno == EINTR);
  if (reaped == 0) return false;
  pids_[index] = -1;
  if (reaped < 0) return true;
  if (WIFEXITED(status)) exits_[index].exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) exits_[index].signal = WTERMSIG(status);
  return true;
}

std::vector<RankExit> run_ranks(int rank_count, const RankBody& body, const RunOptions& options) {
  ForkedRanks ranks(rank_count, body);
  return ranks.wait_all(options.timeout_ms);
}

std::string unique_socket_address() {
  static std::atomic<int> counter{0};
  return fmt::format("@lamppost-test-{}-{}-{:08x}", ::getpid(), counter++, std::random_device{}());
}

}  // namespace lamppost::test
