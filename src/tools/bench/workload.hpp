// Inputs, references and checks of one row. Inputs are a pure function of (seed, row, rank, index),
// so that every rank can compute every rank's input and check its own outputs alone; references are
// computed in double. Bounds are the documented ones of lamppost.h. Pure functions, any thread.
#pragma once

#include <lamppost/lamppost.h>

#include <cstddef>
#include <cstdint>

#include "tools/bench/options.hpp"

namespace lamppost::bench {

/// What a row's inputs and outputs depend on. Equal on all ranks.
struct Workload {
  Row row;
  lpDataType_t type = LP_BFLOAT16;
  int rank_count = 1;
  std::uint64_t seed = 1;
  float epsilon = 1e-6f;
};

/// Fill `row.elements` elements (weight: `row.hidden`) of `type`. Values have both signs and 16
/// binades, some are zero; every row has others. The residual and the weight are equal on all
/// ranks.
void fill_input(const Workload& workload, int rank, void* in);
void fill_residual(const Workload& workload, void* residual);
void fill_weight(const Workload& workload, void* weight);

/// Largest allowed distance of a sum of `rank_count` addends from the exact sum `exact`, where
/// `magnitude` is the sum of their absolute values: N * 2^-24 * magnitude + half an ulp.
double sum_bound(lpDataType_t type, int rank_count, double exact, double magnitude);

/// Largest allowed distance of a normalised element from `exact`, computed from the actual bits of
/// residual_out: ((11 + log2(hidden / 8)) / 2 + 7) * 2^-24 * |exact| + half an ulp.
double norm_bound(lpDataType_t type, std::int64_t hidden, double exact);

/// Elements of `out` that are not within sum_bound of the reference (NaN is never within).
std::uint64_t count_wrong_sums(const Workload& workload, const void* out);

/// The same for a fused call: wrong elements of residual_out (against the sum of all inputs and the
/// residual, rounded twice) plus wrong elements of out (against residual_out's own bits).
std::uint64_t count_wrong_fused(const Workload& workload, const void* out,
                                const void* residual_out);

/// Elements whose bits differ between `a` and `b`, arrays of `bytes` bytes.
std::uint64_t count_differences(const void* a, const void* b, std::size_t bytes,
                                std::size_t element_bytes);

/// A 64-bit hash in which every bit and its place counts.
std::uint64_t hash_bytes(const void* data, std::size_t bytes);

}  // namespace lamppost::bench
