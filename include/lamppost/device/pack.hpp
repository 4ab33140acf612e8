// Elements, packs and fragments: how payload looks on the wire, and its conversions to fp32.
// Pure functions on bits; no memory access, no target needed.
//
// A fragment is 8 consecutive columns of a row, counted from the row's start: one pack of 16-bit
// elements or two packs of fp32. It is also a leaf of the norm's summation tree.
#pragma once

#include "lamppost/device/target.hpp"

namespace lamppost::device {

inline constexpr int kFragmentElements = 8;
/// A payload word with these bits would look like an empty slot, so it is never sent.
inline constexpr std::uint32_t kSentinel = 0x80000000u;

LAMPPOST_DEVICE std::uint32_t bits_of(float value) {
  return __builtin_bit_cast(std::uint32_t, value);
}
LAMPPOST_DEVICE float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
LAMPPOST_DEVICE bool is_nan_bits(std::uint32_t bits) { return (bits & 0x7fffffffu) > 0x7f800000u; }

/// Exact.
LAMPPOST_DEVICE float to_float(Bf16 value) {
  return float_of(static_cast<std::uint32_t>(value.bits) << 16);
}
/// Exact, subnormals included: the exponent is rebased by a power of two.
LAMPPOST_DEVICE float to_float(Fp16 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(value.bits & 0x7fffu) << 13;
  const bool is_special = (value.bits & 0x7c00u) == 0x7c00u;
  const float rebased = float_of(magnitude) * 0x1p112f;
  return float_of(sign | (is_special ? magnitude | 0x7f800000u : bits_of(rebased)));
}
LAMPPOST_DEVICE float to_float(float value) { return value; }

/// Rounding to the payload type: to nearest, ties to even; overflow gives Inf; every NaN becomes one
/// canonical NaN (0x7fff, 0x7fffffff), the patterns that NVIDIA's conversions give.
template <class Element>
LAMPPOST_DEVICE Element round_to(float value);

template <>
LAMPPOST_DEVICE Bf16 round_to<Bf16>(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return Bf16{static_cast<std::uint16_t>(is_nan_bits(bits) ? 0x7fffu : rounded)};
}

template <>
LAMPPOST_DEVICE Fp16 round_to<Fp16>(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t rounded;
  if (magnitude >= 0x477ff000u) {  // 65,520 and above round to Inf
    rounded = is_nan_bits(bits) ? 0x7fffu : 0x7c00u;
    return Fp16{static_cast<std::uint16_t>(is_nan_bits(bits) ? 0x7fffu : sign | rounded)};
  }
  if (magnitude < 0x38800000u) {
    // Below 2^-14 the result is subnormal: adding 0.5 leaves its 10 bits, rounded by the adder, in
    // the low bits of the sum (0.5 has 2^-24 as its last place, as fp16's subnormals have).
    rounded = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    rounded = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return Fp16{static_cast<std::uint16_t>(sign | rounded)};
}

template <>
LAMPPOST_DEVICE float round_to<float>(float value) {
  return is_nan_bits(bits_of(value)) ? float_of(0x7fffffffu) : value;
}

/// Rounding and widening by pairs, in integer arithmetic: for targets without instructions for it.
template <class Element>
LAMPPOST_DEVICE std::uint32_t round_pair_by_bits(float low, float high) {
  return round_to<Element>(low).bits |
         static_cast<std::uint32_t>(round_to<Element>(high).bits) << 16;
}
template <class Element>
LAMPPOST_DEVICE FloatPair float_pair_by_bits(std::uint32_t word) {
  return {to_float(Element{static_cast<std::uint16_t>(word)}),
          to_float(Element{static_cast<std::uint16_t>(word >> 16)})};
}
template <class Element>
LAMPPOST_DEVICE std::uint32_t add_pair_by_bits(std::uint32_t a, std::uint32_t b) {
  const FloatPair x = float_pair_by_bits<Element>(a);
  const FloatPair y = float_pair_by_bits<Element>(b);
  return round_pair_by_bits<Element>(x.low + y.low, x.high + y.high);
}

/// Eight elements of a row. Elements past the row's end are +0.
template <class Element>
struct Fragment {
  static constexpr int kPacks = kFragmentElements * sizeof(Element) / sizeof(Pack);
  Pack pack[kPacks];
};

/// Bits only, never a floating-point compare: with flush-to-zero a negative subnormal would compare
/// equal to -0.
LAMPPOST_DEVICE bool has_sentinel(const Pack& pack) {
  bool has = false;
  for (const std::uint32_t word : pack.word) has |= word == kSentinel;  // no branches between them
  return has;
}

LAMPPOST_DEVICE bool is_same_pack(const Pack& a, const Pack& b) {
  return a.word[0] == b.word[0] && a.word[1] == b.word[1] && a.word[2] == b.word[2] &&
         a.word[3] == b.word[3];
}

LAMPPOST_DEVICE Pack sentinel_pack() {
  return Pack{{kSentinel, kSentinel, kSentinel, kSentinel}};
}

}  // namespace lamppost::device
