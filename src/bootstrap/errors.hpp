// The sentences that bootstraps fail with: one place, so that threads, sockets and MPI say the same
// things in the same words. Header only, because liblamppost_mpi uses it too. Stateless.
#pragma once

#include <lamppost/status.hpp>

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lamppost::boot {

/// One rank's side of a gather, as far as ranks must agree on it.
struct CallName {
  int rank;
  std::uint64_t sequence;
  std::size_t bytes;
  std::string_view phase;

  bool same_call(const CallName& other) const {
    return sequence == other.sequence && bytes == other.bytes && phase == other.phase;
  }
};

/// "rank 2" or "ranks 2, 3".
inline std::string rank_list(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? " " : ", ", ranks[i]);
  }
  return text;
}

inline Status timeout_error(std::string_view phase, const std::vector<int>& missing,
                            std::int64_t timeout_ms) {
  return Status(LP_ERROR_TIMEOUT,
                fmt::format("bootstrap step '{}': {} did not come within {:.1f} s", phase,
                            rank_list(missing), static_cast<double>(timeout_ms) * 1e-3));
}

inline Status peer_lost_error(std::string_view phase, int rank) {
  return Status(
      LP_ERROR_PEER_LOST,
      fmt::format("bootstrap step '{}': rank {} is gone (it ended or gave up)", phase, rank));
}

inline Status different_calls_error(const CallName& one, const CallName& other) {
  const auto describe = [](const CallName& call) {
    return fmt::format("rank {} gathers {} bytes in step '{}' (call {})", call.rank, call.bytes,
                       call.phase, call.sequence);
  };
  const bool in_order = one.rank < other.rank;
  return Status(LP_ERROR_BOOTSTRAP,
                fmt::format("bootstrap: ranks made different calls: {}, but {}",
                            describe(in_order ? one : other), describe(in_order ? other : one)));
}

}  // namespace lamppost::boot
