// lpConfig -> ResolvedConfig.
#include <fmt/core.h>

#include <cstddef>
#include <cstring>

#include "api/backend.hpp"
#include "base/raw_enum.hpp"
#include "lamppost/device/layout.hpp"

namespace lamppost {
namespace {

constexpr std::int64_t kTimeoutMs = 60'000;
constexpr std::int64_t kFirstCallTimeoutMs = 300'000;
constexpr std::int64_t kSetupTimeoutMs = 60'000;
constexpr std::uint64_t kSlotBytes = 2u << 20;
constexpr std::uint64_t kLeastSlotBytes = 256u << 10;  // one row of the largest hidden size, fp32
constexpr std::uint64_t kMostSlotBytes = 1u << 30;

Status invalid(const char* field, std::int64_t value, const char* rule) {
  return Status(LP_ERROR_INVALID_ARGUMENT,
                fmt::format("lpConfig.{} is {}: {}", field, value, rule));
}

/// The caller's struct, with defaults beyond its size.
Result<lpConfig> copy_config(const lpConfig* given) {
  lpConfig config = LP_CONFIG_INITIALIZER;
  if (given == nullptr) return config;
  if (given->magic != LP_CONFIG_MAGIC) {
    return Status(LP_ERROR_INVALID_ARGUMENT,
                  "lpConfig was not set up with LP_CONFIG_INITIALIZER (magic is wrong)");
  }
  if (given->version == 0 || given->version > LP_CONFIG_VERSION ||
      given->size < offsetof(lpConfig, backend)) {
    return Status(LP_ERROR_VERSION,
                  fmt::format("lpConfig has version {} and size {}; this library knows version {}",
                              given->version, given->size, LP_CONFIG_VERSION));
  }
  std::memcpy(&config, given, given->size < sizeof(config) ? given->size : sizeof(config));
  return config;
}

Status check_ranges(const lpConfig& config) {
  const int backend = raw_enum(config.backend);
  if (backend < LP_BACKEND_AUTO || backend > LP_BACKEND_HIP) {
    return invalid("backend", backend, "it is no lpBackend_t");
  }
  if (config.device < LP_DEFAULT) return invalid("device", config.device, "must be 0 or more");
  struct Time {
    const char* name;
    std::int64_t value;
  };
  for (const Time& time : {Time{"timeout_ms", config.timeout_ms},
                           Time{"first_call_timeout_ms", config.first_call_timeout_ms},
                           Time{"setup_timeout_ms", config.setup_timeout_ms}}) {
    if (time.value < LP_DEFAULT || time.value > kMostTimeoutMs) {
      return invalid(time.name, time.value, "must be 0 to 1,000,000,000, or LP_DEFAULT");
    }
  }
  if (config.setup_timeout_ms == 0) {
    return invalid("setup_timeout_ms", 0, "creation must have a deadline");
  }
  const bool is_slot = config.slot_bytes >= kLeastSlotBytes &&
                       config.slot_bytes <= kMostSlotBytes &&
                       config.slot_bytes % device::kPageBytes == 0;
  if (config.slot_bytes != 0 && !is_slot) {
    return invalid("slot_bytes", static_cast<std::int64_t>(config.slot_bytes),
                   "must be a multiple of 4096 from 262144 to 1073741824");
  }
  for (std::int32_t flag : {config.allow_shared_device, config.early_launch}) {
    if (flag != 0 && flag != 1)
      return invalid("allow_shared_device or early_launch", flag, "must be 0 or 1");
  }
  return {};
}

}  // namespace

Result<ResolvedConfig> resolve_config(const lpConfig* given) {
  Result<lpConfig> copied = copy_config(given);
  if (!copied.ok()) return copied.status();
  const lpConfig& config = copied.value();
  Status status = check_ranges(config);
  if (!status.ok()) return status;

  ResolvedConfig resolved{};
  const Result<lpBackend_t> backend =
      config.backend == LP_BACKEND_AUTO ? automatic_backend() : Result<lpBackend_t>(config.backend);
  if (!backend.ok()) return backend.status();
  resolved.backend = backend.value();
  resolved.device = config.device;
  resolved.timeout_ms = config.timeout_ms < 0 ? kTimeoutMs : config.timeout_ms;
  resolved.first_call_timeout_ms = config.first_call_timeout_ms >= 0 ? config.first_call_timeout_ms
                                   : config.timeout_ms >= 0          ? config.timeout_ms
                                                                     : kFirstCallTimeoutMs;
  resolved.setup_timeout_ms =
      config.setup_timeout_ms < 0 ? kSetupTimeoutMs : config.setup_timeout_ms;
  resolved.slot_bytes = config.slot_bytes == 0 ? kSlotBytes : config.slot_bytes;
  resolved.allow_shared_device = config.allow_shared_device != 0;
  resolved.early_launch = config.early_launch != 0;
  return resolved;
}

}  // namespace lamppost
