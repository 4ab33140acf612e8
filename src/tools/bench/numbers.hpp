// The payload number formats as the benchmark's reference sees them. Written apart from the
// library's own conversions on purpose: a mistake in one must not hide in the other. Stateless.
#pragma once

#include <lamppost/lamppost.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace lamppost::bench {

struct Bf16 {
  using Bits = std::uint16_t;
  static constexpr int kMantissaBits = 7;
  static constexpr int kMinExponent = -126;

  static Bits encode(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
    return static_cast<Bits>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  }
  static float decode(Bits bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

struct Fp16 {
  using Bits = std::uint16_t;
  static constexpr int kMantissaBits = 10;
  static constexpr int kMinExponent = -14;

  static Bits encode(float value) {
    const std::uint32_t all = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (all >> 16) & 0x8000u;
    const std::uint32_t bits = all & 0x7fffffffu;
    if (bits > 0x7f800000u) return 0x7fff;
    if (bits >= 0x477ff000u) return static_cast<Bits>(sign | 0x7c00u);  // 65,520 and more
    if (bits < 0x38800000u) {
      // Below 2^-14: in [0.5, 1) one ulp of fp32 is 2^-24, the spacing of fp16's subnormals.
      const float shifted = std::bit_cast<float>(bits) + 0.5f;
      return static_cast<Bits>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
    }
    const std::uint32_t rounded = bits + 0xfffu + ((bits >> 13) & 1u);
    return static_cast<Bits>(sign | ((rounded - 0x38000000u) >> 13));
  }
  static float decode(Bits bits) {
    const std::uint32_t sign = (bits & 0x8000u) << 16;
    const std::uint32_t exponent = (bits >> 10) & 31u;
    const std::uint32_t mantissa = bits & 0x3ffu;
    if (exponent == 0) {
      const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
      return sign == 0 ? magnitude : -magnitude;
    }
    const std::uint32_t wide_exponent = exponent == 31 ? 255u : exponent + 112u;
    return std::bit_cast<float>(sign | (wide_exponent << 23) | (mantissa << 13));
  }
};

struct Fp32 {
  using Bits = std::uint32_t;
  static constexpr int kMantissaBits = 23;
  static constexpr int kMinExponent = -126;

  static Bits encode(float value) { return std::bit_cast<Bits>(value); }
  static float decode(Bits bits) { return std::bit_cast<float>(bits); }
};

/// Half the spacing of Format's numbers around `value`: the most that rounding to nearest moves it.
template <class Format>
double half_ulp(double value) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  const int exponent = static_cast<int>((bits >> 52) & 0x7ff) - 1023;  // -1023 for 0
  const int scale = std::max(exponent, Format::kMinExponent) - Format::kMantissaBits - 1;
  return std::bit_cast<double>(static_cast<std::uint64_t>(scale + 1023) << 52);  // 2^scale
}

/// Calls function(Format{}) with the format of `type`, which must be LP_BFLOAT16, LP_FLOAT16 or
/// LP_FLOAT32.
template <class Function>
auto with_format(lpDataType_t type, Function&& function) {
  switch (type) {
    case LP_BFLOAT16:
      return function(Bf16{});
    case LP_FLOAT16:
      return function(Fp16{});
    default:
      return function(Fp32{});
  }
}

}  // namespace lamppost::bench
