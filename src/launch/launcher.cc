#include "launch/launcher.hpp"

#include <lamppost/types.hpp>

#include "collectives/all_reduce/args.hpp"
#include "collectives/self_test/args.hpp"
#include "launch/operation_hash.hpp"
#include "lamppost/device/lamport.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace lamppost {
namespace {

using device::kFragmentElements;

constexpr std::uint32_t kThreadUnit = 64;  // whole warps of 32 and of 64 lanes
// A plain call is pushed fastest by several small blocks: on H200 four of 224 threads were a fifth
// faster than one of 896 (two GPUs, 14 KiB).
constexpr std::uint32_t kPlainThreads = 256;

std::uint32_t fragments_of(std::uint64_t elements) {
  return static_cast<std::uint32_t>((elements + kFragmentElements - 1) / kFragmentElements);
}

/// Threads for a row: one a fragment, in whole warps, at most `most`; where a row needs several passes
/// over it, as many as make them equal.
std::uint32_t block_threads_for(std::uint64_t row_elements, std::uint32_t most) {
  most = std::max(most / kThreadUnit, 1u) * kThreadUnit;
  const std::uint32_t fragments = std::max(fragments_of(row_elements), 1u);
  const std::uint32_t passes = (fragments + most - 1) / most;
  const std::uint32_t a_pass = (fragments + passes - 1) / passes;
  return (a_pass + kThreadUnit - 1) / kThreadUnit * kThreadUnit;
}

/// Tickets count eager launches, without 0.
std::uint32_t next_ticket(std::uint32_t last) { return last + 1 == 0 ? 1 : last + 1; }

const void* offset(const void* tensor, std::uint64_t bytes) {
  return tensor == nullptr ? nullptr : static_cast<const std::byte*>(tensor) + bytes;
}
void* offset(void* tensor, std::uint64_t bytes) {
  return tensor == nullptr ? nullptr : static_cast<std::byte*>(tensor) + bytes;
}

/// Every tensor, and every row of it, starts on 16 bytes.
bool is_aligned(const OneShotArgs& args, std::uint64_t row_bytes) {
  std::uintptr_t bits = 0;
  const void* tensors[] = {args.in,
                           args.out,
                           args.norm.residual_in,
                           args.norm.residual_out,
                           args.norm.all_reduce_out,
                           args.norm.weight};
  for (const void* tensor : tensors) bits |= reinterpret_cast<std::uintptr_t>(tensor);
  if (args.rows > 1) bits |= row_bytes;
  return bits % sizeof(device::Pack) == 0;
}

RmsNormArgs norm_args(const CollectiveCall& call, std::uint64_t byte_offset) {
  if (call.epilogue != Epilogue::kRmsNorm) return {};
  return {offset(call.residual_in, byte_offset),
          offset(call.residual_out, byte_offset),
          offset(call.all_reduce_out, byte_offset),
          call.weight,
          call.weight_type == LP_FLOAT32 && call.type != LP_FLOAT32 ? 1u : 0u,
          call.epsilon,
          call.weight_bias,
          1.0f / static_cast<float>(call.columns)};
}

constexpr std::uint32_t kProbeBlockThreads = 256;

KernelId kernel_of(Probe probe) {
  switch (probe) {
    case Probe::kEmpty:
      return kernel_named("probe_empty");
    case Probe::kTimestamp:
      return kernel_named("probe_timestamp");
    case Probe::kPush:
      return kernel_named("probe_push");
    default:
      return kernel_named("probe_one_way");
  }
}

bool is_one_way(Probe probe) { return kernel_of(probe) == kernel_named("probe_one_way"); }

Status check_probe(const ProbeRequest& request, std::uint32_t rank_count) {
  const bool is_pair = request.first_rank < rank_count && request.second_rank < rank_count &&
                       request.first_rank != request.second_rank;
  const bool has_result = is_one_way(request.probe) || request.probe == Probe::kTimestamp;
  if (request.probe > Probe::kPush) return Status(LP_ERROR_INVALID_ARGUMENT, "probe: no Probe");
  if (has_result && request.result == nullptr) {
    return Status(LP_ERROR_INVALID_ARGUMENT, "probe: result is null");
  }
  if (is_one_way(request.probe) && (!is_pair || request.rounds == 0)) {
    return Status(LP_ERROR_INVALID_ARGUMENT,
                  fmt::format("probe: {} rounds between ranks {} and {} of {}", request.rounds,
                              request.first_rank, request.second_rank, rank_count));
  }
  if (request.probe == Probe::kPush && request.bytes % sizeof(device::Pack) != 0) {
    return Status(LP_ERROR_INVALID_ARGUMENT,
                  fmt::format("probe: {} bytes are not whole packs", request.bytes));
  }
  return {};
}

}  // namespace

Launcher::Launcher(Driver& driver, const AgreedFacts& facts, const device::PeerTable& peers,
                   device::ControlPage* page, const PlantedFault& fault)
    : driver_(driver), facts_(facts), peers_(peers), page_(page) {
  if (fault.rank == static_cast<int>(peers.rank)) {
    fault_ = {fault.phase, fault.call, fault.delay_ms};
  }
}

device::CallArgs Launcher::call_args(const LaunchPlace& place) const {
  device::CallArgs args{};
  args.ticket = place.is_captured ? 0 : next_ticket(last_ticket_);
  args.peers = peers_;
  args.page = page_;
  args.layout = device::Layout(facts_.rank_count, facts_.slot_bytes);
  args.fault = fault_;
  return args;
}

/// Most threads of a block for a call: what the kernel, and every rank's device, can take.
std::uint32_t Launcher::most_threads(const CollectiveCall& call, KernelId kernel) const {
  const std::uint32_t most = std::min(kKernels[kernel].most_threads, facts_.max_block_threads);
  return call.epilogue == Epilogue::kNone ? std::min(most, kPlainThreads) : most;
}

Launcher::Part Launcher::part_of(const CollectiveCall& call, const Choice& choice,
                                 std::uint64_t first, std::uint64_t extent) const {
  const Part part = part_for(choice.kernel, call, first, extent);
  const bool is_single = part.rows <= facts_.max_blocks &&
                         fragments_of(part.row_elements) <= most_threads(call, choice.kernel);
  if (is_single || !kKernels[choice.kernel].is_single()) return part;
  return part_for(choice.general_kernel, call, first, extent);
}

Launcher::Part Launcher::part_for(KernelId kernel, const CollectiveCall& call, std::uint64_t first,
                                  std::uint64_t extent) const {
  if (call.epilogue != Epilogue::kNone) {
    return {kernel, first * call.columns, extent * call.columns, extent,
            static_cast<std::uint32_t>(call.columns), static_cast<std::uint32_t>(extent)};
  }
  // A plain call has no rows of its own: a row is what one block takes in one pass.
  const std::uint32_t row_elements =
      block_threads_for(extent, most_threads(call, kernel)) * kFragmentElements;
  return {kernel, first, extent, (extent + row_elements - 1) / row_elements, row_elements,
          static_cast<std::uint32_t>(extent)};
}

Status Launcher::launch(const LaunchPlace& place, const LaunchSpec& spec) {
  Status status = driver_.launch(place.stream, spec);
  if (status.ok() && !place.is_captured) last_ticket_ = next_ticket(last_ticket_);
  return status;
}

Status Launcher::launch(const CollectiveCall& call, const Choice& choice,
                        const LaunchPlace& place) {
  const std::uint64_t total = call.epilogue == Epilogue::kNone ? call.columns : call.rows;
  std::uint64_t first = 0;
  do {  // an empty call is one launch, of headers only
    const std::uint64_t extent = std::min(choice.extent_per_launch, total - first);
    Status status = launch_part(call, choice, part_of(call, choice, first, extent), place);
    if (!status.ok()) return status;
    first += extent;
  } while (first < total);
  return {};
}

Status Launcher::launch_part(const CollectiveCall& call, const Choice& choice, const Part& part,
                             const LaunchPlace& place) {
  const std::uint64_t bytes = element_bytes(call.type);
  OneShotArgs args{};
  args.in = offset(call.in, part.first_element * bytes);
  args.out = offset(call.out, part.first_element * bytes);
  args.rows = static_cast<std::uint32_t>(part.rows);
  args.element_count = static_cast<std::uint32_t>(part.element_count);
  args.row_elements = part.row_elements;
  args.norm = norm_args(call, part.first_element * bytes);
  // Fragments lie one after the other; only the last row of a plain call is short.
  const std::uint64_t full_rows = part.rows == 0 ? 0 : part.rows - 1;
  const std::uint64_t last_row = part.element_count - full_rows * part.row_elements;
  args.is_aligned = is_aligned(args, part.row_elements * bytes) ? 1 : 0;
  const bool has_short_fragment = part.element_count % device::kFragmentElements != 0 ||
                                  (part.rows > 1 && part.row_elements % device::kFragmentElements != 0);
  args.is_whole = args.is_aligned != 0 && !has_short_fragment ? 1 : 0;

  args.row_fragments = fragments_of(part.row_elements);
  args.fragments = static_cast<std::uint32_t>(
      full_rows * args.row_fragments + fragments_of(last_row));

  LaunchSpec spec{
      part.kernel,
      static_cast<std::uint32_t>(std::clamp<std::uint64_t>(part.rows, 1, facts_.max_blocks)),
      block_threads_for(part.row_elements, most_threads(call, part.kernel)), &args, sizeof(args), 1,
      facts_.early_launch};
  args.call = call_args(place);
  args.call.stride_bytes = args.fragments * static_cast<std::uint32_t>(kFragmentElements * bytes);
  args.call.deferred_bytes =
      device::deferred_clear_bytes(facts_.rank_count, args.call.stride_bytes);
  args.call.operation_hash = operation_hash(call, choice, spec);
  args.call.extent = part.extent;
  args.call.columns = part.row_elements;
  // Where this rank's tensors lie is no other rank's matter.
  if (kKernels[part.kernel].is_single() && args.is_whole == 0) {
    spec.kernel = choice.general_kernel;
    spec.block_threads =
        block_threads_for(part.row_elements, most_threads(call, choice.general_kernel));
  }
  return launch(place, spec);
}

Status Launcher::launch_self_test(std::uint32_t rounds, StreamHandle stream) {
  const LaunchPlace place{stream, false};
  SelfTestArgs args{};
  args.call = call_args(place);
  args.rounds = rounds;
  next_flag_ = rounds + 1;
  const auto kernel = find_kernel(Algorithm::kSelfTest, LP_UINT32, 0, Epilogue::kNone);
  const LaunchSpec spec{*kernel, 1, block_threads_for(0, facts_.max_block_threads), &args,
                        sizeof(args)};
  return launch(place, spec);
}

Status Launcher::launch_probe(const ProbeRequest& request, const LaunchPlace& place) {
  Status status = check_probe(request, facts_.rank_count);
  if (!status.ok()) return status;
  ProbeArgs args{};
  args.request = request;
  LaunchSpec spec{kernel_of(request.probe), 1, std::min(kThreadUnit, facts_.max_block_threads),
                  &args, sizeof(args)};
  args.call = call_args(place);
  if (is_one_way(request.probe)) {  // a call; the others are none, and have no ticket
    if (request.probe == Probe::kOneWayBlock) {
      spec.block_threads = std::min(kProbeBlockThreads, facts_.max_block_threads);
    }
    args.first_flag = next_flag_;
    next_flag_ += request.rounds + 1;
    return launch(place, spec);
  }
  if (request.probe == Probe::kPush) {
    spec.grid_blocks = facts_.max_blocks;
    spec.block_threads = std::min(kMostThreads, facts_.max_block_threads);
  }
  spec.early_launch = request.probe == Probe::kEmpty && facts_.early_launch;
  return driver_.launch(place.stream, spec);
}

}  // namespace lamppost
