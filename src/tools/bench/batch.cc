#include "tools/bench/batch.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <lamppost/types.hpp>

namespace lamppost::bench {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kGuardBytes = 256;
constexpr unsigned char kGuardByte = 0xa5;

}  // namespace

Result<GuardedBuffer> GuardedBuffer::create(std::size_t bytes) {
  const std::size_t all = (bytes + kGuardBytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  GuardedBuffer buffer;
  buffer.memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, all)));
  if (buffer.memory_ == nullptr) {
    return Status(LP_ERROR_OUT_OF_MEMORY,
                  fmt::format("the benchmark's own buffer of {} bytes", all));
  }
  buffer.bytes_ = bytes;
  std::memset(buffer.memory_.get() + bytes, kGuardByte, kGuardBytes);
  return buffer;
}

void GuardedBuffer::fill_bytes(int value) {
  if (memory_ != nullptr) std::memset(memory_.get(), value, bytes_);
}

std::size_t GuardedBuffer::changed_guard_bytes() const {
  if (memory_ == nullptr) return 0;
  const std::byte* guard = memory_.get() + bytes_;
  const auto kept = std::count(guard, guard + kGuardBytes, std::byte{kGuardByte});
  return kGuardBytes - static_cast<std::size_t>(kept);
}

Result<RowBuffers> RowBuffers::create(const Workload& workload, const Options& options) {
  RowBuffers buffers;
  buffers.in_place_ = options.placement == Placement::kInPlace;
  buffers.fused_ = options.operation == Operation::kAllReduceRmsNorm;
  const std::size_t bytes = workload.row.bytes;
  const std::size_t weight_bytes =
      static_cast<std::size_t>(workload.row.hidden) * element_bytes(workload.type);
  struct Wanted {
    GuardedBuffer& buffer;
    bool needed;
    std::size_t bytes;
  };
  const Wanted all[] = {
      {buffers.in_, true, bytes},
      {buffers.out_, !buffers.in_place_, bytes},
      {buffers.residual_in_, buffers.fused_, bytes},
      {buffers.residual_out_, buffers.fused_ && !buffers.in_place_, bytes},
      {buffers.weight_, buffers.fused_, weight_bytes},
  };
  for (const Wanted& wanted : all) {
    if (!wanted.needed) continue;
    Result<GuardedBuffer> buffer = GuardedBuffer::create(wanted.bytes);
    if (!buffer.ok()) return buffer.status();
    wanted.buffer = buffer.take();
  }
  return buffers;
}

void RowBuffers::reset(const Workload& workload, int rank) {
  out_.fill_bytes(0xff);
  residual_out_.fill_bytes(0xff);
  fill_input(workload, rank, in_.data());
  if (!fused_) return;
  fill_residual(workload, residual_in_.data());
  fill_weight(workload, weight_.data());
}

std::size_t RowBuffers::changed_guard_bytes() const {
  std::size_t changed = 0;
  for (const GuardedBuffer* buffer : {&in_, &out_, &residual_in_, &residual_out_, &weight_}) {
    changed += buffer->changed_guard_bytes();
  }
  return changed;
}

Batch::Batch(Communicator& communicator, RowBuffers& buffers, const Workload& workload,
             Operation operation, Mode mode, int call_count)
    : communicator_(communicator),
      buffers_(buffers),
      workload_(workload),
      operation_(operation),
      mode_(mode),
      call_count_(call_count) {}

Status Batch::prepare() {
  if (mode_ == Mode::kEager) return Status();
  Result<Stream> stream = Stream::create(communicator_);
  if (!stream.ok()) return stream.status();
  stream_ = stream.take();
  Status status = stream_.begin_capture();
  if (!status.ok()) return status;
  status = issue_all(stream_.handle());
  Result<Graph> graph = stream_.end_capture();  // even if a call failed: the stream must leave it
  if (!status.ok()) return status;
  if (!graph.ok()) return graph.status();
  graph_ = graph.take();
  return Status();
}

Status Batch::enqueue() {
  return mode_ == Mode::kGraph ? graph_.launch(stream_) : issue_all(nullptr);
}

Status Batch::finish() {
  Status status = mode_ == Mode::kGraph ? stream_.synchronize() : communicator_.synchronize();
  if (!status.ok()) return status;
  return communicator_.async_error();
}

Status Batch::issue_all(void* stream) {
  for (int call = 0; call < call_count_; ++call) {
    Status status = issue(stream);
    if (!status.ok()) return status;
  }
  return Status();
}

Status Batch::issue(void* stream) {
  if (operation_ == Operation::kAllReduce) {
    return communicator_.all_reduce(buffers_.in(), buffers_.out(), workload_.row.elements,
                                    workload_.type, stream);
  }
  lpAllReduceRMSNormArgs args = LP_ALL_REDUCE_RMS_NORM_INITIALIZER;
  args.in = buffers_.in();
  args.out = buffers_.out();
  args.residual_in = buffers_.residual_in();
  args.residual_out = buffers_.residual_out();
  args.weight = buffers_.weight();
  args.type = workload_.type;
  args.weight_type = workload_.type;
  args.tokens = workload_.row.tokens;
  args.hidden = workload_.row.hidden;
  args.epsilon = workload_.epsilon;
  return communicator_.all_reduce_rms_norm(args, stream);
}

}  // namespace lamppost::bench
