// The hash that headers carry: equal on all ranks if they make the same call. Covers the collective
// arguments that change the result or the wire, and the launch shape.
#pragma once

#include "driver/driver.hpp"
#include "select/selector.hpp"

#include <bit>

namespace lamppost {

/// 31 bits (a header word must not equal the sentinel). FNV-1a over 32-bit words: Fowler, Noll, Vo.
inline std::uint32_t operation_hash(const CollectiveCall& call, const Choice& choice,
                                    const LaunchSpec& spec) {
  const std::uint32_t words[] = {
      static_cast<std::uint32_t>(choice.algorithm),
      choice.kernel,
      static_cast<std::uint32_t>(call.collective),
      static_cast<std::uint32_t>(call.epilogue),
      static_cast<std::uint32_t>(call.type),
      static_cast<std::uint32_t>(call.weight_type),
      call.epilogue == Epilogue::kNone ? 0u : static_cast<std::uint32_t>(call.columns),
      call.residual_in != nullptr ? 1u : 0u,
      std::bit_cast<std::uint32_t>(call.epsilon),
      std::bit_cast<std::uint32_t>(call.weight_bias),
      spec.grid_blocks,
      spec.block_threads,
  };
  std::uint32_t hash = 2166136261u;
  for (const std::uint32_t word : words) {
    for (int shift = 0; shift < 32; shift += 8) hash = (hash ^ (word >> shift & 0xffu)) * 16777619u;
  }
  return (hash ^ hash >> 31) & 0x7fffffffu;
}

}  // namespace lamppost
