// What probes find out about the machine: latency, launch and link (--floor), and how far the
// devices' clocks are apart. They run on a communicator of their own, which takes no collective.
// Collective; every rank gets a value, or every rank an error: its own, or that another rank has
// one (ABORTED).
#pragma once

#include <cstdint>
#include <lamppost/status.hpp>

#include "tools/bench/devices.hpp"
#include "tools/bench/floor_model.hpp"
#include "tools/bench/options.hpp"
#include "tools/bench/world.hpp"

namespace lamppost::bench {

/// Whether a run needs a communicator for probes. device_count 0: the host backend, whose ranks
/// have one clock.
bool needs_probes(const Options& options, int device_count);

/// Equal on all ranks.
Result<Floor> measure_floor(World& world, RankSeat& probes, const Options& options);

/// This rank's device clock minus rank 0's, in nanoseconds. Clocks drift: it holds for seconds.
Result<std::int64_t> measure_clock_offset(World& world, RankSeat& probes);

}  // namespace lamppost::bench
