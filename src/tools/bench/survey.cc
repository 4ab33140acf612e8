#include "tools/bench/survey.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "tools/bench/batch.hpp"
#include "tools/bench/device_clock.hpp"
#include "tools/bench/timing.hpp"

namespace lamppost::bench {
namespace {

constexpr std::uint32_t kRounds = 200;
constexpr int kRepeats = 7;
constexpr int kNodes = 200;
constexpr std::uint64_t kLeastPushBytes = 256 * 1024;  // below, a push is mostly its launch
constexpr std::uint64_t kPushFactor = 4;

/// One rank's part. A rank that has failed goes on meeting the others.
class SurveyRun {
 public:
  SurveyRun(World& world, RankSeat& seat) : world_(world), seat_(seat) {}

  /// Before anything else.
  Status start() {
    Result<GuardedBuffer> result =
        GuardedBuffer::create(seat_.workbench(), 2 * sizeof(std::uint64_t));
    Result<DeviceClock> clock = DeviceClock::create(seat_, 2);
    const Status status = result.ok() ? clock.status() : result.status();
    if (world_.any(!status.ok())) return other_failed(status);
    result_ = result.take();
    clock_ = clock.take();
    return {};
  }

  /// Empty kernels for a while, on all ranks equally long.
  Status warm_up(std::chrono::milliseconds least) {
    const auto start = std::chrono::steady_clock::now();
    Status status;
    while (world_.any(std::chrono::steady_clock::now() - start < least)) {
      for (int i = 0; status.ok() && i < kNodes; ++i) status = enqueue_probe(seat_, {});
      if (status.ok()) status = seat_.workbench().synchronize(seat_.stream());
      if (world_.any(!status.ok())) return other_failed(status);
    }
    return {};
  }

  /// This rank's clock minus rank 0's.
  Result<std::int64_t> clock_offset() {
    std::int64_t mine = 0;
    for (int rank = 1; rank < world_.rank_count(); ++rank) {
      const Result<Ticks> ticks = one_way(Probe::kOneWayClock, rank);
      if (!ticks.ok()) return ticks.status();
      const std::int64_t sum = static_cast<std::int64_t>(ticks.value()[1]);
      const std::int64_t offset = world_.gather(sum / std::int64_t{kRounds})[0];
      if (rank == world_.rank()) mine = offset;
    }
    return mine;
  }

  /// Microseconds from rank 0 to rank 1.
  Result<double> one_way_us(Probe probe) {
    std::vector<double> samples;
    for (int i = 0; i < kRepeats; ++i) {
      const Result<Ticks> ticks = one_way(probe, 1);
      if (!ticks.ok()) return ticks.status();
      samples.push_back(static_cast<double>(ticks.value()[0]) * 1e-3 / (2 * kRounds));
    }
    return world_.gather(median(samples))[0];
  }

  /// Microseconds from one empty kernel to the next, slowest rank.
  Result<double> node_us(Mode mode) {
    const auto launch_all = [this] {
      Status status;
      for (int i = 0; status.ok() && i < kNodes; ++i) status = enqueue_probe(seat_, {});
      return status;
    };
    OwnedGraph graph;
    if (mode == Mode::kGraph) {
      Result<OwnedGraph> captured = capture(seat_.workbench(), seat_.stream(), launch_all);
      if (world_.any(!captured.ok())) return other_failed(captured.status());
      graph = captured.take();
    }
    const auto enqueue = [&] {
      return graph == nullptr ? launch_all()
                              : seat_.workbench().launch_graph(graph.get(), seat_.stream());
    };
    const Result<double> ns = median_ns(enqueue);
    if (!ns.ok()) return ns.status();
    return ns.value() * 1e-3 / (kNodes + 1);  // from mark to mark there is one launch more
  }

  /// All ranks at once, each to the next; the slowest's rate.
  Result<double> link_gbps(std::uint64_t bytes) {
    std::array<PushTime, 2> pushes{{{bytes, 0}, {kPushFactor * bytes, 0}}};
    for (PushTime& push : pushes) {
      ProbeRequest request;
      request.probe = Probe::kPush;
      request.bytes = push.bytes;
      const Result<double> ns = median_ns([&] { return enqueue_probe(seat_, request); });
      if (!ns.ok()) return ns.status();
      push.ns = ns.value();
    }
    return marginal_gbps(pushes[0], pushes[1]);
  }

 private:
  using Ticks = std::array<std::uint64_t, 2>;

  /// Between rank 0 and `second`; the ticks are rank 0's, and void elsewhere.
  Result<Ticks> one_way(Probe probe, int second) {
    ProbeRequest request;
    request.probe = probe;
    request.result = static_cast<std::uint64_t*>(result_.data());
    request.second_rank = static_cast<std::uint32_t>(second);
    request.rounds = kRounds;
    world_.barrier();
    Status status = enqueue_probe(seat_, request);
    if (status.ok()) status = seat_.workbench().synchronize(seat_.stream());
    if (status.ok()) status = seat_.communicator().async_error();
    std::vector<std::byte> bytes;
    if (status.ok()) status = result_.copy_out(bytes);
    if (world_.any(!status.ok())) return other_failed(status);
    Ticks ticks{};
    std::memcpy(ticks.data(), bytes.data(), sizeof(ticks));
    return ticks;
  }

  /// The time of what `enqueue` puts on the stream, all ranks at once; the slowest rank's median.
  template <class Function>
  Result<double> median_ns(Function&& enqueue) {
    std::vector<double> samples;
    Status status;
    for (int i = 0; i <= kRepeats; ++i) {  // the first is not counted
      world_.barrier();
      if (!status.ok()) continue;
      const Result<double> ns = clock_.time_ns(enqueue);
      status = ns.status();
      if (i > 0 && ns.ok()) samples.push_back(ns.value());
    }
    if (world_.any(!status.ok())) return other_failed(status);
    const std::vector<double> all = world_.gather(median(samples));
    return *std::max_element(all.begin(), all.end());
  }

  static Status other_failed(const Status& status) {
    if (!status.ok()) return status;
    return Status(LP_ERROR_ABORTED, "another rank's probe failed");
  }

  World& world_;
  RankSeat& seat_;
  GuardedBuffer result_;
  DeviceClock clock_;
};

/// Takes a value or keeps the first error.
template <class Value>
Status take(Result<Value> result, Value& value) {
  if (result.ok()) value = result.take();
  return result.status();
}

Status measure_links(SurveyRun& run, const Options& options, Floor& floor) {
  for (const Row& row : plan_rows(options)) {
    const std::uint64_t whole = row.bytes / sizeof(device::Pack) * sizeof(device::Pack);
    const std::uint64_t bytes = std::max(whole, kLeastPushBytes);
    if (!floor.links.empty() && floor.links.back().bytes >= bytes) continue;
    double gbps = 0;
    Status status = take(run.link_gbps(bytes), gbps);
    if (!status.ok()) return status;
    floor.links.push_back({bytes, gbps});
  }
  return {};
}

Status fill_floor(SurveyRun& run, int rank_count, const Options& options, Floor& floor) {
  Status status = take(run.node_us(Mode::kGraph), floor.graph_node_us);
  if (status.ok()) status = take(run.node_us(Mode::kEager), floor.eager_launch_us);
  floor.is_measured = status.ok();
  if (!status.ok() || rank_count == 1) return status;
  status = take(run.one_way_us(Probe::kOneWayWord), floor.word_us);
  if (status.ok()) status = take(run.one_way_us(Probe::kOneWayBlock), floor.block_us);
  if (status.ok()) status = measure_links(run, options, floor);
  return status;
}

}  // namespace

bool needs_probes(const Options& options, int device_count) {
  const bool has_rows = options.operation == Operation::kAllReduce ||
                        options.operation == Operation::kAllReduceRmsNorm;
  return options.floor || (has_rows && device_count != 0);
}

Result<Floor> measure_floor(World& world, RankSeat& probes, const Options& options) {
  SurveyRun run(world, probes);
  Floor floor;
  Status status = run.start();
  const std::int64_t warmup_ms = warmup_ms_of(options, probes.workbench().backend(), true);
  if (status.ok()) status = run.warm_up(std::chrono::milliseconds(warmup_ms));
  if (status.ok()) status = fill_floor(run, world.rank_count(), options, floor);
  if (!status.ok()) return status;
  return floor;
}

Result<std::int64_t> measure_clock_offset(World& world, RankSeat& probes) {
  SurveyRun run(world, probes);
  Status status = run.start();
  if (!status.ok()) return status;
  return run.clock_offset();
}

}  // namespace lamppost::bench
