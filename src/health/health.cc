#include "health/health.hpp"

#include <fmt/core.h>

namespace lamppost {
namespace {

using device::ControlPage;
using device::FailureKind;
using device::HealthRecord;
using device::kNoRank;

std::uint32_t load(const std::uint32_t& word) { return __atomic_load_n(&word, __ATOMIC_RELAXED); }
std::uint64_t load(const std::uint64_t& word) { return __atomic_load_n(&word, __ATOMIC_RELAXED); }
std::uint32_t load_acquire(const std::uint32_t& word) {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

int rank_or_none(std::uint32_t rank) { return rank == kNoRank ? -1 : static_cast<int>(rank); }

double milliseconds(const ControlPage& page, std::uint64_t ticks) {
  return static_cast<double>(ticks) * 1e3 / static_cast<double>(page.ticks_per_second);
}

void copy_record(const ControlPage& page, const HealthRecord& record, lpHealth& health) {
  health.call = load(record.call);
  health.phase = static_cast<lpPhase_t>(load(record.phase));
  health.waited_for = rank_or_none(load(record.waited_for));
  health.abort_source = rank_or_none(load(record.abort_source));
  health.abort_call = load(record.abort_call);
  health.element = load(record.element);
  health.expected = load(record.expected);
  health.seen = load(record.seen);
  health.block = load(record.block);
  health.thread = load(record.thread);
  health.waited_ms = milliseconds(page, load(record.elapsed_ticks));
  health.missing[0] = load(record.missing[0]) | static_cast<std::uint64_t>(load(record.missing[1]))
                                                    << 32;
  health.missing[1] = load(record.missing[2]);
  for (std::uint32_t r = 0; r < page.rank_count && r < LP_MAX_RANKS; ++r) {
    const device::PeerSnapshot& peer = record.peers[r];
    health.peers[r] = {static_cast<lpPeerState_t>(load(peer.state)), load(peer.call),
                       load(peer.operation_hash), load(peer.extent), load(peer.columns)};
  }
}

/// The provisional record, if it is whole and its call still waits.
bool copy_provisional(const ControlPage& page, lpHealth& health) {
  if (load_acquire(page.provisional_active) == 0) return false;
  const std::uint32_t version = load_acquire(page.provisional_version);
  if (version == 0) return false;
  copy_record(page, page.provisional[version % 2], health);
  return load_acquire(page.provisional_version) == version;
}

std::string missing_list(const lpHealth& health) {
  std::string text;
  for (int r = 0; r < health.rank_count && r < LP_MAX_RANKS; ++r) {
    if ((health.missing[r / 64] >> r % 64 & 1u) == 0) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", r);
  }
  return text;
}

const char* phase_text(lpPhase_t phase) {
  switch (phase) {
    case LP_PHASE_START:
      return "at its start";
    case LP_PHASE_PUBLISH:
      return "while publishing";
    case LP_PHASE_HEADER:
      return "for the header";
    case LP_PHASE_DATA:
      return "for data";
    case LP_PHASE_ARRIVE:
      return "while leaving";
    case LP_PHASE_NONE:
      break;
  }
  return "in an unknown phase";
}

std::string peer_text(const lpHealth& health, int rank) {
  const lpPeerHealth& peer = health.peers[rank];
  switch (peer.state) {
    case LP_PEER_NEVER_LAUNCHED:
      return "has launched nothing that is still on record";
    case LP_PEER_IN_CALL:
      return fmt::format("is in call {} (tokens or elements {}, columns {})", peer.call,
                         peer.extent, peer.columns);
    case LP_PEER_FINISHED:
      return fmt::format("has finished call {} and started no later one", peer.call);
    case LP_PEER_UNKNOWN:
      break;
  }
  return "is in an unknown state";
}

std::string what_differs(const lpHealth& health) {
  switch (health.element) {
    case 1:
      return fmt::format("another operation, type, hidden size, epsilon or launch shape (descriptor "
                         "{:#010x} here, {:#010x} there)",
                         health.expected, health.seen);
    case 2:
      return fmt::format("{} tokens or elements here, {} there", health.expected, health.seen);
    default:
      return fmt::format("header word {}: {} here, {} there", health.element, health.expected,
                         health.seen);
  }
}

std::string cause_text(const lpHealth& health) {
  const double seconds = health.waited_ms / 1e3;
  switch (health.error) {
    case LP_ERROR_TIMEOUT:
      return fmt::format("waited {:.2f} s {} of rank {} in call {} and gave up.", seconds,
                         phase_text(health.phase), health.waited_for, health.call);
    case LP_ERROR_ABORTED:
      if (health.abort_source < 0) {
        return fmt::format("was told to abort call {} from this process.", health.call);
      }
      return health.waited_for < 0
                 ? fmt::format("started call {} after rank {} had failed in call {}.", health.call,
                               health.abort_source, health.abort_call)
                 : fmt::format("ended call {} because rank {} failed first, in call {}; it had "
                               "itself waited {:.2f} s {} of rank {}.",
                               health.call, health.abort_source, health.abort_call, seconds,
                               phase_text(health.phase), health.waited_for);
    case LP_ERROR_MISMATCH:
      return fmt::format("and rank {} made different calls as call {}: {}.", health.waited_for,
                         health.call, what_differs(health));
    case LP_ERROR_CORRUPT:
      if (health.phase == LP_PHASE_ARRIVE) {
        return fmt::format("found two launches of this communicator in flight at once (call {}): "
                           "its calls must be ordered, graph replays included.",
                           health.call);
      }
      return fmt::format("read impossible data from rank {} in call {} ({:#010x}, expected "
                         "{:#010x}): memory was overwritten or peer access is broken.",
                         health.waited_for, health.call, health.seen, health.expected);
    default:
      return fmt::format("failed in call {}.", health.call);
  }
}

std::string advice_text(const lpHealth& health) {
  switch (health.error) {
    case LP_ERROR_TIMEOUT:
    case LP_ERROR_ABORTED:
      return "Look at the missing rank first: a rank that is late may need a longer timeout "
             "(lpCommSetTimeout); one that never made this call took another branch or has died.";
    case LP_ERROR_MISMATCH:
      return "All ranks must make the same calls with equal collective arguments, in one order.";
    default:
      return "Destroy this communicator on all ranks and make a new one.";
  }
}

std::string peers_text(const lpHealth& health) {
  std::string text;
  for (int r = 0; r < health.rank_count && r < LP_MAX_RANKS; ++r) {
    if (r != health.rank) text += fmt::format("\n  rank {} {}", r, peer_text(health, r));
  }
  return text;
}

}  // namespace

lpResult_t async_error(const ControlPage& page) {
  switch (static_cast<FailureKind>(load_acquire(page.record_valid))) {
    case FailureKind::kNone:
      return LP_SUCCESS;
    case FailureKind::kTimedOut:
      return LP_ERROR_TIMEOUT;
    case FailureKind::kAbortedByPeer:
    case FailureKind::kAbortedLocally:
      return LP_ERROR_ABORTED;
    case FailureKind::kMismatch:
      return LP_ERROR_MISMATCH;
    case FailureKind::kCorrupt:
      return LP_ERROR_CORRUPT;
  }
  return LP_ERROR_CORRUPT;
}

lpHealth read_health(const ControlPage& page) {
  lpHealth health = LP_HEALTH_INITIALIZER;
  health.rank = static_cast<int>(page.rank);
  health.rank_count = static_cast<int>(page.rank_count);
  health.timeout_ms = milliseconds(page, load(page.timeout_ticks));
  health.error = async_error(page);
  if (health.error != LP_SUCCESS) {
    health.state = LP_HEALTH_FAILED;
    copy_record(page, page.record, health);
  } else if (copy_provisional(page, health)) {
    health.state = LP_HEALTH_WAITING;
  }
  return health;
}

std::string describe_health(const lpHealth& health) {
  const std::string who = fmt::format("Lamppost rank {} of {}", health.rank, health.rank_count);
  if (health.state == LP_HEALTH_OK) return who + ": healthy; no call has failed or waits.";
  const std::string missing = missing_list(health);
  const std::string missing_text =
      missing.empty() ? "" : fmt::format(" Missing on this rank: rank {}.", missing);
  if (health.state == LP_HEALTH_WAITING) {
    return fmt::format("{} has waited more than {:.1f} s {} of rank {} in call {}, and goes on "
                       "waiting (timeout {:.1f} s).{}{}",
                       who, health.waited_ms / 1e3, phase_text(health.phase), health.waited_for,
                       health.call, health.timeout_ms / 1e3, missing_text, peers_text(health));
  }
  return fmt::format("{} {}{} {}{}", who, cause_text(health), missing_text, advice_text(health),
                     peers_text(health));
}

}  // namespace lamppost
