#include "tools/bench/timing.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lamppost::bench {
namespace {

/// The smallest of the sorted values that is not below `share` of them.
double nearest_rank(const std::vector<double>& sorted, double share) {
  const double place = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[static_cast<std::size_t>(std::max(place, 1.0)) - 1];
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return nearest_rank(values, 0.50);
}

void describe_samples(TimeStats& stats) {
  std::vector<double> sorted = stats.samples_us;
  std::sort(sorted.begin(), sorted.end());
  stats.avg_us =
      std::accumulate(sorted.begin(), sorted.end(), 0.0) / static_cast<double>(sorted.size());
  stats.p50_us = nearest_rank(sorted, 0.50);
  stats.p99_us = nearest_rank(sorted, 0.99);
  stats.min_us = sorted.front();
  stats.max_us = sorted.back();
}

TimeStats summarise(const std::vector<BatchTime>& times, int rank_count, int calls_per_batch) {
  const auto ranks = static_cast<std::size_t>(rank_count);
  const std::size_t batches = times.size() / ranks;
  TimeStats stats;
  std::vector<double> skews;
  std::vector<double> hosts;
  for (std::size_t batch = 0; batch < batches; ++batch) {
    BatchTime first = times[batch];
    std::int64_t last_start_ns = first.start_ns;
    std::int64_t slowest_ns = 0;
    std::int64_t enqueue_ns = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const BatchTime& time = times[rank * batches + batch];
      first.start_ns = std::min(first.start_ns, time.start_ns);
      last_start_ns = std::max(last_start_ns, time.start_ns);
      slowest_ns = std::max(slowest_ns, time.end_ns - time.start_ns);
      enqueue_ns = std::max(enqueue_ns, time.enqueued_ns - time.start_ns);
    }
    stats.samples_us.push_back(static_cast<double>(slowest_ns) * 1e-3 / calls_per_batch);
    skews.push_back(static_cast<double>(last_start_ns - first.start_ns) * 1e-3);
    hosts.push_back(static_cast<double>(enqueue_ns) * 1e-3 / calls_per_batch);
  }
  describe_samples(stats);
  stats.skew_us = median(skews);
  stats.host_us = median(hosts);
  return stats;
}

DeviceTimes summarise_device(const std::vector<DeviceSpan>& spans, int rank_count,
                             int calls_per_batch) {
  const auto ranks = static_cast<std::size_t>(rank_count);
  const std::size_t batches = spans.size() / ranks;
  DeviceTimes times;
  std::vector<double> skews;
  for (std::size_t batch = 0; batch < batches; ++batch) {
    DeviceSpan latest = spans[batch];
    std::int64_t earliest_ns = latest.start_ns;
    for (std::size_t rank = 1; rank < ranks; ++rank) {
      const DeviceSpan& span = spans[rank * batches + batch];
      earliest_ns = std::min(earliest_ns, span.start_ns);
      latest.start_ns = std::max(latest.start_ns, span.start_ns);
      latest.end_ns = std::max(latest.end_ns, span.end_ns);
    }
    times.samples_us.push_back(static_cast<double>(latest.end_ns - latest.start_ns) * 1e-3 /
                               calls_per_batch);
    skews.push_back(static_cast<double>(latest.start_ns - earliest_ns) * 1e-3);
  }
  std::vector<double> sorted = times.samples_us;
  std::sort(sorted.begin(), sorted.end());
  times.is_measured = true;
  times.p50_us = nearest_rank(sorted, 0.50);
  times.p99_us = nearest_rank(sorted, 0.99);
  times.skew_us = median(skews);
  return times;
}

}  // namespace lamppost::bench
