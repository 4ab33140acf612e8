// The selector: one pure function from what the ranks agreed on and what the user asked to the
// algorithm. Choice is the second of the four structs of a call's path. No state, no I/O.
#pragma once

#include <lamppost/status.hpp>

#include "collectives/collective_call.hpp"
#include "collectives/kernel_table.hpp"

namespace lamppost {

/// Values that all ranks have in common since creation.
struct AgreedFacts {
  std::uint32_t rank_count;
  std::uint64_t slot_bytes;
  std::uint32_t max_blocks;
  std::uint32_t max_block_threads;  // a multiple of 64
  bool early_launch = false;        // a launch may start before the one before it ends
};

/// Which kernel, and how much of the call one launch takes.
struct Choice {
  Algorithm algorithm;
  KernelId kernel;
  KernelId general_kernel;  // for launches that do not fit a kernel with is_single()
  /// A fused call: tensor rows a launch. A plain call: elements a launch, whole fragments.
  std::uint64_t extent_per_launch;
};

/// The same result on every rank: only agreed facts and collective arguments go in. NOT_SUPPORTED
/// with the reason if no algorithm takes the call.
Result<Choice> select(const CollectiveCall& call, const AgreedFacts& facts);

/// Bytes that a row of `columns` elements takes on the wire: whole 8-element fragments.
std::uint64_t wire_row_bytes(std::uint64_t columns, lpDataType_t type);

}  // namespace lamppost
