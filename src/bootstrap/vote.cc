// vote(): how a fallible step of creation ends the same way on every rank. See bootstrap.hpp.
#include <fmt/core.h>

#include <string>
#include <vector>

#include "bootstrap/bootstrap.hpp"
#include "bootstrap/frame.hpp"

namespace lamppost {
namespace {

struct Ballot {
  std::int32_t code;
  char text[240];
};

/// What a rank reports because another one did not do its part.
bool is_consequence(std::int32_t code) {
  return code == LP_ERROR_TIMEOUT || code == LP_ERROR_PEER_LOST || code == LP_ERROR_ABORTED;
}

/// The rank whose failure is told: the first that failed by itself, else the first; -1: none failed.
int first_cause(const std::vector<Ballot>& ballots) {
  int first = -1;
  for (std::size_t rank = 0; rank < ballots.size(); ++rank) {
    if (ballots[rank].code == LP_SUCCESS) continue;
    if (!is_consequence(ballots[rank].code)) return static_cast<int>(rank);
    if (first < 0) first = static_cast<int>(rank);
  }
  return first;
}

}  // namespace

Status gather_verdict(Bootstrap& bootstrap, const Status& mine, const char* step, Status& verdict) {
  Ballot ballot{mine.code(), {}};
  boot::copy_text(ballot.text, mine.message());

  const std::string phase = fmt::format("vote on '{}'", step);
  std::vector<Ballot> ballots;
  Status gathered = all_gather_value(bootstrap, ballot, ballots, phase.c_str());
  if (!gathered.ok()) {
    // This rank's own failure would be lost here, and it may be what the others are waiting for.
    if (mine.ok()) return std::move(gathered).with_context(phase);
    return std::move(gathered).with_context(
        fmt::format("{} (this rank had failed: {})", phase, mine.message()));
  }
  verdict = Status();
  const int rank = first_cause(ballots);
  if (rank < 0) return {};
  Ballot& cast = ballots[static_cast<std::size_t>(rank)];
  cast.text[sizeof(cast.text) - 1] = '\0';
  verdict = Status(lpResult_t(cast.code),
                   fmt::format("rank {} failed at step '{}': {}", rank, step, cast.text));
  return {};
}

Status vote(Bootstrap& bootstrap, const Status& mine, const char* step) {
  Status verdict;
  Status gathered = gather_verdict(bootstrap, mine, step, verdict);
  return gathered.ok() ? verdict : gathered;
}

}  // namespace lamppost
