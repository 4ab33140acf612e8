#include "tools/bench/measure.hpp"

#include <fmt/core.h>

#include <chrono>
#include <lamppost/types.hpp>

#include "tools/bench/batch.hpp"
#include "tools/bench/device_clock.hpp"
#include "tools/bench/workload.hpp"

namespace lamppost::bench {
namespace {

std::int64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

/// The steps of one row on one rank. Every step is taken by all ranks or by none: a rank whose
/// calls fail goes on meeting the others at barriers and votes.
class RowRun {
 public:
  RowRun(RankContext& context, const Row& row)
      : context_(context), fused_(context.options.operation == Operation::kAllReduceRmsNorm) {
    result_.row = row;
    workload_.row = row;
    workload_.type = context.options.type;
    workload_.rank_count = context.world.rank_count();
    workload_.seed = context.options.seed;
  }

  RowResult run() {
    if (!all_ok(allocate()) || !all_ok(allocate_symmetric())) return std::move(result_);
    const bool check = context_.options.check == Check::kOn;
    if (check && !first_calls()) return std::move(result_);
    if (!timed_batches() || !clocked_batches()) return std::move(result_);
    if (check) later_check();
    return std::move(result_);
  }

 private:
  /// A vote: true if no rank has failed; otherwise result_.failures says who and why.
  bool all_ok(const Status& status) {
    result_.failures = collect_failures(context_.world, context_.seat.communicator(), status);
    return result_.failures.empty();
  }

  void show(const char* step) {
    context_.progress.show(
        fmt::format("row {}: {} bytes, {}", workload_.row.index + 1, workload_.row.bytes, step));
  }

  Status allocate() {
    const Options& options = context_.options;
    Workbench& workbench = context_.seat.workbench();
    inputs_ = Inputs::make(workload_, context_.world.rank(), options.operation);
    result_.rotation = plan_rotation(
        options.rotate_sets,
        {RowBuffers::set_bytes(workload_, options), workbench.cache_bytes(), options.iterations});
    result_.floor_us =
        floor_us(context_.floor, {options.mode, workload_.rank_count, workload_.row.bytes});
    return allocate_sets(workbench, sets_);
  }

  /// NCCL's own; collective, so after a vote.
  Status allocate_symmetric() {
    Workbench* symmetric =
        context_.nccl == nullptr ? nullptr : context_.nccl->symmetric_workbench();
    return symmetric == nullptr ? Status() : allocate_sets(*symmetric, symmetric_sets_);
  }

  Status allocate_sets(Workbench& workbench, std::vector<RowBuffers>& sets) {
    for (int i = 0; i < result_.rotation.sets; ++i) {
      Result<RowBuffers> buffers = RowBuffers::create(workbench, workload_, context_.options);
      if (!buffers.ok()) return buffers.status();
      sets.push_back(buffers.take());
      Status status = sets.back().reset(inputs_);
      if (!status.ok()) return status;
    }
    return {};
  }

  Status reset_all() {
    for (RowBuffers& buffers : sets_) {
      Status status = buffers.reset(inputs_);
      if (!status.ok()) return status;
    }
    return {};
  }

  Batch make_batch(int call_count) {
    RankSeat& seat = context_.seat;
    return Batch({seat.workbench(), seat.stream(), context_.options.mode}, sets_, call_count,
                 issue_of(seat.communicator(), workload_, context_.options.operation));
  }

  Status finish(Batch& batch) {
    Status status = batch.finish();
    return status.ok() ? context_.seat.communicator().async_error() : status;
  }

  /// One call on each set, on fresh inputs.
  Status call_each_set() {
    Batch batch = make_batch(result_.rotation.sets);
    Status status = batch.prepare();
    if (status.ok()) status = reset_all();
    // Where ranks share a device, a copy may lie in a hardware queue behind a kernel that waits for the
    // rank whose copy it is.
    context_.world.barrier();
    if (status.ok()) status = batch.enqueue();
    if (status.ok()) status = finish(batch);
    return status;
  }

  /// The first set's outputs against the reference and across ranks; later_check() holds the other
  /// sets against them.
  bool first_calls() {
    show("first calls");
    Status status = call_each_set();
    if (status.ok()) status = sets_[0].read(first_);
    if (!all_ok(status)) return false;
    show("checking");
    World& world = context_.world;
    const std::size_t element = element_bytes(workload_.type);
    result_.wrong.differ_by_rank =
        count_rank_differences(world, first_.out.data(), first_.out.size(), element);
    std::uint64_t beyond_bound = 0;
    if (fused_) {
      beyond_bound = count_wrong_fused(workload_, first_.out.data(), first_.residual_out.data());
      result_.wrong.differ_by_rank += count_rank_differences(world, first_.residual_out.data(),
                                                             first_.residual_out.size(), element);
    } else {
      beyond_bound = count_wrong_sums(workload_, first_.out.data());
    }
    result_.wrong.beyond_bound = world.sum(beyond_bound);
    return all_ok(count_changed());
  }

  /// Adds the elements of all sets that are not the first call's bits to changed_.
  Status count_changed() {
    const std::size_t element = element_bytes(workload_.type);
    for (const RowBuffers& buffers : sets_) {
      Outputs outputs;
      Status status = buffers.read(outputs);
      if (!status.ok()) return status;
      changed_ +=
          count_differences(first_.out.data(), outputs.out.data(), outputs.out.size(), element);
      changed_ += count_differences(first_.residual_out.data(), outputs.residual_out.data(),
                                    outputs.residual_out.size(), element);
    }
    return {};
  }

  /// What is timed side by side: ours and, with --compare, NCCL's. Ours is the last, so that the
  /// outputs that stay are its own.
  struct Contender {
    Batch batch;
    TimeStats* stats;
    std::function<Status()> async_error;
    std::vector<BatchTime> times = {};
  };

  std::vector<Contender> contenders() {
    const Options& options = context_.options;
    RankSeat& seat = context_.seat;
    const BatchPlace place{seat.workbench(), seat.stream(), options.mode};
    std::vector<Contender> all;
    if (NcclRank* nccl = context_.nccl; nccl != nullptr) {
      const auto error = [nccl] { return nccl->async_error(); };
      all.push_back(
          {Batch(place, sets_, options.iterations, nccl->issue(workload_)), &result_.nccl, error});
      if (!symmetric_sets_.empty()) {
        all.push_back({Batch(place, symmetric_sets_, options.iterations, nccl->issue(workload_)),
                       &result_.nccl_symmetric, error});
      }
    }
    all.push_back({make_batch(options.iterations), &result_.time,
                   [&seat] { return seat.communicator().async_error(); }});
    return all;
  }

  /// Whether the ranks shall make another batch to warm up; the same on all of them.
  bool is_cold(int calls_done, std::chrono::steady_clock::time_point start) {
    const Options& options = context_.options;
    if (calls_done < options.warmup) return true;
    const bool is_first = workload_.row.index == 0 && !context_.floor.is_measured;
    const std::chrono::milliseconds least(
        warmup_ms_of(options, context_.seat.workbench().backend(), is_first));
    if (least.count() == 0) return false;
    const bool is_short = std::chrono::steady_clock::now() - start < least;
    return context_.world.sum(is_short ? 1 : 0) != 0;
  }

  bool timed_batches() {
    const Options& options = context_.options;
    std::vector<Contender> all = contenders();
    Status status = reset_all();
    for (Contender& one : all) {
      if (status.ok()) status = one.batch.prepare();
      if (!all_ok(status)) return false;
    }
    show("warming up");
    const auto start = std::chrono::steady_clock::now();
    for (int done = 0; is_cold(done, start); done += options.iterations) {
      for (Contender& one : all) time_batch(one, status);
    }
    show("timing");
    for (Contender& one : all) one.times.clear();
    for (int i = 0; i < options.batches; ++i) {
      for (Contender& one : all) time_batch(one, status);
    }
    if (!all_ok(status)) return false;
    for (Contender& one : all) {
      *one.stats = summarise(context_.world.gather_array(one.times), workload_.rank_count,
                             options.iterations);
    }
    compute_bandwidths();
    return true;
  }

  /// Batches between two timestamps of the device, apart from the ones above: taking them is work.
  bool clocked_batches() {
    const Options& options = context_.options;
    show("reading the device's clock");
    Result<DeviceClock> clock = DeviceClock::create(context_.seat, 2 * options.batches);
    Batch batch = make_batch(options.iterations);
    Status status = clock.status();
    if (status.ok()) status = batch.prepare();
    if (!all_ok(status)) return false;
    for (int i = 0; i < options.batches; ++i) {
      context_.world.barrier();
      if (status.ok()) status = clock.value().mark(2 * i);
      if (status.ok()) status = batch.enqueue();
      if (status.ok()) status = clock.value().mark(2 * i + 1);
      if (status.ok()) status = finish(batch);
    }
    Result<std::vector<std::int64_t>> marks = clock.value().read();
    if (status.ok()) status = marks.status();
    if (!all_ok(status)) return false;
    Result<std::int64_t> measured = std::int64_t{0};
    if (context_.probes != nullptr) {
      measured = measure_clock_offset(context_.world, *context_.probes);
    }
    if (!all_ok(measured.status())) return false;
    const std::int64_t offset = measured.value();
    std::vector<DeviceSpan> spans;
    for (std::size_t i = 0; i < marks.value().size(); i += 2) {
      spans.push_back({marks.value()[i] - offset, marks.value()[i + 1] - offset});
    }
    result_.device = summarise_device(context_.world.gather_array(spans), workload_.rank_count,
                                      options.iterations);
    return true;
  }

  /// Does nothing but meet the barrier once `status` is an error.
  void time_batch(Contender& one, Status& status) {
    BatchTime time;
    context_.world.barrier();
    time.start_ns = now_ns();
    if (status.ok()) status = one.batch.enqueue();
    time.enqueued_ns = now_ns();
    if (status.ok()) status = one.batch.finish();
    time.end_ns = now_ns();
    if (status.ok()) status = one.async_error();
    one.times.push_back(time);
  }

  void compute_bandwidths() {
    const int ranks = workload_.rank_count;
    const double bytes_per_us = static_cast<double>(workload_.row.bytes) / result_.time.p50_us;
    result_.algbw_gbps = bytes_per_us * 1e-3;
    result_.busbw_gbps = result_.algbw_gbps * 2 * (ranks - 1) / ranks;
  }

  /// The timed calls' own outputs must be the first call's bits. In place they are not comparable
  /// (each call took the previous one's output), so one more call on fresh inputs is.
  void later_check() {
    show("checking again");
    if (context_.options.placement == Placement::kInPlace && !all_ok(call_each_set())) return;
    Status status = count_changed();
    std::uint64_t guard_bytes = 0;
    for (const RowBuffers& buffers : sets_) {
      const Result<std::size_t> changed = buffers.changed_guard_bytes();
      if (changed.ok()) guard_bytes += changed.value();
      if (!changed.ok() && status.ok()) status = changed.status();
    }
    if (!all_ok(status)) return;
    result_.wrong.changed_later = context_.world.sum(changed_);
    result_.wrong.guard_bytes = context_.world.sum(guard_bytes);
  }

  RankContext& context_;
  const bool fused_;
  Workload workload_;
  Inputs inputs_;
  std::vector<RowBuffers> sets_;
  std::vector<RowBuffers> symmetric_sets_;  // NCCL's; empty: no comparison with them
  Outputs first_;                           // of the first call on the first set
  std::uint64_t changed_ = 0;  // elements of this rank's later outputs that are not first_'s bits
  RowResult result_;
};

}  // namespace

std::vector<RankFailure> collect_failures(World& world, const Communicator& communicator,
                                          const Status& status) {
  if (!world.any(!status.ok())) return {};
  std::string sentence;
  std::string health;
  if (!status.ok()) {
    sentence = fmt::format("{} ({})", status.message(), lpGetErrorString(status.code()));
    const Result<lpHealth> record = communicator.health();
    if (record.ok() && record.value().state != LP_HEALTH_OK) health = to_string(record.value());
    if (health == status.message()) {
      sentence = lpGetErrorString(status.code());
    }
  }
  const std::vector<std::string> sentences = world.gather_texts(sentence);
  const std::vector<std::string> healths = world.gather_texts(health);
  std::vector<RankFailure> failures;
  for (std::size_t rank = 0; rank < sentences.size(); ++rank) {
    if (sentences[rank].empty()) continue;
    failures.push_back({static_cast<int>(rank), sentences[rank], healths[rank]});
  }
  return failures;
}

RowResult measure_row(RankContext& context, const Row& row) { return RowRun(context, row).run(); }

}  // namespace lamppost::bench
