// Bootstrap: how ranks find each other before they share memory. Four verbs, four implementations
// (threads of one process, Unix socket, MPI in liblamppost_mpi; TCP and callback come later).
// Used only while a communicator is created. Every wait has a deadline; when it passes, the error
// names the ranks that did not come. A Bootstrap belongs to one rank and one thread at a time.
#pragma once

#include <lamppost/status.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace lamppost {

class Bootstrap {
 public:
  virtual ~Bootstrap() = default;

  virtual int rank() const = 0;
  virtual int rank_count() const = 0;

  /// Gathers `bytes` from every rank into `all` (rank_count * bytes, in rank order) on every rank.
  /// Collective, with equal `bytes`; blocks until all ranks came or `timeout_ms` has passed.
  /// `phase` names the step in errors ("exchange of memory handles"). bytes may be 0.
  /// Errors: LP_ERROR_TIMEOUT naming phase, ranks missing and seconds waited; LP_ERROR_PEER_LOST
  /// when a peer is known to be gone; LP_ERROR_BOOTSTRAP; LP_ERROR_SYSTEM. After an error the
  /// object may only be destroyed.
  virtual Status all_gather(const void* mine, void* all, std::size_t bytes, const char* phase) = 0;

  /// Returns on every rank only after all ranks have called it. Collective, deadline as above.
  Status barrier(const char* phase) {
    return all_gather(nullptr, nullptr, 0, phase);
  }

  /// Deadline of each call, in milliseconds (> 0). Local.
  void set_timeout_ms(std::int64_t timeout_ms) { timeout_ms_ = timeout_ms; }
  std::int64_t timeout_ms() const { return timeout_ms_; }

 private:
  std::int64_t timeout_ms_ = 60'000;
};

/// all_gather of one trivially copyable value a rank: `all[r]` is rank r's.
template <class T>
Status all_gather_value(Bootstrap& bootstrap, const T& mine, std::vector<T>& all,
                        const char* phase) {
  static_assert(std::is_trivially_copyable_v<T>);
  all.resize(static_cast<std::size_t>(bootstrap.rank_count()));
  return bootstrap.all_gather(&mine, all.data(), sizeof(T), phase);
}

/// The verdict of all ranks on a fallible step: ok on every rank if `mine` is ok on every rank;
/// otherwise, on every rank, the error of the lowest rank that failed, with rank and step named; ranks
/// that only waited in vain for another (TIMEOUT, PEER_LOST, ABORTED) come after those.
/// Collective. A rank that failed must still vote; an error path must never skip a collective.
Status vote(Bootstrap& bootstrap, const Status& mine, const char* step);

/// A vote() on a step that can be done in another way: `verdict` is what the ranks said, the result the
/// bootstrap's own failure, after which the ranks cannot go on together.
Status gather_verdict(Bootstrap& bootstrap, const Status& mine, const char* step, Status& verdict);

}  // namespace lamppost
