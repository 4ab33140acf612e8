// Collective calls as tests make them: buffers for every rank with guard bytes around them, random
// inputs, the call itself, and the comparison with the bit-exact reference.
#pragma once

#include "support/rank_group.hpp"
#include "support/reference.hpp"
#include "support/test_backend.hpp"

#include <memory>
#include <random>
#include <string>
#include <vector>

namespace lamppost::test {

using Random = std::mt19937_64;

/// What a tensor is made of.
struct TensorShape {
  std::uint64_t element_count = 0;
  lpDataType_t type = LP_FLOAT32;
  std::uint32_t offset_elements = 0;  // start so far after a 16-byte boundary
};

/// A tensor of one rank with guard bytes before and after, in memory of the backend under test.
class GuardedTensor {
 public:
  GuardedTensor() = default;
  GuardedTensor(const TensorShape& shape, int rank);

  /// As collectives take it; null if there is no tensor.
  void* data() { return device_ ? device_.get() + start_ : host_data(); }
  bool exists() const { return !memory_.empty(); }
  /// Device memory is read and written with blocking copies: nothing may use it meanwhile.
  void set(const Bits& bits);
  Bits bits() const;
  bool are_guards_intact() const;

 private:
  struct Free {
    Workbench* workbench;
    void operator()(std::byte* memory) const { workbench->free(memory); }
  };
  std::byte* host_data() { return memory_.empty() ? nullptr : memory_.data() + start_; }
  void fetch() const;

  mutable std::vector<std::byte> memory_;  // all of it, or a copy of what the device has
  std::unique_ptr<std::byte, Free> device_{nullptr, Free{nullptr}};
  std::size_t start_ = 0;
  std::size_t bytes_ = 0;
  lpDataType_t type_ = LP_FLOAT32;
};

/// Finite values of mixed magnitudes and signs, a few zeros of both signs among them.
Bits random_bits(std::uint64_t count, lpDataType_t type, Random& random);
lpDataType_t random_type(Random& random);

struct PlainCase {
  std::uint64_t count = 1;
  lpDataType_t type = LP_BFLOAT16;
  bool in_place = false;
  std::uint32_t offset_elements = 0;
};

struct FusedCase {
  std::uint64_t tokens = 1;
  std::uint64_t hidden = 64;
  lpDataType_t type = LP_BFLOAT16;
  bool weight_is_fp32 = false;
  bool has_residual = true;
  bool wants_residual_out = true;
  bool wants_all_reduce_out = true;
  bool in_place = false;           // out == in and residual_out == residual_in
  std::uint32_t offset_elements = 0;
  float epsilon = 1e-6f;
  float weight_bias = 0.0f;
};
std::string describe(const FusedCase& c);

/// One call with its buffers on all ranks. The reference is computed when made.
class TestCall {
 public:
  virtual ~TestCall() = default;
  /// Enqueues rank `rank`'s part. Any thread.
  virtual lpResult_t enqueue(lpComm_t comm, int rank, void* stream) = 0;
  /// Adds a test failure for the first wrong element, guard or bound of each rank.
  virtual void expect_right() = 0;
  /// Adds a test failure unless every output of `rank` is NaN throughout.
  virtual void expect_poison(int rank) = 0;
  /// Fresh inputs (in place calls lose theirs); the same buffers. For graph replays.
  virtual void refill(Random& random) = 0;
};

std::unique_ptr<TestCall> make_plain_call(int rank_count, const PlainCase& c, Random& random);
std::unique_ptr<TestCall> make_fused_call(int rank_count, const FusedCase& c, Random& random);
/// A plain call with given input bits, by rank.
std::unique_ptr<TestCall> make_plain_call(const std::vector<Bits>& inputs, const PlainCase& c);

/// Enqueues the call on every rank's stream, waits, and compares.
void run_and_check(RankGroup& group, TestCall& call);

}  // namespace lamppost::test
