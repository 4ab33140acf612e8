// CollectiveCall: what the user asked for, checked. The first of the four structs that a call passes
// through: CollectiveCall -> Choice (select) -> LaunchSpec (launch) -> Args (kernel).
#pragma once

#include <lamppost/lamppost.h>

#include <cstdint>

namespace lamppost {

enum class Collective : std::uint8_t { kAllReduce };
/// What follows the sum, in the same kernel.
enum class Epilogue : std::uint8_t { kNone, kRmsNorm };

struct CollectiveCall {
  Collective collective = Collective::kAllReduce;
  Epilogue epilogue = Epilogue::kNone;
  lpDataType_t type = LP_BFLOAT16;
  /// A plain call is one row of `count` elements; a fused one `rows` rows of `columns`.
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;

  const void* in = nullptr;
  void* out = nullptr;

  // kRmsNorm only.
  const void* residual_in = nullptr;
  void* residual_out = nullptr;
  void* all_reduce_out = nullptr;
  const void* weight = nullptr;
  lpDataType_t weight_type = LP_BFLOAT16;
  float epsilon = 0.0f;
  float weight_bias = 0.0f;
};

}  // namespace lamppost
