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

}  // namespace

Status vote(Bootstrap& bootstrap, const Status& mine, const char* step) {
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
  for (std::size_t rank = 0; rank < ballots.size(); ++rank) {
    Ballot& cast = ballots[rank];
    if (cast.code == LP_SUCCESS) continue;
    cast.text[sizeof(cast.text) - 1] = '\0';
    return Status(lpResult_t(cast.code),
                  fmt::format("rank {} failed at step '{}': {}", rank, step, cast.text));
  }
  return {};
}

}  // namespace lamppost
