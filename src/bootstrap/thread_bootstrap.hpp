// Bootstrap of ranks that are threads of one process. The ranks of one communicator share a
// ThreadGroup; each thread makes its own Bootstrap from it. Called by lpCommInitAll and by tests.
// Thread safety: ThreadGroup is used by all ranks at once; each Bootstrap belongs to one thread.
// Invariant: the first failure becomes the group's, and every rank returns that one.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bootstrap/bootstrap.hpp"
#include "bootstrap/deadline.hpp"
#include "bootstrap/errors.hpp"

namespace lamppost {

class ThreadGroup {
 public:
  /// Requires rank_count >= 1.
  explicit ThreadGroup(int rank_count);
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  int rank_count() const { return rank_count_; }

 private:
  friend class ThreadBootstrap;

  /// What one rank has put into a round.
  struct Arrival {
    std::uint64_t sequence = 0;  // 0: nothing yet; gathers count from 1
    std::string phase;
    std::vector<std::byte> payload;
  };

  Status join(int rank);
  void leave(int rank);
  Status all_gather(const boot::CallName& call, const void* mine, void* all,
                    const boot::Deadline& deadline);

  // All below: mutex_ is held.
  std::vector<Arrival>& round(std::uint64_t sequence) { return rounds_[sequence % 2]; }
  Status arrive(const boot::CallName& call, const void* mine);
  std::vector<int> missing(std::uint64_t sequence);
  void copy_out(const boot::CallName& call, void* all);
  Status fail(Status status);

  const int rank_count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> joined_;
  std::vector<bool> left_;
  // Two rounds are enough: a rank enters round k + 2 only after all have entered k + 1, that is,
  // after all have copied k out.
  std::array<std::vector<Arrival>, 2> rounds_;
  Status failure_;
};

/// Makes rank `rank` of `group`. Local, does not block. A rank that is out of range or was made
/// before gets an object whose calls all fail with LP_ERROR_BOOTSTRAP.
/// Destroying it lets the other ranks' pending and later gathers fail at once with
/// LP_ERROR_PEER_LOST, unless they are complete. Errors of all_gather: as bootstrap.hpp says.
std::unique_ptr<Bootstrap> make_thread_bootstrap(std::shared_ptr<ThreadGroup> group, int rank);

}  // namespace lamppost
