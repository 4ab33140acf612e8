// References for collectives: the contract's arithmetic as plain loops, bit for bit, and exact values
// in double for error bounds. Written apart from the device code: own conversions, own tree.
#pragma once

#include <lamppost/lamppost.h>

#include <cstdint>
#include <vector>

namespace lamppost::test {

/// One tensor as bits: 16-bit elements in the low half.
using Bits = std::vector<std::uint32_t>;

float decode(std::uint32_t bits, lpDataType_t type);
/// To nearest even; NaN canonical.
std::uint32_t encode(float value, lpDataType_t type);
/// Half the distance to the next value of the type at |value|.
double half_ulp(double value, lpDataType_t type);

/// Bits of a tensor in the type's own layout, and back.
std::vector<std::byte> to_memory(const Bits& bits, lpDataType_t type);
Bits from_memory(const std::vector<std::byte>& memory, lpDataType_t type);

/// The rounded sum of all ranks' inputs, as lpAllReduce must give it. No output is -0.
Bits all_reduce_bits(const std::vector<Bits>& inputs, lpDataType_t type);

struct NormInput {
  std::uint64_t tokens;
  std::uint64_t hidden;
  lpDataType_t type;
  lpDataType_t weight_type;
  Bits weight;
  float epsilon;
  float weight_bias;
  Bits residual;  // empty: none
};

struct NormBits {
  Bits sum;
  Bits residual;
  Bits out;
};

NormBits all_reduce_norm_bits(const std::vector<Bits>& inputs, const NormInput& norm);

/// Largest |error| / bound over all elements of a plain sum, against a double reference and
/// N * 2^-24 * sum|x| + half an ulp; at most 1 is right. Finite inputs only.
double worst_sum_error(const std::vector<Bits>& inputs, const Bits& result, lpDataType_t type);
/// The same for the norm: `out` against exact arithmetic on the residual bits, and lamppost.h's bound.
double worst_norm_error(const NormInput& norm, const Bits& residual, const Bits& out);

}  // namespace lamppost::test
