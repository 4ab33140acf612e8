// From clock readings to the times of a row. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace lamppost::bench {

/// When one rank began to enqueue a batch, when it had enqueued it, and when its stream had run it
/// (steady clock).
struct BatchTime {
  std::int64_t start_ns = 0;
  std::int64_t enqueued_ns = 0;
  std::int64_t end_ns = 0;
};

/// Times of one call, in microseconds. A sample is the elapsed time of one batch on its slowest
/// rank, divided by the calls of a batch.
struct TimeStats {
  std::vector<double> samples_us;
  double avg_us = 0;
  double p50_us = 0;  // nearest rank: the smallest sample that is not below half of them
  double p99_us = 0;
  double min_us = 0;
  double max_us = 0;
  double skew_us = 0;  // first to last rank's start of a batch, median over batches; of a batch,
                       // not of a call
  double host_us = 0;  // what enqueueing one call took of the host's time, slowest rank, median
                       // over batches
};

/// Nearest rank, so always one of the values, of which there is at least one.
double median(std::vector<double> values);

/// Fills in avg, p50, p99, min and max from the samples, of which there is at least one.
void describe_samples(TimeStats& stats);

/// times[rank * batches + batch]; at least one of each.
TimeStats summarise(const std::vector<BatchTime>& times, int rank_count, int calls_per_batch);

/// When the device of one rank began and ended a batch, by one clock for all ranks.
struct DeviceSpan {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

/// What the devices' own clocks say, without the host's part.
struct DeviceTimes {
  bool is_measured = false;
  std::vector<double> samples_us;  // of one call: (latest end - latest start) / calls of a batch
  double p50_us = 0;
  double p99_us = 0;
  double skew_us = 0;  // latest - earliest start of a batch, median over batches
};

/// spans[rank * batches + batch]; at least one of each.
DeviceTimes summarise_device(const std::vector<DeviceSpan>& spans, int rank_count,
                             int calls_per_batch);

}  // namespace lamppost::bench
