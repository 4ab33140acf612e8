// CudaDevice: what all communicators of a process share on one CUDA device: its primary context, the
// loaded kernels, and a stream for the library's own copies. Made by the first communicator on the
// device, kept until the process ends (a context that has gone through cuDevicePrimaryCtxReset is
// noticed, and a new CudaDevice made).
//
// Thread safety: immutable after creation but for copies, which take a lock.
#pragma once

#include "driver/cuda_api.hpp"
#include "driver/driver.hpp"

#include <memory>
#include <mutex>
#include <vector>

namespace lamppost {

/// The kernels that travel with the library.
struct CudaImage {
  const void* fatbin;
  const char* const* symbols;  // kernel_count, by KernelId
  std::uint32_t kernel_count;
  const char* chips;  // "sm_90a", for error texts
};

class CudaDevice {
 public:
  /// The shared object of device `ordinal`. Blocks while context and kernels are loaded. Errors:
  /// INVALID_ARGUMENT (no such device), NOT_SUPPORTED (the device lacks something), DRIVER.
  static Result<std::shared_ptr<CudaDevice>> get(const CudaApi& api, int ordinal,
                                                 const CudaImage& image);

  CudaDevice(const CudaApi& api, CUdevice device, CUcontext context)
      : api_(api), device_(device), context_(context) {}
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const CudaApi& api() const { return api_; }
  CUdevice device() const { return device_; }
  CUcontext context() const { return context_; }
  const DeviceFacts& facts() const { return facts_; }
  CUfunction kernel(std::uint32_t id) const { return kernels_[id]; }
  std::uint32_t kernel_count() const { return static_cast<std::uint32_t>(kernels_.size()); }
  /// Every loaded kernel waits for earlier launches itself (griddepcontrol.wait), so that it may be
  /// launched early.
  bool waits_for_earlier_launches() const { return waits_for_earlier_launches_; }

  /// The device reads and writes ordinary memory of the process (HMM, ATS).
  bool reaches_all_host_memory() const { return reaches_all_host_memory_; }

  // Block until they are done; not ordered with any other stream.
  Status fill_words(void* address, std::uint32_t word, std::uint64_t word_count);
  Status write(void* target, const void* source, std::uint64_t bytes);
  Status read(void* target, const void* source, std::uint64_t bytes);

 private:
  Status set_up(const CudaImage& image);
  Status read_facts();
  Status load_kernels(const CudaImage& image, CUmodule& module);
  Status load_kernel(CUmodule module, const char* symbol, std::uint32_t processors);
  Status wait_for_copies(CUresult enqueued, const char* call);

  const CudaApi& api_;
  CUdevice device_;
  CUcontext context_;
  DeviceFacts facts_{};
  std::vector<CUfunction> kernels_;
  bool waits_for_earlier_launches_ = true;
  bool reaches_all_host_memory_ = false;
  std::mutex copies_;
  CUstream stream_ = nullptr;
};

}  // namespace lamppost
