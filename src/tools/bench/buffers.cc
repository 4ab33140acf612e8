#include "tools/bench/buffers.hpp"

#include <algorithm>
#include <lamppost/types.hpp>

namespace lamppost::bench {
namespace {

constexpr std::size_t kGuardBytes = 256;
constexpr unsigned char kGuardByte = 0xa5;
constexpr int kNanByte = 0xff;

std::size_t weight_bytes(const Workload& workload) {
  return static_cast<std::size_t>(workload.row.hidden) * element_bytes(workload.type);
}

}  // namespace

Result<GuardedBuffer> GuardedBuffer::create(Workbench& workbench, std::size_t bytes) {
  Result<void*> memory = workbench.allocate(bytes + kGuardBytes);
  if (!memory.ok()) return Status(memory.status()).with_context("the benchmark's own buffer");
  GuardedBuffer buffer;
  buffer.memory_ = {memory.value(), Free{&workbench}};
  buffer.bytes_ = bytes;
  Status status = workbench.fill_bytes(static_cast<std::byte*>(memory.value()) + bytes, kGuardByte,
                                       kGuardBytes);
  if (!status.ok()) return status;
  return buffer;
}

Status GuardedBuffer::fill_bytes(int value) {
  if (memory_ == nullptr) return {};
  return memory_.get_deleter().workbench->fill_bytes(data(), value, bytes_);
}

Status GuardedBuffer::copy_in(const std::vector<std::byte>& from) {
  if (memory_ == nullptr) return {};
  return memory_.get_deleter().workbench->copy_in(data(), from.data(), bytes_);
}

Status GuardedBuffer::copy_out(std::vector<std::byte>& to) const {
  to.resize(bytes_);
  if (memory_ == nullptr) return {};
  return memory_.get_deleter().workbench->copy_out(to.data(), data(), bytes_);
}

Result<std::size_t> GuardedBuffer::changed_guard_bytes() const {
  if (memory_ == nullptr) return std::size_t{0};
  std::vector<std::byte> guard(kGuardBytes);
  Status status = memory_.get_deleter().workbench->copy_out(
      guard.data(), static_cast<const std::byte*>(data()) + bytes_, kGuardBytes);
  if (!status.ok()) return status;
  const auto kept = std::count(guard.begin(), guard.end(), std::byte{kGuardByte});
  return kGuardBytes - static_cast<std::size_t>(kept);
}

Inputs Inputs::make(const Workload& workload, int rank, Operation operation) {
  Inputs inputs;
  inputs.in.resize(workload.row.bytes);
  fill_input(workload, rank, inputs.in.data());
  if (operation != Operation::kAllReduceRmsNorm) return inputs;
  inputs.residual.resize(workload.row.bytes);
  fill_residual(workload, inputs.residual.data());
  inputs.weight.resize(weight_bytes(workload));
  fill_weight(workload, inputs.weight.data());
  return inputs;
}

Result<RowBuffers> RowBuffers::create(Workbench& workbench, const Workload& workload,
                                      const Options& options) {
  RowBuffers buffers;
  buffers.in_place_ = options.placement == Placement::kInPlace;
  buffers.fused_ = options.operation == Operation::kAllReduceRmsNorm;
  struct Wanted {
    GuardedBuffer& buffer;
    bool needed;
    std::size_t bytes;
  };
  const Wanted all[] = {
      {buffers.in_, true, workload.row.bytes},
      {buffers.out_, !buffers.in_place_, workload.row.bytes},
      {buffers.residual_in_, buffers.fused_, workload.row.bytes},
      {buffers.residual_out_, buffers.fused_ && !buffers.in_place_, workload.row.bytes},
      {buffers.weight_, buffers.fused_, weight_bytes(workload)},
  };
  for (const Wanted& wanted : all) {
    if (!wanted.needed) continue;
    Result<GuardedBuffer> buffer = GuardedBuffer::create(workbench, wanted.bytes);
    if (!buffer.ok()) return buffer.status();
    wanted.buffer = buffer.take();
  }
  return buffers;
}

std::uint64_t RowBuffers::set_bytes(const Workload& workload, const Options& options) {
  const std::uint64_t places = options.placement == Placement::kInPlace ? 1 : 2;
  if (options.operation != Operation::kAllReduceRmsNorm) return places * workload.row.bytes;
  return 2 * places * workload.row.bytes + weight_bytes(workload);
}

Status RowBuffers::reset(const Inputs& inputs) {
  Status status = out_.fill_bytes(kNanByte);
  if (status.ok()) status = residual_out_.fill_bytes(kNanByte);
  if (status.ok()) status = in_.copy_in(inputs.in);
  if (status.ok()) status = residual_in_.copy_in(inputs.residual);
  if (status.ok()) status = weight_.copy_in(inputs.weight);
  return status;
}

Status RowBuffers::read(Outputs& outputs) const {
  Status status = (in_place_ ? in_ : out_).copy_out(outputs.out);
  if (!status.ok() || !fused_) return status;
  return (in_place_ ? residual_in_ : residual_out_).copy_out(outputs.residual_out);
}

Result<std::size_t> RowBuffers::changed_guard_bytes() const {
  std::size_t changed = 0;
  for (const GuardedBuffer* buffer : {&in_, &out_, &residual_in_, &residual_out_, &weight_}) {
    const Result<std::size_t> bytes = buffer->changed_guard_bytes();
    if (!bytes.ok()) return bytes.status();
    changed += bytes.value();
  }
  return changed;
}

}  // namespace lamppost::bench
