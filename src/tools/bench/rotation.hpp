// How many sets of buffers a batch goes through, so that its calls do not find their tensors in the
// device's cache. Pure.
#pragma once

#include <cstdint>

namespace lamppost::bench {

/// Whether the tensors of one batch fit the device's cache together.
enum class CacheState { kUnknown, kWarm, kCold };

struct RotationPlan {
  int sets = 1;
  CacheState cache = CacheState::kUnknown;
};

struct RotationFacts {
  std::uint64_t set_bytes = 0;    // all tensors of one call
  std::uint64_t cache_bytes = 0;  // 0: not known
  int calls_per_batch = 1;
};

/// Most memory that sets are chosen to take; a number that was asked for is not limited by it.
inline constexpr std::uint64_t kMostRotationBytes = 4ull << 30;

/// asked_sets: 0 chooses enough sets for twice the cache, 1 if its size is not known; a number is
/// taken as it is. Never more sets than a batch has calls: the others would not be used.
RotationPlan plan_rotation(int asked_sets, const RotationFacts& facts);

/// "warm", "cold", or "-" where the cache's size is not known.
const char* cache_state_name(CacheState state);

}  // namespace lamppost::bench
