#include "support/collective_cases.hpp"

#include <lamppost/types.hpp>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace lamppost::test {
namespace {

constexpr std::size_t kGuardBytes = 64;
constexpr std::byte kGuard{0xa5};

bool is_nan(std::uint32_t bits, lpDataType_t type) { return std::isnan(decode(bits, type)); }

/// The first difference, as text; empty if there is none.
std::string first_difference(const Bits& expected, const Bits& actual) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] != actual[i]) {
      return fmt::format("element {}: {:#x}, expected {:#x}", i, actual[i], expected[i]);
    }
  }
  return {};
}

void expect_tensor(const char* name, int rank, const Bits& expected, const GuardedTensor& actual) {
  EXPECT_EQ(first_difference(expected, actual.bits()), "") << name << " of rank " << rank;
  EXPECT_TRUE(actual.are_guards_intact()) << name << " of rank " << rank;
}

void expect_nan(const char* name, int rank, const GuardedTensor& tensor, lpDataType_t type) {
  const Bits bits = tensor.bits();
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (is_nan(bits[i], type)) continue;
    ADD_FAILURE() << name << " of rank " << rank << ", element " << i << " is " << bits[i]
                  << ", not poison";
    return;
  }
  EXPECT_TRUE(tensor.are_guards_intact()) << name << " of rank " << rank;
}

class PlainCall final : public TestCall {
 public:
  PlainCall(const std::vector<Bits>& inputs, const PlainCase& c) : case_(c) {
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      const TensorShape shape{c.count, c.type, c.offset_elements};
      in_.emplace_back(shape, static_cast<int>(r));
      if (!c.in_place) out_.emplace_back(shape, static_cast<int>(r));
    }
    set(inputs);
  }

  lpResult_t enqueue(lpComm_t comm, int rank, void* stream) override {
    const auto r = static_cast<std::size_t>(rank);
    return lpAllReduce(in_[r].data(), out(r).data(), case_.count, case_.type, LP_SUM, comm, stream);
  }
  void expect_right() override {
    for (std::size_t r = 0; r < in_.size(); ++r) {
      expect_tensor("out", static_cast<int>(r), expected_, out(r));
    }
  }
  void expect_poison(int rank) override {
    expect_nan("out", rank, out(static_cast<std::size_t>(rank)), case_.type);
  }
  void refill(Random& random) override {
    std::vector<Bits> inputs;
    for (std::size_t r = 0; r < in_.size(); ++r) {
      inputs.push_back(random_bits(case_.count, case_.type, random));
    }
    set(inputs);
  }

 private:
  GuardedTensor& out(std::size_t r) { return case_.in_place ? in_[r] : out_[r]; }
  void set(const std::vector<Bits>& inputs) {
    for (std::size_t r = 0; r < inputs.size(); ++r) in_[r].set(inputs[r]);
    expected_ = all_reduce_bits(inputs, case_.type);
  }

  PlainCase case_;
  std::vector<GuardedTensor> in_;
  std::vector<GuardedTensor> out_;
  Bits expected_;
};

class FusedCall final : public TestCall {
 public:
  FusedCall(int rank_count, const FusedCase& c, Random& random) : case_(c) {
    const std::uint64_t count = c.tokens * c.hidden;
    const lpDataType_t weight_type = c.weight_is_fp32 ? LP_FLOAT32 : c.type;
    norm_ = {c.tokens, c.hidden, c.type, weight_type, {}, c.epsilon, c.weight_bias, {}};
    const TensorShape shape{count, c.type, c.offset_elements};
    for (int r = 0; r < rank_count; ++r) {
      Buffers b;
      b.weight = GuardedTensor({c.hidden, weight_type, c.offset_elements}, r);
      b.in = GuardedTensor(shape, r);
      if (!c.in_place) b.out = GuardedTensor(shape, r);
      if (c.has_residual) b.residual_in = GuardedTensor(shape, r);
      if (c.wants_residual_out && !(c.in_place && c.has_residual)) {
        b.residual_out = GuardedTensor(shape, r);
      }
      if (c.wants_all_reduce_out) b.sum = GuardedTensor(shape, r);
      ranks_.push_back(std::move(b));
    }
    refill(random);
  }

  lpResult_t enqueue(lpComm_t comm, int rank, void* stream) override {
    Buffers& b = ranks_[static_cast<std::size_t>(rank)];
    lpAllReduceRMSNormArgs args = LP_ALL_REDUCE_RMS_NORM_INITIALIZER;
    args.in = b.in.data();
    args.out = out(b).data();
    args.residual_in = b.residual_in.data();
    args.residual_out = residual_out(b).data();
    args.all_reduce_out = b.sum.data();
    args.weight = b.weight.data();
    args.type = case_.type;
    args.weight_type = norm_.weight_type;
    args.tokens = static_cast<std::int64_t>(case_.tokens);
    args.hidden = static_cast<std::int64_t>(case_.hidden);
    args.epsilon = case_.epsilon;
    args.weight_bias = case_.weight_bias;
    return lpAllReduceRMSNorm(&args, comm, stream);
  }

  void expect_right() override {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const int rank = static_cast<int>(r);
      Buffers& b = ranks_[r];
      expect_norm(rank, b);
      if (residual_out(b).exists()) {
        expect_tensor("residual_out", rank, expected_.residual, residual_out(b));
      }
      if (b.sum.exists()) expect_tensor("all_reduce_out", rank, expected_.sum, b.sum);
    }
    EXPECT_LE(worst_sum_error(inputs_, expected_.sum, case_.type), 1.0) << describe(case_);
  }

  void expect_poison(int rank) override {
    Buffers& b = ranks_[static_cast<std::size_t>(rank)];
    expect_nan("out", rank, out(b), case_.type);
    if (residual_out(b).exists()) expect_nan("residual_out", rank, residual_out(b), case_.type);
    if (b.sum.exists()) expect_nan("all_reduce_out", rank, b.sum, case_.type);
  }

  void refill(Random& random) override {
    const std::uint64_t count = case_.tokens * case_.hidden;
    inputs_.clear();
    norm_.weight = random_bits(case_.hidden, norm_.weight_type, random);
    if (case_.has_residual) norm_.residual = random_bits(count, case_.type, random);
    for (Buffers& b : ranks_) {
      inputs_.push_back(random_bits(count, case_.type, random));
      b.weight.set(norm_.weight);
      b.in.set(inputs_.back());
      if (case_.has_residual) b.residual_in.set(norm_.residual);
    }
    expected_ = all_reduce_norm_bits(inputs_, norm_);
  }

 private:
  struct Buffers;
  /// `out` by its bits, or, where the hardware approximates rsqrt, by its bound and rank 0's bits.
  void expect_norm(int rank, Buffers& b) {
    if (test_backend().has_exact_rsqrt) {
      expect_tensor("out", rank, expected_.out, out(b));
    } else if (rank == 0) {
      expected_.out = out(b).bits();
      EXPECT_TRUE(out(b).are_guards_intact());
    } else {
      expect_tensor("out", rank, expected_.out, out(b));
    }
    EXPECT_LE(worst_norm_error(norm_, expected_.residual, expected_.out), 1.0)
        << "rank " << rank << ": " << describe(case_);
  }

  struct Buffers {
    GuardedTensor weight, in, out, residual_in, residual_out, sum;
  };
  GuardedTensor& out(Buffers& b) { return case_.in_place ? b.in : b.out; }
  GuardedTensor& residual_out(Buffers& b) {
    const bool shares = case_.in_place && case_.has_residual && case_.wants_residual_out;
    return shares ? b.residual_in : b.residual_out;
  }

  FusedCase case_;
  NormInput norm_;
  std::vector<Buffers> ranks_;
  std::vector<Bits> inputs_;
  NormBits expected_;
};

}  // namespace

GuardedTensor::GuardedTensor(const TensorShape& shape, int rank)
    : bytes_(shape.element_count * element_bytes(shape.type)), type_(shape.type) {
  const std::size_t offset = shape.offset_elements * element_bytes(shape.type);
  memory_.assign(kGuardBytes + 16 + offset + bytes_ + kGuardBytes, kGuard);
  if (Workbench* workbench = test_backend().workbench_of(rank); workbench != nullptr) {
    const Result<void*> memory = workbench->allocate(memory_.size());
    EXPECT_TRUE(memory.ok()) << memory.status().message();
    device_ = {memory.ok() ? static_cast<std::byte*>(memory.value()) : nullptr, Free{workbench}};
    EXPECT_TRUE(workbench->copy_in(device_.get(), memory_.data(), memory_.size()).ok());
  }
  const std::byte* first = device_ ? device_.get() : memory_.data();
  const auto address = reinterpret_cast<std::uintptr_t>(first) + kGuardBytes;
  start_ = kGuardBytes + (16 - address % 16) % 16 + offset;
}

void GuardedTensor::set(const Bits& bits) {
  const std::vector<std::byte> elements = to_memory(bits, type_);
  if (elements.empty()) return;
  std::memcpy(host_data(), elements.data(), elements.size());
  if (!device_) return;
  const Status status =
      device_.get_deleter().workbench->copy_in(data(), elements.data(), elements.size());
  EXPECT_TRUE(status.ok()) << status.message();
}

void GuardedTensor::fetch() const {
  if (!device_) return;
  const Status status =
      device_.get_deleter().workbench->copy_out(memory_.data(), device_.get(), memory_.size());
  EXPECT_TRUE(status.ok()) << status.message();
}

Bits GuardedTensor::bits() const {
  fetch();
  const auto first = memory_.begin() + static_cast<std::ptrdiff_t>(start_);
  return from_memory({first, first + static_cast<std::ptrdiff_t>(bytes_)}, type_);
}

bool GuardedTensor::are_guards_intact() const {
  fetch();
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    if ((i < start_ || i >= start_ + bytes_) && memory_[i] != kGuard) return false;
  }
  return true;
}

Bits random_bits(std::uint64_t count, lpDataType_t type, Random& random) {
  std::normal_distribution<float> normal(0.0f, 1.0f);
  Bits bits(count);
  for (std::uint32_t& element : bits) {
    const std::uint64_t choice = random() % 64;
    float value = normal(random);
    if (choice < 4) value *= 64.0f;
    if (choice >= 4 && choice < 8) value *= 1.0f / 1024.0f;
    if (choice == 8) value = 0.0f;
    if (choice == 9) value = -0.0f;
    element = encode(value, type);
  }
  return bits;
}

lpDataType_t random_type(Random& random) {
  constexpr lpDataType_t kTypes[] = {LP_BFLOAT16, LP_FLOAT16, LP_FLOAT32};
  return kTypes[random() % 3];
}

std::string describe(const FusedCase& c) {
  return fmt::format(
      "{} x {} {}, weight {}, residual {}, residual_out {}, all_reduce_out {}, in place {}, "
      "offset {}, bias {}",
      c.tokens, c.hidden, type_name(c.type), c.weight_is_fp32 ? "fp32" : "same", c.has_residual,
      c.wants_residual_out, c.wants_all_reduce_out, c.in_place, c.offset_elements, c.weight_bias);
}

std::unique_ptr<TestCall> make_plain_call(const std::vector<Bits>& inputs, const PlainCase& c) {
  return std::make_unique<PlainCall>(inputs, c);
}

std::unique_ptr<TestCall> make_plain_call(int rank_count, const PlainCase& c, Random& random) {
  std::vector<Bits> inputs;
  for (int r = 0; r < rank_count; ++r) inputs.push_back(random_bits(c.count, c.type, random));
  return make_plain_call(inputs, c);
}

std::unique_ptr<TestCall> make_fused_call(int rank_count, const FusedCase& c, Random& random) {
  return std::make_unique<FusedCall>(rank_count, c, random);
}

void run_and_check(RankGroup& group, TestCall& call) {
  for (int r = 0; r < group.size(); ++r) {
    ASSERT_EQ(call.enqueue(group[r], r, group.stream(r)), LP_SUCCESS) << lpGetLastError(group[r]);
  }
  group.synchronize();
  call.expect_right();
}

}  // namespace lamppost::test
