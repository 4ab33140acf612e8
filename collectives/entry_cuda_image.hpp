// The CUDA kernels as they travel inside the library (made from entry_cuda.cu by
// cmake/cuda.cmake), with their symbols in the order of kernels.def.
#pragma once

#include "collectives/kernel_table.hpp"

namespace lamppost {

struct EmbeddedKernels {
  const void* image;           // a fatbin, for the life of the process
  const char* const* symbols;  // kKernelCount
  const char* chips;           // "sm_90a sm_100f"
};

EmbeddedKernels embedded_cuda_kernels();

}  // namespace lamppost
