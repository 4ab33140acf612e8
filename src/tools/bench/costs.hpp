// What Lamppost costs beside the time of a call: the host's time to enqueue one (--op host_cost),
// and the life of a communicator (--op init). Collective.
#pragma once

#include <functional>
#include <lamppost/communicator.hpp>
#include <vector>

#include "tools/bench/measure.hpp"

namespace lamppost::bench {

/// Every sample is one call of one rank: enqueued on an idle device between two clock readings, and
/// waited for after them. Nothing is checked.
RowResult measure_host_cost(RankContext& context, const Row& row);

/// This process's ranks of one communicator.
using CreateRanks = std::function<Result<std::vector<Communicator>>()>;

/// Creates and destroys `options.batches` times: `time` is creation, `destroy` what its name says,
/// the slowest process each time. `world` has a rank a process; null: there is only this one.
Result<RowResult> measure_init(World* world, const Options& options, const CreateRanks& create);

}  // namespace lamppost::bench
