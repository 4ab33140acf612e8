#include "tools/bench/measure.hpp"

#include <fmt/core.h>

#include <chrono>
#include <cstring>
#include <lamppost/types.hpp>

#include "tools/bench/batch.hpp"
#include "tools/bench/workload.hpp"

namespace lamppost::bench {
namespace {

std::int64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

/// The outputs of one call, to compare later ones with.
struct Outputs {
  std::vector<std::byte> out;
  std::vector<std::byte> residual_out;
};

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
    Result<RowBuffers> buffers = RowBuffers::create(workload_, context_.options);
    if (!all_ok(buffers.status())) return std::move(result_);
    buffers_ = buffers.take();
    const bool check = context_.options.check == Check::kOn;
    if (check && !first_call()) return std::move(result_);
    if (!timed_batches()) return std::move(result_);
    if (check) later_check();
    return std::move(result_);
  }

 private:
  /// A vote: true if no rank has failed; otherwise result_.failures says who and why.
  bool all_ok(const Status& status) {
    result_.failures = collect_failures(context_.world, context_.communicator, status);
    return result_.failures.empty();
  }

  void show(const char* step) {
    context_.progress.show(
        fmt::format("row {}: {} bytes, {}", workload_.row.index + 1, workload_.row.bytes, step));
  }

  Status one_call() {
    Batch single(context_.communicator, buffers_, workload_, context_.options.operation,
                 context_.options.mode, 1);
    Status status = single.prepare();
    buffers_.reset(workload_, context_.world.rank());
    if (status.ok()) status = single.enqueue();
    if (status.ok()) status = single.finish();
    return status;
  }

  bool first_call() {
    show("first call");
    if (!all_ok(one_call())) return false;
    show("checking");
    World& world = context_.world;
    const std::size_t bytes = buffers_.tensor_bytes();
    const std::size_t element = element_bytes(workload_.type);
    result_.wrong.differ_by_rank = count_rank_differences(world, buffers_.out(), bytes, element);
    std::uint64_t beyond_bound = 0;
    if (fused_) {
      beyond_bound = count_wrong_fused(workload_, buffers_.out(), buffers_.residual_out());
      result_.wrong.differ_by_rank +=
          count_rank_differences(world, buffers_.residual_out(), bytes, element);
    } else {
      beyond_bound = count_wrong_sums(workload_, buffers_.out());
    }
    result_.wrong.beyond_bound = world.sum(beyond_bound);
    keep_outputs();
    return true;
  }

  void keep_outputs() {
    const auto copy = [this](const void* from) {
      std::vector<std::byte> to(buffers_.tensor_bytes());
      if (!to.empty()) std::memcpy(to.data(), from, to.size());
      return to;
    };
    first_.out = copy(buffers_.out());
    if (fused_) first_.residual_out = copy(buffers_.residual_out());
  }

  bool timed_batches() {
    const Options& options = context_.options;
    Batch batch(context_.communicator, buffers_, workload_, options.operation, options.mode,
                options.iterations);
    buffers_.reset(workload_, context_.world.rank());
    Status status = batch.prepare();
    if (!all_ok(status)) return false;
    show("warming up");
    const int warmup_batches = (options.warmup + options.iterations - 1) / options.iterations;
    for (int i = 0; i < warmup_batches; ++i) time_batch(batch, status);
    show("timing");
    std::vector<BatchTime> mine;
    for (int i = 0; i < options.batches; ++i) mine.push_back(time_batch(batch, status));
    if (!all_ok(status)) return false;
    summarise_into_result(context_.world.gather_array(mine));
    return true;
  }

  /// Does nothing but meet the barrier once `status` is an error.
  BatchTime time_batch(Batch& batch, Status& status) {
    BatchTime time;
    context_.world.barrier();
    time.start_ns = now_ns();
    if (status.ok()) status = batch.enqueue();
    if (status.ok()) status = batch.finish();
    time.end_ns = now_ns();
    return time;
  }

  void summarise_into_result(const std::vector<BatchTime>& times) {
    const int ranks = workload_.rank_count;
    result_.time = summarise(times, ranks, context_.options.iterations);
    const double bytes_per_us = static_cast<double>(workload_.row.bytes) / result_.time.p50_us;
    result_.algbw_gbps = bytes_per_us * 1e-3;
    result_.busbw_gbps = result_.algbw_gbps * 2 * (ranks - 1) / ranks;
  }

  /// The timed calls' own outputs must be the first call's bits. In place they are not comparable
  /// (each call took the previous one's output), so one more call on fresh inputs is.
  void later_check() {
    show("checking again");
    if (context_.options.placement == Placement::kInPlace && !all_ok(one_call())) return;
    const std::size_t bytes = buffers_.tensor_bytes();
    const std::size_t element = element_bytes(workload_.type);
    std::uint64_t changed = count_differences(first_.out.data(), buffers_.out(), bytes, element);
    if (fused_) {
      changed +=
          count_differences(first_.residual_out.data(), buffers_.residual_out(), bytes, element);
    }
    result_.wrong.changed_later = context_.world.sum(changed);
    result_.wrong.guard_bytes = context_.world.sum(buffers_.changed_guard_bytes());
  }

  RankContext& context_;
  const bool fused_;
  Workload workload_;
  RowBuffers buffers_;
  Outputs first_;
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
