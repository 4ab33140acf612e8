// Survey: what probes find out about the machine before the rows: how far the devices' clocks are
// apart and, with --floor, latency, launch and link. Runs on a communicator of its own, which takes
// no collective afterwards. Collective.
#pragma once

#include <cstdint>
#include <lamppost/status.hpp>

#include "tools/bench/devices.hpp"
#include "tools/bench/floor_model.hpp"
#include "tools/bench/options.hpp"
#include "tools/bench/world.hpp"

namespace lamppost::bench {

struct Survey {
  Floor floor;                       // equal on all ranks
  std::int64_t clock_offset_ns = 0;  // this rank's device clock minus rank 0's
};

/// Whether a run needs one. device_count 0: the host backend, whose ranks have one clock.
bool needs_survey(const Options& options, int device_count);

/// Every rank gets a Survey, or every rank an error (its own, or that another rank has one).
Result<Survey> survey_machine(World& world, RankSeat& seat, const Options& options);

}  // namespace lamppost::bench
