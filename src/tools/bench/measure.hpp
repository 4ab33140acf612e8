// One row of the benchmark: checked once, warmed up, timed in batches, checked again. Called by
// every rank with the same arguments; all ranks return the same RowResult.
#pragma once

#include <algorithm>
#include <cstdint>
#include <lamppost/communicator.hpp>
#include <string>
#include <vector>

#include "tools/bench/compare_nccl.hpp"
#include "tools/bench/devices.hpp"
#include "tools/bench/options.hpp"
#include "tools/bench/progress.hpp"
#include "tools/bench/rotation.hpp"
#include "tools/bench/survey.hpp"
#include "tools/bench/timing.hpp"
#include "tools/bench/world.hpp"

namespace lamppost::bench {

/// What was found wrong, summed over all ranks.
struct WrongValues {
  std::uint64_t beyond_bound = 0;    // elements too far from the reference
  std::uint64_t differ_by_rank = 0;  // elements that are not bit-equal to rank 0's
  std::uint64_t changed_later = 0;   // elements that are not bit-equal to the first call's
  std::uint64_t guard_bytes = 0;     // bytes written past the end of a tensor

  /// An element that several comparisons found counts once.
  std::uint64_t total() const {
    return std::max({beyond_bound, differ_by_rank, changed_later}) + guard_bytes;
  }
};

struct RankFailure {
  int rank = 0;
  std::string sentence;
  std::string health;  // lpHealthToString; empty if the sentence is it
};

struct RowResult {
  Row row;
  RotationPlan rotation;
  TimeStats time;
  DeviceTimes device;        // by the devices' clocks, of batches of their own
  double floor_us = 0;       // 0: not measured
  TimeStats nccl;            // no samples: not measured
  TimeStats nccl_symmetric;  // the same
  TimeStats destroy;         // --op init only
  double algbw_gbps = 0;     // 1e9 bytes a second: bytes / p50
  double busbw_gbps = 0;     // algbw * 2 (n - 1) / n
  WrongValues wrong;
  std::vector<RankFailure> failures;  // ranks whose call failed; the numbers are then void

  ExitCode exit_code() const {
    if (!failures.empty()) return kCallFailed;
    return wrong.total() != 0 ? kWrongValues : kSuccess;
  }
  /// The time as a multiple of the floor; 0: not measured.
  double over_floor() const { return floor_us == 0 ? 0 : time.p50_us / floor_us; }
  /// How many times as long as ours the median of `other` is; 0: not measured.
  double ratio(const TimeStats& other) const {
    return other.samples_us.empty() ? 0 : other.p50_us / time.p50_us;
  }
};

/// One rank, as measure_row sees it.
struct RankContext {
  World& world;
  RankSeat& seat;
  const Options& options;
  Progress& progress;
  const Floor& floor;
  RankSeat* probes = nullptr;  // for the clocks' offsets; null: there is one clock
  NcclRank* nccl = nullptr;    // to time beside ours
};

/// Collective. After a result with failures the communicator is of no more use.
RowResult measure_row(RankContext& context, const Row& row);

/// The failures of all ranks, where `status` is this rank's; empty if all are ok. Collective.
std::vector<RankFailure> collect_failures(World& world, const Communicator& communicator,
                                          const Status& status);

}  // namespace lamppost::bench
