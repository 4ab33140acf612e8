// The names and keys of kernels.def, for code that chooses and launches kernels without compiling
// them. A KernelId is a kernel's position in kernels.def, the same on every backend.
#pragma once

#include "collectives/collective_call.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lamppost {

using KernelId = std::uint32_t;

enum class Algorithm : std::uint8_t { kOneShotLamport, kSelfTest, kProbe };

struct KernelInfo {
  const char* symbol;
  Algorithm algorithm;
  lpDataType_t type;
  std::uint32_t world;  // 0: any
  Epilogue epilogue;
  std::uint32_t most_threads;  // of a block, where the device allows as many

  /// Takes one row a block and one fragment a thread only, each a whole and aligned one. Elsewhere the
  /// kernel of any world takes the launch: the two are the same protocol and give the same bits.
  constexpr bool is_single() const { return world != 0; }
};

/// Of kernels without an entry of their own in kernels.def.
inline constexpr std::uint32_t kMostThreads = 512;

inline constexpr KernelInfo kKernels[] = {
#define LAMPPOST_ALL_REDUCE(symbol, type, element, world, epilogue, epilogue_class, most_threads) \
  {#symbol, Algorithm::kOneShotLamport, type, world, Epilogue::epilogue, most_threads},
#define LAMPPOST_SELF_TEST(symbol) \
  {#symbol, Algorithm::kSelfTest, LP_UINT32, 0, Epilogue::kNone, kMostThreads},
#define LAMPPOST_PROBE(symbol, function) \
  {#symbol, Algorithm::kProbe, LP_UINT32, 0, Epilogue::kNone, kMostThreads},
#include "collectives/kernels.def"
#undef LAMPPOST_ALL_REDUCE
#undef LAMPPOST_SELF_TEST
#undef LAMPPOST_PROBE
};
inline constexpr std::uint32_t kKernelCount = sizeof(kKernels) / sizeof(kKernels[0]);

/// The kernel of an exact key; none if there is no such line.
constexpr std::optional<KernelId> find_kernel(Algorithm algorithm, lpDataType_t type,
                                              std::uint32_t world, Epilogue epilogue) {
  for (KernelId id = 0; id < kKernelCount; ++id) {
    const KernelInfo& kernel = kKernels[id];
    if (kernel.algorithm == algorithm && kernel.type == type && kernel.world == world &&
        kernel.epilogue == epilogue) {
      return id;
    }
  }
  return std::nullopt;
}

/// The kernel of a name that kernels.def has.
consteval KernelId kernel_named(std::string_view symbol) {
  KernelId id = 0;
  while (symbol != kKernels[id].symbol) ++id;  // past the end: does not compile
  return id;
}

}  // namespace lamppost
