#include "select/selector.hpp"

#include <lamppost/types.hpp>

#include "lamppost/device/pack.hpp"

#include <fmt/core.h>

namespace lamppost {

using device::kFragmentElements;

std::uint64_t wire_row_bytes(std::uint64_t columns, lpDataType_t type) {
  const std::uint64_t fragments = (columns + kFragmentElements - 1) / kFragmentElements;
  return fragments * kFragmentElements * element_bytes(type);
}

Result<Choice> select(const CollectiveCall& call, const AgreedFacts& facts) {
  const bool has_exact_world =
      facts.rank_count == 2 || facts.rank_count == 4 || facts.rank_count == 8;
  const auto kernel = find_kernel(Algorithm::kOneShotLamport, call.type,
                                  has_exact_world ? facts.rank_count : 0, call.epilogue);
  if (!kernel) {
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
  const std::uint64_t extent =
      call.epilogue == Epilogue::kNone ? units * kFragmentElements : units;
  return Choice{Algorithm::kOneShotLamport, *kernel, extent};
}

}  // namespace lamppost
