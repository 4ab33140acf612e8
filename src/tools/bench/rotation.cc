#include "tools/bench/rotation.hpp"

#include <algorithm>

namespace lamppost::bench {
namespace {

std::uint64_t chosen_sets(const RotationFacts& facts) {
  if (facts.cache_bytes == 0 || facts.set_bytes == 0) return 1;
  const std::uint64_t wanted = (2 * facts.cache_bytes + facts.set_bytes - 1) / facts.set_bytes;
  const std::uint64_t most = std::max<std::uint64_t>(kMostRotationBytes / facts.set_bytes, 1);
  return std::min(wanted, most);
}

}  // namespace

RotationPlan plan_rotation(int asked_sets, const RotationFacts& facts) {
  const std::uint64_t wanted =
      asked_sets == 0 ? chosen_sets(facts) : static_cast<std::uint64_t>(asked_sets);
  RotationPlan plan;
  plan.sets = static_cast<int>(
      std::clamp<std::uint64_t>(wanted, 1, static_cast<std::uint64_t>(facts.calls_per_batch)));
  if (facts.cache_bytes == 0) return plan;
  const std::uint64_t all = static_cast<std::uint64_t>(plan.sets) * facts.set_bytes;
  plan.cache = all <= facts.cache_bytes ? CacheState::kWarm : CacheState::kCold;
  return plan;
}

const char* cache_state_name(CacheState state) {
  switch (state) {
    case CacheState::kWarm:
      return "warm";
    case CacheState::kCold:
      return "cold";
    default:
      return "-";
  }
}

}  // namespace lamppost::bench
