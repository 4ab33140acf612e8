// How threads of a launch share out work: half-open index ranges with a stride. Pure arithmetic.
#pragma once

#include "lamppost/device/target.hpp"

namespace lamppost::device {

/// for (std::uint32_t i : StrideRange{first, end, stride}); end + stride is below 2^32.
struct StrideRange {
  std::uint32_t first;
  std::uint32_t end_index;
  std::uint32_t stride;

  struct Iterator {
    std::uint32_t index;
    std::uint32_t stride;
    LAMPPOST_DEVICE std::uint32_t operator*() const { return index; }
    LAMPPOST_DEVICE Iterator& operator++() {
      index += stride;
      return *this;
    }
    /// "not yet at the end": the last step may jump over it.
    LAMPPOST_DEVICE bool operator!=(const Iterator& end) const { return index < end.index; }
  };
  LAMPPOST_DEVICE Iterator begin() const { return {first, stride}; }
  LAMPPOST_DEVICE Iterator end() const { return {end_index, stride}; }
};

/// Indices 0 .. count-1 shared over all threads of the launch.
template <Target T>
LAMPPOST_DEVICE StrideRange over_grid_threads(T& t, std::uint32_t count) {
  return {t.block_rank() * t.block_threads() + t.thread_rank(), count,
          t.grid_blocks() * t.block_threads()};
}

/// Indices shared over the blocks: every thread of a block sees the same ones.
template <Target T>
LAMPPOST_DEVICE StrideRange over_blocks(T& t, std::uint32_t count) {
  return {t.block_rank(), count, t.grid_blocks()};
}

/// Indices shared over the threads of this block.
template <Target T>
LAMPPOST_DEVICE StrideRange over_block_threads(T& t, std::uint32_t count) {
  return {t.thread_rank(), count, t.block_threads()};
}

}  // namespace lamppost::device
