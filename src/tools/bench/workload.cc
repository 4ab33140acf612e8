#include "tools/bench/workload.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "tools/bench/numbers.hpp"

namespace lamppost::bench {
namespace {

constexpr double kUnit = 0x1p-24;  // unit roundoff of fp32
constexpr int kResidualStream = 1000;
constexpr int kWeightStream = 1001;

constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// One deterministic sequence of numbers: a rank's input, the residual or the weight.
class Sequence {
 public:
  Sequence(const Workload& workload, int stream)
      : key_(mix(mix(workload.seed) + static_cast<std::uint64_t>(workload.row.index) * 0x10001u +
                 (static_cast<std::uint64_t>(stream) << 32))) {}

  /// 0 (1 in 64), or a number of either sign with a magnitude of 2^-9 up to 2^7.
  float value(std::uint64_t index) const {
    const std::uint64_t random = mix(key_ + index * 0x9e3779b97f4a7c15u);
    if ((random >> 58) == 0) return 0.0f;
    const std::uint32_t mantissa = static_cast<std::uint32_t>(random) & 0x7fffffu;
    const std::uint32_t exponent = 127u - 9u + (static_cast<std::uint32_t>(random >> 32) & 15u);
    const std::uint32_t sign = static_cast<std::uint32_t>(random >> 40) & 1u;
    return std::bit_cast<float>((sign << 31) | (exponent << 23) | mantissa);
  }

  /// value(index) as it arrives in a tensor of Format.
  template <class Format>
  double rounded(std::uint64_t index) const {
    return Format::decode(Format::encode(value(index)));
  }

 private:
  std::uint64_t key_;
};

void fill(const Workload& workload, int stream, std::uint64_t count, void* to) {
  const Sequence sequence(workload, stream);
  with_format(workload.type, [&](auto format) {
    using Format = decltype(format);
    auto* bits = static_cast<typename Format::Bits*>(to);
    for (std::uint64_t i = 0; i < count; ++i) bits[i] = Format::encode(sequence.value(i));
  });
}

/// The exact sum of one element over all ranks, and the sum of the absolute values. Exact: at most
/// 16 addends of 24 bits within 16 binades fit in a double.
struct ExactSum {
  double sum = 0;
  double magnitude = 0;
};

template <class Format>
ExactSum exact_sum(const std::vector<Sequence>& inputs, std::uint64_t index) {
  ExactSum exact;
  for (const Sequence& input : inputs) {
    const double value = input.rounded<Format>(index);
    exact.sum += value;
    exact.magnitude += std::abs(value);
  }
  return exact;
}

std::vector<Sequence> input_sequences(const Workload& workload) {
  std::vector<Sequence> inputs;
  for (int rank = 0; rank < workload.rank_count; ++rank) inputs.emplace_back(workload, rank);
  return inputs;
}

template <class Format>
double sum_bound_of(int rank_count, double exact, double magnitude) {
  const double fp32_error = rank_count * kUnit * magnitude;
  return fp32_error + half_ulp<Format>(std::abs(exact) + fp32_error);
}

/// residual_out = round(round(sum) + residual): the error of the sum, then one fp32 addition and
/// one rounding.
template <class Format>
double residual_bound(int rank_count, const ExactSum& exact, double residual) {
  const double before = sum_bound_of<Format>(rank_count, exact.sum, exact.magnitude);
  const double total = std::abs(exact.sum + residual) + before;
  return before + total * kUnit + half_ulp<Format>(total * (1 + kUnit));
}

template <class Format>
double norm_bound_of(std::int64_t hidden, double exact) {
  const auto leaves = static_cast<std::uint64_t>((hidden + 7) / 8);
  const auto levels = static_cast<int>(std::bit_width(leaves - 1));  // ceil(log2(leaves))
  const double units = (11 + levels) / 2.0 + 7;
  // The documented count is to first order; k u / (1 - k u) covers the higher ones.
  const double relative = units * kUnit / (1 - units * kUnit);
  const double fp32_error = relative * std::abs(exact);
  return fp32_error + half_ulp<Format>(std::abs(exact) + fp32_error);
}

bool within(double got, double exact, double bound) {
  return std::abs(got - exact) <= bound;  // false if `got` is NaN
}

template <class Format>
std::uint64_t count_wrong_residuals(const Workload& workload,
                                    const typename Format::Bits* residual_out) {
  const std::vector<Sequence> inputs = input_sequences(workload);
  const Sequence residuals(workload, kResidualStream);
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < workload.row.elements; ++i) {
    const ExactSum exact = exact_sum<Format>(inputs, i);
    const double residual = residuals.rounded<Format>(i);
    const double bound = residual_bound<Format>(workload.rank_count, exact, residual);
    if (!within(Format::decode(residual_out[i]), exact.sum + residual, bound)) ++wrong;
  }
  return wrong;
}

template <class Format>
std::uint64_t count_wrong_norms(const Workload& workload, const typename Format::Bits* out,
                                const typename Format::Bits* residual_out) {
  const auto hidden = static_cast<std::uint64_t>(workload.row.hidden);
  const Sequence weights(workload, kWeightStream);
  std::uint64_t wrong = 0;
  for (std::uint64_t start = 0; start < workload.row.elements; start += hidden) {
    double squares = 0;
    for (std::uint64_t c = 0; c < hidden; ++c) {
      const double r = Format::decode(residual_out[start + c]);
      squares += r * r;
    }
    const double q =
        1 / std::sqrt(squares / static_cast<double>(hidden) + double{workload.epsilon});
    for (std::uint64_t c = 0; c < hidden; ++c) {
      const double r = Format::decode(residual_out[start + c]);
      const double exact = r * q * weights.rounded<Format>(c);
      const double bound = norm_bound_of<Format>(workload.row.hidden, exact);
      if (!within(Format::decode(out[start + c]), exact, bound)) ++wrong;
    }
  }
  return wrong;
}

}  // namespace

void fill_input(const Workload& workload, int rank, void* in) {
  fill(workload, rank, workload.row.elements, in);
}

void fill_residual(const Workload& workload, void* residual) {
  fill(workload, kResidualStream, workload.row.elements, residual);
}

void fill_weight(const Workload& workload, void* weight) {
  fill(workload, kWeightStream, static_cast<std::uint64_t>(workload.row.hidden), weight);
}

double sum_bound(lpDataType_t type, int rank_count, double exact, double magnitude) {
  return with_format(type, [&](auto format) {
    return sum_bound_of<decltype(format)>(rank_count, exact, magnitude);
  });
}

double norm_bound(lpDataType_t type, std::int64_t hidden, double exact) {
  return with_format(type,
                     [&](auto format) { return norm_bound_of<decltype(format)>(hidden, exact); });
}

std::uint64_t count_wrong_sums(const Workload& workload, const void* out) {
  const std::vector<Sequence> inputs = input_sequences(workload);
  return with_format(workload.type, [&](auto format) {
    using Format = decltype(format);
    const auto* bits = static_cast<const typename Format::Bits*>(out);
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < workload.row.elements; ++i) {
      const ExactSum exact = exact_sum<Format>(inputs, i);
      const double bound = sum_bound_of<Format>(workload.rank_count, exact.sum, exact.magnitude);
      if (!within(Format::decode(bits[i]), exact.sum, bound)) ++wrong;
    }
    return wrong;
  });
}

std::uint64_t count_wrong_fused(const Workload& workload, const void* out,
                                const void* residual_out) {
  return with_format(workload.type, [&](auto format) {
    using Format = decltype(format);
    const auto* bits = static_cast<const typename Format::Bits*>(out);
    const auto* residual_bits = static_cast<const typename Format::Bits*>(residual_out);
    return count_wrong_residuals<Format>(workload, residual_bits) +
           count_wrong_norms<Format>(workload, bits, residual_bits);
  });
}

std::uint64_t count_differences(const void* a, const void* b, std::size_t bytes,
                                std::size_t element_bytes) {
  if (bytes == 0 || std::memcmp(a, b, bytes) == 0) return 0;
  const auto* left = static_cast<const std::byte*>(a);
  const auto* right = static_cast<const std::byte*>(b);
  std::uint64_t different = 0;
  for (std::size_t at = 0; at < bytes; at += element_bytes) {
    if (std::memcmp(left + at, right + at, element_bytes) != 0) ++different;
  }
  return different;
}

std::uint64_t hash_bytes(const void* data, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  std::uint64_t hash = mix(bytes + 0x9e3779b97f4a7c15u);
  for (std::size_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, from + at, std::min(sizeof(word), bytes - at));
    hash = mix(hash ^ word) + 0x9e3779b97f4a7c15u;
  }
  return hash;
}

}  // namespace lamppost::bench
