// Bootstrap of ranks that are processes of one machine, over a Unix-domain socket. A star: rank 0
// listens, collects and sends; the others connect to it. Used by tests that kill ranks and by
// launchers that are not MPI. A rank that fails says why before it closes: rank 0 passes the first
// failure on, so all remaining ranks return the same error.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bootstrap/bootstrap.hpp"

namespace lamppost {

struct SocketBootstrapOptions {
  /// "@name": a name in Linux's abstract space (nothing is left on disk; not seen from other
  /// network namespaces). Anything else: a path; rank 0 makes the file and removes it once all have
  /// joined. 1 to 107 bytes, equal on all ranks, of no other job that runs now.
  std::string address;
  int rank = 0;
  int rank_count = 0;  // 1 to LP_MAX_RANKS
  /// Equal on all ranks, different from job to job: whoever connects without it is ignored. It
  /// keeps jobs apart; it is no defence against an attacker who can take the address first.
  std::uint64_t secret = 0;
  std::int64_t timeout_ms = 60'000;  // for joining, and for each later call; > 0
};

/// How much longer than its own deadline a rank waits for rank 0 to say which ranks are missing.
inline constexpr std::int64_t kSocketVerdictGraceMs = 300;

/// Joins the group. Collective; blocks until all ranks have joined or a deadline has passed.
/// Errors: LP_ERROR_INVALID_ARGUMENT; LP_ERROR_TIMEOUT naming the ranks that did not come (ranks
/// that cannot reach rank 0 name rank 0); LP_ERROR_PEER_LOST; LP_ERROR_BOOTSTRAP (address in use,
/// other version, other rank_count, rank taken); LP_ERROR_SYSTEM, LP_ERROR_RESOURCE_LIMIT,
/// LP_ERROR_OUT_OF_MEMORY. The object belongs to one thread; destroying it closes the connections,
/// and ranks that still wait for this one get LP_ERROR_PEER_LOST.
Result<std::unique_ptr<Bootstrap>> make_socket_bootstrap(const SocketBootstrapOptions& options);

}  // namespace lamppost
