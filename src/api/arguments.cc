#include "api/arguments.hpp"

#include <lamppost/types.hpp>

#include "base/raw_enum.hpp"

#include <fmt/core.h>

#include <cmath>
#include <cstring>
#include <span>

namespace lamppost {
namespace {

/// One tensor argument.
struct Tensor {
  const char* name;
  const void* address;
  std::uint64_t bytes;
  std::uint64_t element_bytes;
  bool is_optional = false;
};

Status invalid(std::string text) { return Status(LP_ERROR_INVALID_ARGUMENT, std::move(text)); }

Status check_tensor(const Tensor& tensor) {
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.address);
  if (address == 0) {
    if (tensor.is_optional || tensor.bytes == 0) return {};
    return invalid(fmt::format("{} is null", tensor.name));
  }
  if (address % tensor.element_bytes != 0) {
    return invalid(fmt::format("{} is {:#x}, which is not aligned to its {}-byte elements",
                               tensor.name, address, tensor.element_bytes));
  }
  if (address + tensor.bytes < address) {
    return invalid(fmt::format("{} is {:#x}: {} bytes from there exceed the address space",
                               tensor.name, address, tensor.bytes));
  }
  return {};
}

bool overlaps(const Tensor& a, const Tensor& b) {
  const auto first = reinterpret_cast<std::uintptr_t>(a.address);
  const auto second = reinterpret_cast<std::uintptr_t>(b.address);
  return a.address != nullptr && b.address != nullptr && a.bytes != 0 && b.bytes != 0 &&
         first < second + b.bytes && second < first + a.bytes;
}

/// Two arguments that may be the same tensor.
struct AllowedAlias {
  const char* a;
  const char* b;
};

bool is_allowed(const Tensor& a, const Tensor& b, const AllowedAlias& alias) {
  return a.address == b.address && std::strcmp(a.name, alias.a) == 0 &&
         std::strcmp(b.name, alias.b) == 0;
}

/// Only reading the same memory twice is harmless; `inputs` counts the leading tensors that are read.
Status check_overlap(std::span<const Tensor> tensors, std::size_t inputs,
                     std::span<const AllowedAlias> allowed) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (std::size_t j = i + 1; j < tensors.size(); ++j) {
      const Tensor& a = tensors[i];
      const Tensor& b = tensors[j];
      if (j < inputs || !overlaps(a, b)) continue;
      bool is_fine = false;
      for (const AllowedAlias& alias : allowed) is_fine = is_fine || is_allowed(a, b, alias);
      if (is_fine) continue;
      return invalid(fmt::format("{} ({}, {} bytes) overlaps {} ({}, {} bytes)", a.name, a.address,
                                 a.bytes, b.name, b.address, b.bytes));
    }
  }
  return {};
}

Status check_type(const char* name, const lpDataType_t& type) {
  const int number = raw_enum(type);
  if (number >= LP_INT8 && number <= LP_FLOAT8_E5M2) return {};
  return invalid(fmt::format("{} is {}, which is no lpDataType_t", name, number));
}

Status check_payload_type(const char* name, const lpDataType_t& type) {
  Status status = check_type(name, type);
  if (!status.ok()) return status;
  if (type == LP_BFLOAT16 || type == LP_FLOAT16 || type == LP_FLOAT32) return {};
  return Status(LP_ERROR_NOT_SUPPORTED,
                fmt::format("{} is {}: sums take bf16, fp16 and fp32", name, type_name(type)));
}

Status check_op(const lpRedOp_t& op) {
  const int number = raw_enum(op);
  if (number < LP_SUM || number > LP_AVG) {
    return invalid(fmt::format("op is {}, which is no lpRedOp_t", number));
  }
  if (number == LP_SUM) return {};
  return Status(LP_ERROR_NOT_SUPPORTED,
                fmt::format("op is {}: this version has LP_SUM only", number));
}

/// size, magic, version of a versioned argument struct, then its fields into `copy`.
Status copy_args(const lpAllReduceRMSNormArgs* given, lpAllReduceRMSNormArgs& copy) {
  if (given == nullptr) return invalid("args is null");
  if (given->magic != LP_ALL_REDUCE_RMS_NORM_MAGIC) {
    return invalid(
        "args was not set up with LP_ALL_REDUCE_RMS_NORM_INITIALIZER (magic is wrong)");
  }
  if (given->version != LP_ALL_REDUCE_RMS_NORM_VERSION || given->size != sizeof(copy)) {
    return Status(LP_ERROR_VERSION,
                  fmt::format("args has version {} and size {}; this library knows version {}",
                              given->version, given->size, LP_ALL_REDUCE_RMS_NORM_VERSION));
  }
  std::memcpy(&copy, given, sizeof(copy));
  return {};
}

Status check_norm_values(const lpAllReduceRMSNormArgs& args) {
  Status status = check_payload_type("type", args.type);
  if (status.ok()) status = check_type("weight_type", args.weight_type);
  if (!status.ok()) return status;
  if (args.weight_type != args.type && args.weight_type != LP_FLOAT32) {
    return Status(LP_ERROR_NOT_SUPPORTED,
                  fmt::format("weight_type is {} with type {}: it must be the same or fp32",
                              type_name(args.weight_type), type_name(args.type)));
  }
  if (args.tokens < 0) return invalid(fmt::format("tokens is {}: must be 0 or more", args.tokens));
  if (args.hidden < 1 || args.hidden > LP_MAX_HIDDEN) {
    return invalid(
        fmt::format("hidden is {}: must be 1 to {}", args.hidden, LP_MAX_HIDDEN));
  }
  if (args.tokens > std::int64_t{1} << 40) {
    return invalid(fmt::format("tokens is {}: must be at most 2^40", args.tokens));
  }
  if (!std::isfinite(args.epsilon) || args.epsilon < 0.0f) {
    return invalid(fmt::format("epsilon is {}: must be finite and 0 or more", args.epsilon));
  }
  if (!std::isfinite(args.weight_bias)) {
    return invalid(fmt::format("weight_bias is {}: must be finite", args.weight_bias));
  }
  return {};
}

}  // namespace

Result<CollectiveCall> check_all_reduce(const void* in, void* out, std::size_t count,
                                        lpDataType_t type, lpRedOp_t op) {
  Status status = check_payload_type("type", type);
  if (status.ok()) status = check_op(op);
  if (!status.ok()) return status;
  const std::uint64_t bytes_each = element_bytes(type);
  if (count > std::uint64_t{1} << 48) {
    return invalid(fmt::format("count is {}: must be at most 2^48 (a negative number?)", count));
  }
  const Tensor tensors[] = {{"in", in, count * bytes_each, bytes_each},
                            {"out", out, count * bytes_each, bytes_each}};
  for (const Tensor& tensor : tensors) {
    status = check_tensor(tensor);
    if (!status.ok()) return status;
  }
  constexpr AllowedAlias kAllowed[] = {{"in", "out"}};
  status = check_overlap(tensors, 1, kAllowed);
  if (!status.ok()) return status;

  CollectiveCall call;
  call.type = type;
  call.rows = 1;
  call.columns = count;
  call.in = in;
  call.out = out;
  return call;
}

Result<CollectiveCall> check_all_reduce_rms_norm(const lpAllReduceRMSNormArgs* given) {
  lpAllReduceRMSNormArgs args{};
  Status status = copy_args(given, args);
  if (status.ok()) status = check_norm_values(args);
  if (!status.ok()) return status;

  const std::uint64_t bytes_each = element_bytes(args.type);
  const std::uint64_t bytes = static_cast<std::uint64_t>(args.tokens) *
                              static_cast<std::uint64_t>(args.hidden) * bytes_each;
  const std::uint64_t weight_each = element_bytes(args.weight_type);
  const std::uint64_t weight_bytes =
      args.tokens == 0 ? 0 : static_cast<std::uint64_t>(args.hidden) * weight_each;
  const Tensor tensors[] = {
      {"in", args.in, bytes, bytes_each},
      {"residual_in", args.residual_in, bytes, bytes_each, true},
      {"weight", args.weight, weight_bytes, weight_each},
      {"out", args.out, bytes, bytes_each},
      {"residual_out", args.residual_out, bytes, bytes_each, true},
      {"all_reduce_out", args.all_reduce_out, bytes, bytes_each, true},
  };
  for (const Tensor& tensor : tensors) {
    status = check_tensor(tensor);
    if (!status.ok()) return status;
  }
  constexpr std::size_t kInputs = 3;
  constexpr AllowedAlias kAllowed[] = {{"in", "out"}, {"residual_in", "residual_out"}};
  status = check_overlap(tensors, kInputs, kAllowed);
  if (!status.ok()) return status;

  CollectiveCall call;
  call.epilogue = Epilogue::kRmsNorm;
  call.type = args.type;
  call.rows = static_cast<std::uint64_t>(args.tokens);
  call.columns = static_cast<std::uint64_t>(args.hidden);
  call.in = args.in;
  call.out = args.out;
  call.residual_in = args.residual_in;
  call.residual_out = args.residual_out;
  call.all_reduce_out = args.all_reduce_out;
  call.weight = args.weight;
  call.weight_type = args.weight_type;
  call.epsilon = args.epsilon;
  call.weight_bias = args.weight_bias;
  return call;
}

}  // namespace lamppost
