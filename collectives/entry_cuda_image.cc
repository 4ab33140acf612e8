// Puts the fatbin LAMPPOST_CUDA_FATBIN (a path) into the library's read-only data.
#include "collectives/entry_cuda_image.hpp"

#include <array>

asm(".pushsection .rodata\n"
    ".balign 64\n"
    ".local lamppost_cuda_fatbin\n"
    "lamppost_cuda_fatbin:\n"
    ".incbin \"" LAMPPOST_CUDA_FATBIN "\"\n"
    ".popsection\n");

extern "C" __attribute__((visibility("hidden"))) const unsigned char lamppost_cuda_fatbin[];

namespace lamppost {
namespace {

constexpr auto kSymbols = [] {
  std::array<const char*, kKernelCount> symbols{};
  for (KernelId id = 0; id < kKernelCount; ++id) symbols[id] = kKernels[id].symbol;
  return symbols;
}();

}  // namespace

EmbeddedKernels embedded_cuda_kernels() {
  return {lamppost_cuda_fatbin, kSymbols.data(), LAMPPOST_CUDA_CHIP_NAMES};
}

}  // namespace lamppost
