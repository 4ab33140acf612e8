// The scripted driver: modules, functions and launches. A function is a kernel of kernels.def, compiled
// for the plain host target; an image's bytes are not looked at.
#include "scripted_driver/state.hpp"

#include <fmt/core.h>

#include <cstring>

#include "collectives/entry_host.hpp"
#include "collectives/kernel_table.hpp"

namespace lamppost::test::scripted {
namespace {

const device::HostKernel* find_kernel_named(const char* symbol) {
  for (std::uint32_t id = 0; id < kKernelCount; ++id) {
    if (std::strcmp(host_kernels()[id].symbol, symbol) == 0) return &host_kernels()[id];
  }
  return nullptr;
}

struct Attributes {
  unsigned cluster_blocks = 1;
  bool is_early = false;
  CUresult result = CUDA_SUCCESS;
};

Attributes read_attributes(const CUlaunchConfig& config) {
  Attributes read;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config.attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      read.cluster_blocks = attribute.value.clusterDim.x;
      const bool is_flat = attribute.value.clusterDim.y == 1 && attribute.value.clusterDim.z == 1;
      if (!is_flat || read.cluster_blocks == 0 || read.cluster_blocks > kProcessors ||
          config.gridDimX % read.cluster_blocks != 0) {
        read.result = CUDA_ERROR_INVALID_CLUSTER_SIZE;
        return read;
      }
    } else if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) {
      read.is_early = attribute.value.programmaticStreamSerializationAllowed != 0;
    } else {
      read.result = CUDA_ERROR_INVALID_VALUE;
      return read;
    }
  }
  return read;
}

/// Addresses among the arguments that the device cannot reach are an error here, not a fault later.
bool holds_trap(const std::byte* args, std::size_t bytes, CUdevice device) {
  for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= bytes; at += sizeof(std::uintptr_t)) {
    std::uintptr_t word;
    std::memcpy(&word, args + at, sizeof(word));
    if (is_trap(word, device)) return true;
  }
  return false;
}

CUresult launch(const CUlaunchConfig& config, CUfunction handle, void** params,
                const Attributes& attributes, std::string& detail) {
  const std::lock_guard lock(state().mutex);
  const auto function = state().functions.find(number_of(handle));
  const auto stream = find_stream(config.hStream);
  if (function == state().functions.end() || stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const device::HostKernel& kernel = *function->second.kernel;
  detail = fmt::format("{} grid={} block={} cluster={} early={}", kernel.symbol, config.gridDimX,
                       config.blockDimX, attributes.cluster_blocks, attributes.is_early ? 1 : 0);
  if (attributes.result != CUDA_SUCCESS) return attributes.result;
  if (function->second.context != stream->context) return CUDA_ERROR_INVALID_HANDLE;
  const bool is_flat = config.gridDimY == 1 && config.gridDimZ == 1 && config.blockDimY == 1 &&
                       config.blockDimZ == 1;
  if (!is_flat || config.gridDimX == 0 || config.gridDimX > kProcessors || config.blockDimX == 0 ||
      config.blockDimX > kMaxBlockThreads || config.blockDimX % kernel.lanes != 0 ||
      params == nullptr || params[0] == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  HostLaunchItem item{};
  item.kernel = &kernel;
  item.grid_blocks = config.gridDimX;
  item.block_threads = config.blockDimX;
  std::memcpy(item.args.data(), params[0], kernel.args_bytes);
  if (holds_trap(item.args.data(), kernel.args_bytes, stream->context->device)) {
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  return enqueue(*stream, item);
}

}  // namespace
}  // namespace lamppost::test::scripted

using namespace lamppost::test::scripted;
using Lock = std::lock_guard<std::mutex>;

CUresult CUDAAPI cuModuleLoadData(CUmodule* handle, const void* image) {
  return call("cuModuleLoadData", kNeedsInit | kNeedsContext | kUnsafeInCapture, [&] {
    const Lock lock(state().mutex);
    if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!state().settings.has_image) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    const std::uint64_t number = new_handle();
    state().modules[number] = {current_context()};
    *handle = as_handle<CUmodule>(number);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuModuleUnload(CUmodule handle) {
  return call("cuModuleUnload", kNeedsInit | kNeedsContext | kUnsafeInCapture | kActsAnyway, [&] {
    const Lock lock(state().mutex);
    const std::uint64_t number = number_of(handle);
    if (state().modules.erase(number) == 0) return CUDA_ERROR_INVALID_HANDLE;
    std::erase_if(state().functions,
                  [number](const auto& entry) { return entry.second.module == number; });
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction* handle, CUmodule module, const char* name) {
  return call("cuModuleGetFunction", kNeedsInit | kNeedsContext, [&] {
    const Lock lock(state().mutex);
    const auto found = state().modules.find(number_of(module));
    if (found == state().modules.end()) return CUDA_ERROR_INVALID_HANDLE;
    const auto* kernel = find_kernel_named(name);
    if (kernel == nullptr) return CUDA_ERROR_NOT_FOUND;
    const std::uint64_t number = new_handle();
    state().functions[number] = {found->first, found->second.context, kernel};
    *handle = as_handle<CUfunction>(number);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction handle) {
  return call("cuFuncGetAttribute", kNeedsInit, [&] {
    const Lock lock(state().mutex);
    const auto found = state().functions.find(number_of(handle));
    if (found == state().functions.end()) return CUDA_ERROR_INVALID_HANDLE;
    switch (attribute) {
      case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = kMaxBlockThreads; break;
      case CU_FUNC_ATTRIBUTE_PTX_VERSION: *value = state().settings.ptx_version; break;
      case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = 90; break;
      case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = 64; break;
      case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = 0; break;
      case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = static_cast<int>(found->second.kernel->shared_bytes);
        break;
      default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction handle,
                                                             int block_threads, size_t) {
  return call("cuOccupancyMaxActiveBlocksPerMultiprocessor", kNeedsInit, [&] {
    const Lock lock(state().mutex);
    if (!state().functions.contains(number_of(handle))) return CUDA_ERROR_INVALID_HANDLE;
    if (block_threads < 1) return CUDA_ERROR_INVALID_VALUE;
    *blocks = block_threads <= kMaxBlockThreads ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction handle, void** params,
                                  void** extra) {
  std::string detail;
  const Beginning beginning = begin_call("cuLaunchKernelEx", kNeedsInit | kNeedsContext);
  CUresult result = beginning.refused != CUDA_SUCCESS ? beginning.refused : beginning.injected;
  if (result == CUDA_SUCCESS) {
    result = extra != nullptr
                 ? CUDA_ERROR_INVALID_VALUE
                 : launch(*config, handle, params, read_attributes(*config), detail);
  }
  return end_call(beginning, result, std::move(detail));
}
