// Ranks as forked processes, for tests that need real processes and must survive their deaths
// (mpirun would kill the survivors). The parent is a GoogleTest; children run a body and _exit, so
// none of the parent's exit handlers, listeners or destructors run twice. One thread of the parent;
// it should have no other threads when it forks.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lamppost::test {

/// How one rank ended.
struct RankExit {
  int exit_code = -1;      // -1 unless it exited by itself
  int signal = 0;          // the signal that ended it, 0: none
  bool timed_out = false;  // it was still running at the deadline and was killed

  bool ok() const { return exit_code == 0; }
};

/// What a child does; its result is the process' exit code. An exception gives kExceptionExit.
using RankBody = std::function<int(int rank)>;
inline constexpr int kExceptionExit = 125;

/// Running ranks. The destructor kills and reaps those that are left.
class ForkedRanks {
 public:
  /// Forks rank_count children that run `body`. Children die with the thread that forked them.
  ForkedRanks(int rank_count, const RankBody& body);
  ~ForkedRanks();
  ForkedRanks(const ForkedRanks&) = delete;
  ForkedRanks& operator=(const ForkedRanks&) = delete;

  /// The process of `rank`; -1 if it has been reaped or could not be forked.
  pid_t pid(int rank) const;
  /// Sends `signal` to a rank that has not been reaped.
  void kill(int rank, int signal);
  /// Waits until all have ended, kills those that have not after timeout_ms, and returns how each
  /// ended. Blocks. A second call returns the same.
  const std::vector<RankExit>& wait_all(std::int64_t timeout_ms);

 private:
  bool reap(int rank, int wait_flags);

  std::vector<pid_t> pids_;
  std::vector<RankExit> exits_;
};

struct RunOptions {
  std::int64_t timeout_ms = 60'000;
};

/// Forks, waits, and returns how each rank ended.
std::vector<RankExit> run_ranks(int rank_count, const RankBody& body,
                                const RunOptions& options = {});

/// An abstract socket address that no other test uses. Call it before forking.
std::string unique_socket_address();

}  // namespace lamppost::test
