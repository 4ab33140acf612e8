#include "driver/cuda_device.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>

namespace lamppost {
namespace {

constexpr int kOldestChip = 80;
// From here on the compiler's target has griddepcontrol, and entry_cuda.cu uses it.
constexpr int kFirstChipWithEarlyLaunch = 90;

struct Wanted {
  CUdevice_attribute attribute;
  const char* what;
};

Status check_abilities(const CudaApi& api, CUdevice device, const std::string& name) {
  constexpr Wanted kWanted[] = {
      {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, "unified addressing"},
      {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, "mapping of host memory"},
      {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, "virtual memory management"},
      {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
       "memory handles as file descriptors"},
  };
  for (const Wanted& wanted : kWanted) {
    int has = 0;
    Status status = cuda_status(api, api.cuDeviceGetAttribute(&has, wanted.attribute, device),
                                "cuDeviceGetAttribute", wanted.what);
    if (!status.ok()) return status;
    if (has == 0) {
      return Status(LP_ERROR_NOT_SUPPORTED, fmt::format("{} has no {}", name, wanted.what));
    }
  }
  return {};
}

/// As the driver reads it at its start (CUDA Programming Guide, "CUDA Environment Variables"): 1 to 32, 8
/// if it is not set.
std::uint32_t stream_queues() {
  const char* text = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  if (text == nullptr) return 8;
  return static_cast<std::uint32_t>(std::clamp(std::atol(text), 1L, 32L));
}

}  // namespace

Result<std::shared_ptr<CudaDevice>> CudaDevice::get(const CudaApi& api, int ordinal,
                                                    const CudaImage& image) {
  static std::mutex mutex;
  static auto* loaded = new std::map<int, std::shared_ptr<CudaDevice>>();  // never destroyed
  std::lock_guard lock(mutex);

  int count = 0;
  Status status = cuda_status(api, api.cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (!status.ok()) return status;
  if (ordinal >= count) {
    return Status(LP_ERROR_INVALID_ARGUMENT,
                  fmt::format("device is {}: this process sees {} CUDA devices", ordinal, count));
  }
  CUdevice device = 0;
  status = cuda_status(api, api.cuDeviceGet(&device, ordinal), "cuDeviceGet");
  if (!status.ok()) return status;

  unsigned flags = 0;
  int is_active = 0;
  status = cuda_status(api, api.cuDevicePrimaryCtxGetState(device, &flags, &is_active),
                       "cuDevicePrimaryCtxGetState");
  if (!status.ok()) return status;
  const auto found = loaded->find(ordinal);
  if (found != loaded->end() && is_active != 0) return found->second;

  CUcontext context = nullptr;
  status = cuda_status(api, api.cuDevicePrimaryCtxRetain(&context, device),
                       "cuDevicePrimaryCtxRetain", "open the device");
  if (!status.ok()) return status;
  auto made = std::make_shared<CudaDevice>(api, device, context);
  status = made->set_up(image);
  if (!status.ok()) {
    (void)api.cuDevicePrimaryCtxRelease(device);
    return status;
  }
  (*loaded)[ordinal] = made;
  return made;
}

Status CudaDevice::set_up(const CudaImage& image) {
  const CudaContextScope scope(api_, context_, CudaContextScope::Use::kSetUp);
  Status status = scope.status();
  if (status.ok()) status = read_facts();
  if (status.ok()) {
    status = cuda_status(api_, api_.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING),
                         "cuStreamCreate");
  }
  CUmodule module = nullptr;
  if (status.ok()) status = load_kernels(image, module);
  if (status.ok()) return status;
  if (module != nullptr) (void)api_.cuModuleUnload(module);
  if (stream_ != nullptr) (void)api_.cuStreamDestroy(stream_);
  return status;
}

Status CudaDevice::read_facts() {
  char name[256] = {};
  CUuuid uuid{};
  int major = 0;
  int minor = 0;
  Status status = cuda_status(api_, api_.cuDeviceGetName(name, sizeof(name) - 1, device_),
                              "cuDeviceGetName");
  if (status.ok()) {
    status = cuda_status(api_, api_.cuDeviceGetUuid(&uuid, device_), "cuDeviceGetUuid");
  }
  if (status.ok()) {
    status = cuda_status(
        api_,
        api_.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device_),
        "cuDeviceGetAttribute");
  }
  if (status.ok()) {
    status = cuda_status(
        api_,
        api_.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device_),
        "cuDeviceGetAttribute");
  }
  if (!status.ok()) return status;
  facts_.name = name;
  std::memcpy(facts_.uuid.data(), uuid.bytes, facts_.uuid.size());
  facts_.chip = static_cast<std::uint32_t>(major * 10 + minor);
  facts_.lanes = 32;
  facts_.ticks_per_second = 1'000'000'000;  // %globaltimer
  facts_.stream_queues = stream_queues();
  if (major * 10 + minor < kOldestChip) {
    return Status(LP_ERROR_NOT_SUPPORTED,
                  fmt::format("{} has compute capability {}.{}; 8.0 is needed", name, major, minor));
  }
  int pageable = 0;
  status = cuda_status(
      api_,
      api_.cuDeviceGetAttribute(&pageable, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, device_),
      "cuDeviceGetAttribute");
  if (!status.ok()) return status;
  reaches_all_host_memory_ = pageable != 0;
  return check_abilities(api_, device_, facts_.name);
}

/// Every kernel now: a kernel that is loaded on first use would break a capture that uses it first.
Status CudaDevice::load_kernels(const CudaImage& image, CUmodule& module) {
  const CUresult loaded = api_.cuModuleLoadData(&module, image.fatbin);
  if (loaded == CUDA_ERROR_NO_BINARY_FOR_GPU) {
    return Status(LP_ERROR_NOT_SUPPORTED,
                  fmt::format("this build has kernels for {}, and {} is sm_{}: configure it with "
                              "-DLAMPPOST_CUDA_CHIPS={}",
                              image.chips, facts_.name, facts_.chip, facts_.chip));
  }
  Status status = cuda_status(api_, loaded, "cuModuleLoadData", "load the kernels");
  int processors = 0;
  if (status.ok()) {
    status = cuda_status(
        api_,
        api_.cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device_),
        "cuDeviceGetAttribute");
  }
  facts_.resident_blocks = std::numeric_limits<std::uint32_t>::max();
  for (std::uint32_t id = 0; status.ok() && id < image.kernel_count; ++id) {
    status = load_kernel(module, image.symbols[id], static_cast<std::uint32_t>(processors));
  }
  return status;
}

Status CudaDevice::load_kernel(CUmodule module, const char* symbol, std::uint32_t processors) {
  CUfunction kernel = nullptr;
  Status status = cuda_status(api_, api_.cuModuleGetFunction(&kernel, module, symbol),
                              "cuModuleGetFunction", symbol);
  if (!status.ok()) return status;
  kernels_.push_back(kernel);
  int threads = 0;  // the most that it was compiled for
  status = cuda_status(
      api_, api_.cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel),
      "cuFuncGetAttribute", symbol);
  if (!status.ok()) return status;
  int chip = 0;  // that the image was compiled for, not the device's
  status = cuda_status(api_, api_.cuFuncGetAttribute(&chip, CU_FUNC_ATTRIBUTE_PTX_VERSION, kernel),
                       "cuFuncGetAttribute", symbol);
  if (!status.ok()) return status;
  int blocks = 0;
  status = cuda_status(
      api_, api_.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, 0),
      "cuOccupancyMaxActiveBlocksPerMultiprocessor", symbol);
  waits_for_earlier_launches_ = waits_for_earlier_launches_ && chip >= kFirstChipWithEarlyLaunch;
  facts_.max_block_threads =
      std::max(facts_.max_block_threads, static_cast<std::uint32_t>(threads));
  facts_.resident_blocks =
      std::min(facts_.resident_blocks, static_cast<std::uint32_t>(blocks) * processors);
  return status;
}

Status CudaDevice::wait_for_copies(CUresult enqueued, const char* call) {
  Status status = cuda_status(api_, enqueued, call);
  if (!status.ok()) return status;
  return cuda_status(api_, api_.cuStreamSynchronize(stream_), "cuStreamSynchronize", call);
}

Status CudaDevice::fill_words(void* address, std::uint32_t word, std::uint64_t word_count) {
  const std::lock_guard lock(copies_);
  const CudaContextScope scope(api_, context_, CudaContextScope::Use::kSetUp);
  if (!scope.status().ok()) return scope.status();
  return wait_for_copies(api_.cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(address), word,
                                               word_count, stream_),
                         "cuMemsetD32Async");
}

Status CudaDevice::write(void* target, const void* source, std::uint64_t bytes) {
  const std::lock_guard lock(copies_);
  const CudaContextScope scope(api_, context_, CudaContextScope::Use::kSetUp);
  if (!scope.status().ok()) return scope.status();
  return wait_for_copies(
      api_.cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(target), source, bytes, stream_),
      "cuMemcpyHtoDAsync");
}

Status CudaDevice::read(void* target, const void* source, std::uint64_t bytes) {
  const std::lock_guard lock(copies_);
  const CudaContextScope scope(api_, context_, CudaContextScope::Use::kSetUp);
  if (!scope.status().ok()) return scope.status();
  return wait_for_copies(
      api_.cuMemcpyDtoHAsync(target, reinterpret_cast<CUdeviceptr>(source), bytes, stream_),
      "cuMemcpyDtoHAsync");
}

}  // namespace lamppost
