#include "support/reference.hpp"

#include <lamppost/types.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace lamppost::test {
namespace {

bool is_half(lpDataType_t type) { return type != LP_FLOAT32; }
int mantissa_bits(lpDataType_t type) {
  return type == LP_BFLOAT16 ? 7 : type == LP_FLOAT16 ? 10 : 23;
}
int least_exponent(lpDataType_t type) { return type == LP_FLOAT16 ? -14 : -126; }

double decode_fp16_exactly(std::uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31u);
  const double mantissa = static_cast<double>(bits & 1023u);
  const double sign = (bits & 0x8000u) != 0 ? -1.0 : 1.0;
  if (exponent == 31) return mantissa != 0.0 ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024.0 + mantissa, exponent - 25);
}

float decode_fp16(std::uint32_t bits) {
  static const std::vector<float> table = [] {
    std::vector<float> values(65536);
    for (std::uint32_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(decode_fp16_exactly(i));
    }
    return values;
  }();
  return table[bits];
}

/// The nearer of the two 16-bit neighbours, judged by exact distances; ties to the even one.
std::uint32_t encode_bf16(float value) {
  const std::uint32_t low = std::bit_cast<std::uint32_t>(value) >> 16;
  if (std::isinf(value)) return low;
  // The neighbour above the largest finite value stands for 2^128, where Inf has its pattern.
  const auto magnitude = [](std::uint32_t half) {
    return (half & 0x7fffu) == 0x7f80u
               ? std::ldexp(1.0, 128)
               : static_cast<double>(std::fabs(std::bit_cast<float>(half << 16)));
  };
  const double exact = std::fabs(static_cast<double>(value));
  const double below = exact - magnitude(low);
  const double above = magnitude(low + 1) - exact;
  return below < above || (below == above && low % 2 == 0) ? low : low + 1;
}

/// -0 comes out as +0.
void clear_negative_zeros(Bits& bits, lpDataType_t type) {
  const std::uint32_t negative_zero = is_half(type) ? 0x8000u : 0x80000000u;
  std::replace(bits.begin(), bits.end(), negative_zero, 0u);
}

float tree_of_squares(const float* row, std::uint64_t hidden) {
  std::vector<float> leaves;
  for (std::uint64_t column = 0; column < hidden; column += 8) {
    float sum = 0.0f;
    for (std::uint64_t c = column; c < column + 8; ++c) {
      const float value = c < hidden ? row[c] : 0.0f;
      sum = std::fma(value, value, sum);
    }
    leaves.push_back(sum);
  }
  leaves.resize(std::bit_ceil(leaves.size()), 0.0f);
  for (; leaves.size() > 1;) {
    std::vector<float> next;
    for (std::size_t i = 0; i < leaves.size(); i += 2) next.push_back(leaves[i] + leaves[i + 1]);
    leaves = std::move(next);
  }
  return leaves[0];
}

}  // namespace

float decode(std::uint32_t bits, lpDataType_t type) {
  if (type == LP_FLOAT32) return std::bit_cast<float>(bits);
  if (type == LP_BFLOAT16) return std::bit_cast<float>(bits << 16);
  return decode_fp16(bits);
}

std::uint32_t encode(float value, lpDataType_t type) {
  if (std::isnan(value)) return is_half(type) ? 0x7fffu : 0x7fffffffu;
  if (type == LP_FLOAT32) return std::bit_cast<std::uint32_t>(value);
  if (type == LP_BFLOAT16) return encode_bf16(value);
  // The compiler's own half precision, in software where the processor has none.
  return std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
}

double half_ulp(double value, lpDataType_t type) {
  const double magnitude = std::fabs(value);
  const int exponent =
      magnitude == 0.0 ? least_exponent(type) : std::max(std::ilogb(magnitude), least_exponent(type));
  return std::ldexp(0.5, exponent - mantissa_bits(type));
}

std::vector<std::byte> to_memory(const Bits& bits, lpDataType_t type) {
  const std::size_t each = element_bytes(type);
  std::vector<std::byte> memory(bits.size() * each);
  for (std::size_t i = 0; i < bits.size(); ++i) std::memcpy(memory.data() + i * each, &bits[i], each);
  return memory;
}

Bits from_memory(const std::vector<std::byte>& memory, lpDataType_t type) {
  const std::size_t each = element_bytes(type);
  Bits bits(memory.size() / each, 0);
  for (std::size_t i = 0; i < bits.size(); ++i) std::memcpy(&bits[i], memory.data() + i * each, each);
  return bits;
}

Bits all_reduce_bits(const std::vector<Bits>& inputs, lpDataType_t type) {
  Bits result(inputs[0].size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    float sum = 0.0f;
    for (const Bits& bits : inputs) sum += decode(bits[i], type);
    result[i] = encode(sum, type);
  }
  clear_negative_zeros(result, type);
  return result;
}

NormBits all_reduce_norm_bits(const std::vector<Bits>& inputs, const NormInput& norm) {
  NormBits bits;
  bits.sum = all_reduce_bits(inputs, norm.type);
  bits.residual = bits.sum;
  if (!norm.residual.empty()) {
    for (std::size_t i = 0; i < bits.sum.size(); ++i) {
      const float value = decode(bits.sum[i], norm.type) + decode(norm.residual[i], norm.type);
      bits.residual[i] = encode(value, norm.type);
    }
    clear_negative_zeros(bits.residual, norm.type);
  }
  bits.out.resize(bits.sum.size());
  const float inverse = 1.0f / static_cast<float>(norm.hidden);
  std::vector<float> row(norm.hidden);
  for (std::uint64_t t = 0; t < norm.tokens; ++t) {
    for (std::uint64_t c = 0; c < norm.hidden; ++c) {
      row[c] = decode(bits.residual[t * norm.hidden + c], norm.type);
    }
    const float mean = tree_of_squares(row.data(), norm.hidden) * inverse;
    const float scale = 1.0f / std::sqrt(mean + norm.epsilon);
    for (std::uint64_t c = 0; c < norm.hidden; ++c) {
      const float weight = norm.weight_bias + decode(norm.weight[c], norm.weight_type);
      const float scaled = row[c] * scale;
      bits.out[t * norm.hidden + c] = encode(scaled * weight, norm.type);
    }
  }
  clear_negative_zeros(bits.out, norm.type);
  return bits;
}

double worst_sum_error(const std::vector<Bits>& inputs, const Bits& result, lpDataType_t type) {
  double worst = 0.0;
  for (std::size_t i = 0; i < result.size(); ++i) {
    double sum = 0.0;
    double magnitude = 0.0;
    for (const Bits& bits : inputs) {
      const double value = decode(bits[i], type);
      sum += value;
      magnitude += std::fabs(value);
    }
    const double allowed = static_cast<double>(inputs.size()) * std::ldexp(magnitude, -24);
    const double bound = allowed + half_ulp(std::fabs(sum) + allowed, type);
    worst = std::max(worst, std::fabs(decode(result[i], type) - sum) / bound);
  }
  return worst;
}

double worst_norm_error(const NormInput& norm, const Bits& residual, const Bits& out) {
  const double unit = std::ldexp(1.0, -24);
  const double leaves = std::ceil(static_cast<double>(norm.hidden) / 8.0);
  const double relative = ((11.0 + std::ceil(std::log2(leaves))) / 2.0 + 7.0) * unit;
  double worst = 0.0;
  for (std::uint64_t t = 0; t < norm.tokens; ++t) {
    double squares = 0.0;
    for (std::uint64_t c = 0; c < norm.hidden; ++c) {
      const double value = decode(residual[t * norm.hidden + c], norm.type);
      squares += value * value;
    }
    const double scale =
        1.0 / std::sqrt(squares / static_cast<double>(norm.hidden) + static_cast<double>(norm.epsilon));
    for (std::uint64_t c = 0; c < norm.hidden; ++c) {
      const std::size_t i = t * norm.hidden + c;
      const double weight = static_cast<double>(norm.weight_bias) +
                            static_cast<double>(decode(norm.weight[c], norm.weight_type));
      const double exact = decode(residual[i], norm.type) * scale * weight;
      const double allowed = relative * std::fabs(exact);
      const double bound = allowed + half_ulp(std::fabs(exact) + allowed, norm.type);
      worst = std::max(worst, std::fabs(decode(out[i], norm.type) - exact) / bound);
    }
  }
  return worst;
}

}  // namespace lamppost::test
