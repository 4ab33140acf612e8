// The scripted driver: start-up, devices, primary contexts, and the contexts of a thread.
#include "scripted_driver/state.hpp"

#include <cstdio>
#include <cstring>

namespace lamppost::test::scripted {
namespace {

bool is_device(CUdevice device) { return device >= 0 && device < state().settings.device_count; }

/// What is the same on all devices; -1: this driver does not know the attribute.
int attribute_of(CUdevice_attribute attribute, CUdevice device) {
  const Settings& settings = state().settings;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return 9;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return 0;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return kProcessors;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return kMaxBlockThreads;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return kMaxBlockThreads;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: return 1;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return 32;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: return 1'000'000;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: return 1 << 20;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED: return 0;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE: return CU_COMPUTEMODE_DEFAULT;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: return settings.first_device + device + 1;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID: return 0;
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID: return 0;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID: return 0;
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: return 1;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
      return settings.has_host_pointer ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS: return settings.has_pageable_access ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED: return settings.has_fabric ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED: return settings.has_multicast ? 1 : 0;
    default: return -1;
  }
}

/// The last release destroys what belongs to the context.
void destroy_context(Context* context) {
  State& all = state();
  for (auto& [handle, stream] : all.streams) {
    if (stream->context == context) let_go(stream);
  }
  if (auto found = all.legacy_streams.find(context); found != all.legacy_streams.end()) {
    let_go(found->second);
    all.legacy_streams.erase(found);
  }
  const auto is_its = [context](const auto& entry) { return entry.second.context == context; };
  std::erase_if(all.streams, [context](const auto& s) { return s.second->context == context; });
  std::erase_if(all.events, is_its);
  std::erase_if(all.modules, is_its);
  std::erase_if(all.functions, is_its);
  std::erase_if(all.graphs, is_its);
  std::erase_if(all.graph_execs, is_its);
  free_memory_of(context->device);
}

}  // namespace
}  // namespace lamppost::test::scripted

using namespace lamppost::test::scripted;
using Lock = std::lock_guard<std::mutex>;

CUresult CUDAAPI cuInit(unsigned flags) {
  return call("cuInit", kAlways, [&] {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (state().settings.device_count == 0) return CUDA_ERROR_NO_DEVICE;
    state().is_initialised = true;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDriverGetVersion(int* version) {
  return call("cuDriverGetVersion", kAlways, [&] {
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetCount(int* count) {
  return call("cuDeviceGetCount", kNeedsInit, [&] {
    *count = state().settings.device_count;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGet(CUdevice* device, int ordinal) {
  return call("cuDeviceGet", kNeedsInit, [&] {
    if (!is_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetName(char* name, int capacity, CUdevice device) {
  return call("cuDeviceGetName", kNeedsInit, [&] {
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    std::snprintf(name, static_cast<std::size_t>(capacity), "Scripted GPU %d",
                  state().settings.first_device + device);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return call("cuDeviceGetUuid", kNeedsInit, [&] {
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    std::memcpy(uuid->bytes, "scripted-device", 15);
    uuid->bytes[15] = static_cast<char>(state().settings.first_device + device);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return call("cuDeviceGetAttribute", kNeedsInit, [&] {
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    const int known = attribute_of(attribute, device);
    if (known < 0) return CUDA_ERROR_INVALID_VALUE;
    *value = known;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char* text, int capacity, CUdevice device) {
  return call("cuDeviceGetPCIBusId", kNeedsInit, [&] {
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    std::snprintf(text, static_cast<std::size_t>(capacity), "0000:%02x:00.0",
                  static_cast<unsigned>(state().settings.first_device + device + 1));
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return call("cuDeviceCanAccessPeer", kNeedsInit, [&] {
    if (!is_device(device) || !is_device(peer)) return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer && state().settings.has_peer_access ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return call("cuDevicePrimaryCtxRetain", kNeedsInit, [&] {
    const Lock lock(state().mutex);
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    Context& primary = state().contexts[static_cast<std::size_t>(device)];
    ++primary.retain_count;
    *context = reinterpret_cast<CUcontext>(&primary);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device) {
  return call("cuDevicePrimaryCtxRelease", kNeedsInit | kActsAnyway, [&] {
    const Lock lock(state().mutex);
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    Context& primary = state().contexts[static_cast<std::size_t>(device)];
    if (primary.retain_count == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--primary.retain_count == 0) destroy_context(&primary);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* is_active) {
  return call("cuDevicePrimaryCtxGetState", kNeedsInit, [&] {
    const Lock lock(state().mutex);
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *flags = 0;
    *is_active = state().contexts[static_cast<std::size_t>(device)].retain_count > 0 ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext* context) {
  return call("cuCtxGetCurrent", kNeedsInit, [&] {
    const auto& stack = this_thread().contexts;
    *context = stack.empty() ? nullptr : reinterpret_cast<CUcontext>(stack.back());
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext context) {
  return call("cuCtxSetCurrent", kNeedsInit, [&] {
    const Lock lock(state().mutex);
    auto& stack = this_thread().contexts;
    auto* wanted = reinterpret_cast<Context*>(context);
    if (wanted != nullptr && !is_active(wanted)) return CUDA_ERROR_INVALID_CONTEXT;
    if (!stack.empty()) stack.pop_back();
    if (wanted != nullptr) stack.push_back(wanted);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext context) {
  return call("cuCtxPushCurrent", kNeedsInit, [&] {
    const Lock lock(state().mutex);
    auto* wanted = reinterpret_cast<Context*>(context);
    if (!is_active(wanted)) return CUDA_ERROR_INVALID_CONTEXT;
    this_thread().contexts.push_back(wanted);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext* context) {
  return call("cuCtxPopCurrent", kNeedsInit | kActsAnyway, [&] {
    auto& stack = this_thread().contexts;
    if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (context != nullptr) *context = reinterpret_cast<CUcontext>(stack.back());
    stack.pop_back();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice* device) {
  return call("cuCtxGetDevice", kNeedsInit | kNeedsContext, [&] {
    const Lock lock(state().mutex);
    *device = current_context()->device;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return call("cuThreadExchangeStreamCaptureMode", kNeedsInit, [&] {
    if (*mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    std::swap(this_thread().mode, *mode);
    return CUDA_SUCCESS;
  });
}
