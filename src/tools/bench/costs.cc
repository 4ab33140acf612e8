#include "tools/bench/costs.hpp"

#include <chrono>

#include "tools/bench/batch.hpp"

namespace lamppost::bench {
namespace {

using Clock = std::chrono::steady_clock;

double us_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double, std::micro>(end - start).count();
}

/// One call of this rank; adds its sample.
Status time_call(RankContext& context, RowBuffers& buffers, const Issue& issue,
                 std::vector<double>& samples_us) {
  RankSeat& seat = context.seat;
  const Clock::time_point start = Clock::now();
  Status status = issue(buffers, seat.stream());
  samples_us.push_back(us_between(start, Clock::now()));
  if (status.ok()) status = seat.workbench().synchronize(seat.stream());
  return status.ok() ? seat.communicator().async_error() : status;
}

/// The slowest process's value; equal on all.
double slowest(World* world, double mine) {
  if (world == nullptr) return mine;
  const std::vector<double> all = world->gather(mine);
  return *std::max_element(all.begin(), all.end());
}

}  // namespace

RowResult measure_host_cost(RankContext& context, const Row& row) {
  const Options& options = context.options;
  RowResult result;
  result.row = row;
  const Workload workload{row, options.type, context.world.rank_count(), options.seed};
  Result<RowBuffers> buffers = RowBuffers::create(context.seat.workbench(), workload, options);
  Status status = buffers.status();
  if (status.ok()) {
    status = buffers.value().reset(Inputs::make(workload, context.world.rank(), options.operation));
  }
  result.failures = collect_failures(context.world, context.seat.communicator(), status);
  if (!result.failures.empty()) return result;

  const Issue issue = issue_of(context.seat.communicator(), workload, options.operation);
  std::vector<double> mine;
  for (int i = 0; status.ok() && i < options.warmup; ++i) {
    status = time_call(context, buffers.value(), issue, mine);
  }
  mine.clear();
  const int calls = options.iterations * options.batches;
  for (int i = 0; i < calls; ++i) {
    context.world.barrier();
    if (status.ok()) status = time_call(context, buffers.value(), issue, mine);
  }
  result.failures = collect_failures(context.world, context.seat.communicator(), status);
  if (!result.failures.empty()) return result;
  result.time.samples_us = context.world.gather_array(mine);
  describe_samples(result.time);
  return result;
}

Result<RowResult> measure_init(World* world, const Options& options, const CreateRanks& create) {
  RowResult result;
  for (int i = 0; i < options.batches; ++i) {
    if (world != nullptr) world->barrier();
    const Clock::time_point start = Clock::now();
    Result<std::vector<Communicator>> created = create();
    const double create_us = us_between(start, Clock::now());
    if (!created.ok()) return created.status();  // all ranks fail together
    if (world != nullptr) world->barrier();
    const Clock::time_point destroy_start = Clock::now();
    Status status;
    for (Communicator& communicator : created.value()) {
      Status destroyed = communicator.destroy();
      if (status.ok()) status = destroyed;
    }
    const double destroy_us = us_between(destroy_start, Clock::now());
    const bool failed = world != nullptr ? world->any(!status.ok()) : !status.ok();
    if (failed) return status.ok() ? Status(LP_ERROR_ABORTED, "another rank failed") : status;
    result.time.samples_us.push_back(slowest(world, create_us));
    result.destroy.samples_us.push_back(slowest(world, destroy_us));
  }
  describe_samples(result.time);
  describe_samples(result.destroy);
  return result;
}

}  // namespace lamppost::bench
