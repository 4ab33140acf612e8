// Arguments of the one-shot all-reduce kernels. Made by src/launch, read by the kernels.
#pragma once

#include "lamppost/device/call.hpp"

#include <type_traits>

namespace lamppost {

/// Only for the RMSNorm epilogue. Tensors are [rows, row_elements] of the payload type.
struct RmsNormArgs {
  const void* residual_in;   // or null
  void* residual_out;        // or null
  void* all_reduce_out;      // or null
  const void* weight;        // [row_elements]
  std::uint32_t weight_is_fp32;
  float epsilon;
  float weight_bias;
  float inverse_columns;     // 1 / row_elements, rounded once
};

/// Counts are of one launch, whose data fits one slot. `call` ends with the peers' addresses, so that
/// what every thread reads lies in few lines of the constant cache, which a launch finds cold.
struct OneShotArgs {
  const void* in;
  void* out;
  std::uint32_t rows;
  std::uint32_t element_count;  // rows * row_elements, or less: the last row may be short
  std::uint32_t row_elements;   // a multiple of 8 unless there is one row a tensor row
  std::uint32_t row_fragments;  // of a full row
  std::uint32_t fragments;      // of all rows
  std::uint32_t is_aligned;     // every tensor and row starts on 16 bytes
  std::uint32_t is_whole;       // is_aligned, and every fragment has eight elements
  RmsNormArgs norm;
  device::CallArgs call;
};
static_assert(std::is_trivially_copyable_v<OneShotArgs>);
static_assert(sizeof(OneShotArgs) <= 1024);

}  // namespace lamppost
