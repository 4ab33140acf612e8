#include "driver/cuda.hpp"

#include <fmt/core.h>

#include <array>

#include "driver/cuda_memory.hpp"
#include "driver/memfd_mapping.hpp"

namespace lamppost {
namespace {

using Use = CudaContextScope::Use;
using SharedResult = Result<std::shared_ptr<SharedMapping>>;

CUstream stream_of(StreamHandle handle) { return reinterpret_cast<CUstream>(handle); }

/// Host memory that the device has been told of.
class CudaControlPage final : public SharedMapping {
 public:
  static SharedResult allocate(std::shared_ptr<CudaDevice> device, std::uint64_t bytes,
                               const char* name) {
    Result<std::shared_ptr<MemfdMapping>> memory = MemfdMapping::allocate(bytes, name);
    if (!memory.ok()) return memory.status();
    const CudaApi& api = device->api();
    const CudaContextScope scope(api, device->context(), Use::kSetUp);
    if (!scope.status().ok()) return scope.status();
    auto page = std::make_shared<CudaControlPage>(std::move(device), memory.take());
    Status status = page->register_memory();
    if (!status.ok()) return status;
    return std::shared_ptr<SharedMapping>(std::move(page));
  }
  CudaControlPage(std::shared_ptr<CudaDevice> device, std::shared_ptr<MemfdMapping> memory)
      : device_(std::move(device)), memory_(std::move(memory)) {
    address_ = memory_->address();
    bytes_ = memory_->bytes();
  }
  ~CudaControlPage() override {
    if (!is_registered_) return;
    const CudaContextScope scope(device_->api(), device_->context(), Use::kSetUp);
    if (scope.status().ok()) {
      (void)device_->api().cuMemHostUnregister(address_);  // an error may be an earlier call's
    } else {  // the device may still reach it: never unmapped, never reused
      static_cast<void>(new std::shared_ptr<MemfdMapping>(memory_));
    }
  }

 private:
  Status register_memory() {
    const CudaApi& api = device_->api();
    Status status = cuda_status(
        api, api.cuMemHostRegister(address_, bytes_, CU_MEMHOSTREGISTER_DEVICEMAP),
        "cuMemHostRegister", "make the control page visible to the device");
    if (!status.ok()) return status;
    is_registered_ = true;
    CUdeviceptr address = 0;
    status = cuda_status(api, api.cuMemHostGetDevicePointer(&address, address_, 0),
                         "cuMemHostGetDevicePointer");
    device_address_ = reinterpret_cast<std::byte*>(address);
    return status;
  }

  std::shared_ptr<CudaDevice> device_;
  std::shared_ptr<MemfdMapping> memory_;
  bool is_registered_ = false;
};

SharedResult as_shared(Result<std::shared_ptr<CudaMapping>> mapping) {
  if (!mapping.ok()) return mapping.status();
  return std::shared_ptr<SharedMapping>(mapping.take());
}

class CudaDriver final : public Driver {
 public:
  explicit CudaDriver(std::shared_ptr<CudaDevice> device)
      : device_(std::move(device)), api_(device_->api()) {}
  ~CudaDriver() override {
    if (event_ == nullptr) return;
    const CudaContextScope scope(api_, device_->context(), Use::kSetUp);
    if (scope.status().ok()) (void)api_.cuEventDestroy(event_);
  }

  lpBackend_t backend() const override { return LP_BACKEND_CUDA; }
  DeviceFacts device_facts() const override { return device_->facts(); }

  SharedResult allocate_shared(std::uint64_t bytes, const char*) override {
    return as_shared(CudaMapping::allocate(device_, bytes));
  }
  Result<int> export_descriptor(SharedMapping& memory) override {
    return static_cast<CudaMapping&>(memory).export_descriptor();
  }
  void close_export(SharedMapping& memory) override {
    static_cast<CudaMapping&>(memory).close_export();
  }
  SharedResult import_descriptor(int descriptor, std::uint64_t bytes) override {
    return as_shared(CudaMapping::import(device_, descriptor, bytes));
  }
  Status reach(SharedMapping& memory) override {
    return static_cast<CudaMapping&>(memory).reach_from(*device_);
  }
  SharedResult allocate_control_page(std::uint64_t bytes, const char* name) override {
    return CudaControlPage::allocate(device_, bytes, name);
  }

  Status fill_words(void* address, std::uint32_t word, std::uint64_t word_count) override {
    return device_->fill_words(address, word, word_count);
  }
  Status write(void* target, const void* source, std::uint64_t bytes) override {
    return device_->write(target, source, bytes);
  }
  Status read(void* target, const void* source, std::uint64_t bytes) override {
    return device_->read(target, source, bytes);
  }
  Status synchronize_device() override {
    return {};  // fills and writes have waited for themselves
  }

  Result<bool> can_access(const void* address) override;

  StreamHandle default_stream() const override {
    return reinterpret_cast<StreamHandle>(CU_STREAM_LEGACY);
  }
  Result<StreamHandle> create_stream() override;
  Status destroy_stream(StreamHandle stream) override;
  Status synchronize_stream(StreamHandle stream) override;
  Result<StreamFacts> look_at(StreamHandle stream) override;
  Status wait_for_word(StreamHandle stream, std::uint32_t* address, std::uint32_t value) override;
  Status mark_capture(StreamHandle stream) override;
  Status order_after_mark(StreamHandle stream) override;
  Status launch(StreamHandle stream, const LaunchSpec& spec) override;

 private:
  std::shared_ptr<CudaDevice> device_;
  const CudaApi& api_;
  CUevent event_ = nullptr;  // of mark_capture
  // Regions that were found accessible, by a few low bits of their number. Host memory never becomes
  // device memory at the same address, so an entry stays true until its region is freed; then a wrong
  // pointer is the caller's, as it would be without this check.
  std::array<std::uintptr_t, 64> accessible_{};
};

Result<bool> CudaDriver::can_access(const void* address) {
  constexpr int kRegionBits = 21;  // the driver's smallest granule of device memory
  const std::uintptr_t region = reinterpret_cast<std::uintptr_t>(address) >> kRegionBits;
  std::uintptr_t& known = accessible_[region % accessible_.size()];
  if (known == region || device_->reaches_all_host_memory()) return true;
  const CudaContextScope scope(api_, device_->context(), Use::kCall);
  if (!scope.status().ok()) return scope.status();
  CUdeviceptr device_address = 0;
  const CUresult result =
      api_.cuPointerGetAttribute(&device_address, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                 reinterpret_cast<CUdeviceptr>(address));
  if (result == CUDA_ERROR_INVALID_VALUE) return false;  // the driver does not know it
  Status status = cuda_status(api_, result, "cuPointerGetAttribute", "look at a tensor's memory");
  if (!status.ok()) return status;
  known = region;
  return true;
}

Result<StreamHandle> CudaDriver::create_stream() {
  const CudaContextScope scope(api_, device_->context(), Use::kSetUp);
  if (!scope.status().ok()) return scope.status();
  CUstream stream = nullptr;
  Status status = cuda_status(api_, api_.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING),
                              "cuStreamCreate");
  if (!status.ok()) return status;
  return reinterpret_cast<StreamHandle>(stream);
}

Status CudaDriver::destroy_stream(StreamHandle stream) {
  Status status = synchronize_stream(stream);
  const CudaContextScope scope(api_, device_->context(), Use::kSetUp);
  if (!scope.status().ok()) return scope.status();
  Status destroyed =
      cuda_status(api_, api_.cuStreamDestroy(stream_of(stream)), "cuStreamDestroy");
  return status.ok() ? destroyed : status;
}

Status CudaDriver::synchronize_stream(StreamHandle stream) {
  const CudaContextScope scope(api_, device_->context(), Use::kSetUp);
  if (!scope.status().ok()) return scope.status();
  return cuda_status(api_, api_.cuStreamSynchronize(stream_of(stream)), "cuStreamSynchronize");
}

Result<StreamFacts> CudaDriver::look_at(StreamHandle stream) {
  const CudaContextScope scope(api_, device_->context(), Use::kCall);
  if (!scope.status().ok()) return scope.status();
  CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t capture = 0;
  Status status = cuda_status(api_,
                              api_.cuStreamGetCaptureInfo(stream_of(stream), &state, &capture,
                                                          nullptr, nullptr, nullptr, nullptr),
                              "cuStreamGetCaptureInfo", "the call's stream");
  if (!status.ok()) return status;
  // cuStreamGetId would end the capture (seen on driver API 13). No stream dies within one, so its
  // handle is enough there.
  if (state != CU_STREAM_CAPTURE_STATUS_NONE) return StreamFacts{stream, capture};
  unsigned long long id = 0;
  status = cuda_status(api_, api_.cuStreamGetId(stream_of(stream), &id), "cuStreamGetId",
                       "the call's stream");
  if (!status.ok()) return status;
  return StreamFacts{id, 0};
}

Status CudaDriver::wait_for_word(StreamHandle stream, std::uint32_t* address,
                                 std::uint32_t value) {
  const CudaContextScope scope(api_, device_->context(), Use::kCall);
  if (!scope.status().ok()) return scope.status();
  return cuda_status(api_,
                     api_.cuStreamWaitValue32(stream_of(stream),
                                              reinterpret_cast<CUdeviceptr>(address), value,
                                              CU_STREAM_WAIT_VALUE_GEQ),
                     "cuStreamWaitValue32", "order the call after the last one");
}

Status CudaDriver::mark_capture(StreamHandle stream) {
  const CudaContextScope scope(api_, device_->context(), Use::kCall);
  if (!scope.status().ok()) return scope.status();
  if (event_ == nullptr) {
    Status status = cuda_status(api_, api_.cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING),
                                "cuEventCreate");
    if (!status.ok()) return status;
  }
  return cuda_status(api_, api_.cuEventRecord(event_, stream_of(stream)), "cuEventRecord");
}

Status CudaDriver::order_after_mark(StreamHandle stream) {
  const CudaContextScope scope(api_, device_->context(), Use::kCall);
  if (!scope.status().ok()) return scope.status();
  return cuda_status(api_, api_.cuStreamWaitEvent(stream_of(stream), event_, 0),
                     "cuStreamWaitEvent");
}

Status CudaDriver::launch(StreamHandle stream, const LaunchSpec& spec) {
  if (spec.kernel >= device_->kernel_count()) {
    return Status(LP_ERROR_INTERNAL, fmt::format("kernel {} does not exist", spec.kernel));
  }
  const CudaContextScope scope(api_, device_->context(), Use::kCall);
  if (!scope.status().ok()) return scope.status();
  std::array<CUlaunchAttribute, 2> attributes{};
  CUlaunchConfig config{};
  config.gridDimX = spec.grid_blocks;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = spec.block_threads;
  config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream_of(stream);
  config.attrs = attributes.data();
  if (spec.cluster_blocks > 1) {
    CUlaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.x = spec.cluster_blocks;
    attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
  }
  // The kernel's own wait is what makes an early launch safe, so the loaded image decides.
  if (spec.early_launch && device_->waits_for_earlier_launches()) {
    CUlaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
  }
  void* parameters[] = {const_cast<void*>(spec.args)};  // copied by the driver
  return cuda_status(
      api_, api_.cuLaunchKernelEx(&config, device_->kernel(spec.kernel), parameters, nullptr),
      "cuLaunchKernelEx");
}

/// The device of this thread's current context; 0 without one.
Result<int> current_ordinal(const CudaApi& api) {
  CUcontext context = nullptr;
  Status status = cuda_status(api, api.cuCtxGetCurrent(&context), "cuCtxGetCurrent");
  if (!status.ok()) return status;
  if (context == nullptr) return 0;
  CUdevice device = 0;
  status = cuda_status(api, api.cuCtxGetDevice(&device), "cuCtxGetDevice");
  if (!status.ok()) return status;
  return static_cast<int>(device);  // a CUdevice is its ordinal
}

}  // namespace

Result<std::unique_ptr<Driver>> make_cuda_driver(int ordinal, const CudaImage& image) {
  const Result<const CudaApi*> api = load_cuda_api();
  if (!api.ok()) return api.status();
  const Result<int> chosen = ordinal >= 0 ? Result<int>(ordinal) : current_ordinal(*api.value());
  if (!chosen.ok()) return chosen.status();
  Result<std::shared_ptr<CudaDevice>> device =
      CudaDevice::get(*api.value(), chosen.value(), image);
  if (!device.ok()) return device.status();
  return std::unique_ptr<Driver>(std::make_unique<CudaDriver>(device.take()));
}

Result<int> count_cuda_devices() {
  const Result<const CudaApi*> api = load_cuda_api();
  if (!api.ok()) return api.status();
  int count = 0;
  Status status = cuda_status(*api.value(), api.value()->cuDeviceGetCount(&count),
                              "cuDeviceGetCount");
  if (!status.ok()) return status;
  return count;
}

}  // namespace lamppost
