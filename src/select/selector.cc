#include "select/selector.hpp"

#include <lamppost/types.hpp>

#include "lamppost/device/pack.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace lamppost {

using device::kFragmentElements;

std::uint64_t wire_row_bytes(std::uint64_t columns, lpDataType_t type) {
  const std::uint64_t fragments = (columns + kFragmentElements - 1) / kFragmentElements;
  return fragments * kFragmentElements * element_bytes(type);
}

namespace {

/// Whether a tensor row has at most a fragment for each thread of a block.
bool fits_a_block(const CollectiveCall& call, KernelId kernel, const AgreedFacts& facts) {
  const std::uint32_t threads = std::min(kKernels[kernel].most_threads, facts.max_block_threads);
  return call.epilogue != Epilogue::kNone && call.columns <= threads * kFragmentElements;
}

}  // namespace

Result<Choice> select(const CollectiveCall& call, const AgreedFacts& facts) {
  const auto general = find_kernel(Algorithm::kOneShotLamport, call.type, 0, call.epilogue);
  if (!general) {
    return Status(LP_ERROR_NOT_SUPPORTED,
                  fmt::format("no all-reduce kernel for type {}", type_name(call.type)));
  }
  const std::uint64_t unit_bytes = call.epilogue == Epilogue::kNone
                                       ? wire_row_bytes(kFragmentElements, call.type)
                                       : wire_row_bytes(call.columns, call.type);
  const std::uint64_t units = facts.slot_bytes / unit_bytes;
  if (units == 0) {
    return Status(LP_ERROR_NOT_SUPPORTED,
                  fmt::format("a row of {} bytes is larger than a slot of {} bytes", unit_bytes,
                              facts.slot_bytes));
  }
  const auto exact =
      find_kernel(Algorithm::kOneShotLamport, call.type, facts.rank_count, call.epilogue);
  std::uint64_t extent = call.epilogue == Epilogue::kNone ? units * kFragmentElements : units;
  if (exact && fits_a_block(call, *exact, facts) && extent / 2 <= facts.max_blocks) {
    extent = std::min<std::uint64_t>(extent, facts.max_blocks);  // one row a block, if that is near
  }
  return Choice{Algorithm::kOneShotLamport, exact.value_or(*general), *general, extent};
}

}  // namespace lamppost
