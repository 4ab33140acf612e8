// Memory, streams and graphs of one CUDA device, for lamppost-bench and the tests. All in the
// device's primary context, which other libraries use too; it stays retained until the process
// ends.
#include "driver/cuda_workbench.hpp"

#include <fmt/core.h>

#include "driver/cuda_api.hpp"

namespace lamppost {
namespace {

class CudaWorkbench final : public Workbench {
 public:
  CudaWorkbench(const CudaApi& api, CUcontext context) : api_(api), context_(context) {}
  ~CudaWorkbench() override {
    const CudaContextScope scope(api_, context_);
    if (scope.status().ok() && copies_ != nullptr) (void)api_.cuStreamDestroy(copies_);
  }

  /// The stream for copies, and what is known of the device. Once.
  Status start(CUdevice device) {
    int bytes = 0;
    Status status = cuda_status(
        api_, api_.cuDeviceGetAttribute(&bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device),
        "cuDeviceGetAttribute", "read the size of the L2 cache");
    if (!status.ok()) return status;
    cache_bytes_ = static_cast<std::size_t>(bytes);
    Result<void*> stream = create_stream();
    if (stream.ok()) copies_ = static_cast<CUstream>(stream.value());
    return stream.status();
  }

  lpBackend_t backend() const override { return LP_BACKEND_CUDA; }

  Result<void*> allocate(std::size_t bytes) override {
    const CudaContextScope scope(api_, context_);
    if (!scope.status().ok()) return scope.status();
    CUdeviceptr memory = 0;
    const std::string purpose = fmt::format("allocate {} bytes of device memory", bytes);
    Status status = cuda_status(api_, api_.cuMemAlloc(&memory, bytes == 0 ? 1 : bytes),
                                "cuMemAlloc", purpose.c_str());
    if (!status.ok()) return status;
    return reinterpret_cast<void*>(memory);
  }
  void free(void* memory) override {
    if (memory == nullptr) return;
    const CudaContextScope scope(api_, context_);
    if (scope.status().ok()) (void)api_.cuMemFree(address(memory));
  }
  Status copy_in(void* memory, const void* from, std::size_t bytes) override {
    return copy(bytes, "cuMemcpyHtoDAsync",
                [&] { return api_.cuMemcpyHtoDAsync(address(memory), from, bytes, copies_); });
  }
  Status copy_out(void* to, const void* memory, std::size_t bytes) override {
    return copy(bytes, "cuMemcpyDtoHAsync",
                [&] { return api_.cuMemcpyDtoHAsync(to, address(memory), bytes, copies_); });
  }
  Status fill_bytes(void* memory, int value, std::size_t bytes) override {
    return copy(bytes, "cuMemsetD8Async", [&] {
      return api_.cuMemsetD8Async(address(memory), static_cast<unsigned char>(value), bytes,
                                  copies_);
    });
  }

  Result<void*> create_stream() override {
    const CudaContextScope scope(api_, context_);
    if (!scope.status().ok()) return scope.status();
    CUstream stream = nullptr;
    Status status =
        cuda_status(api_, api_.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    if (!status.ok()) return status;
    return static_cast<void*>(stream);
  }
  void destroy_stream(void* stream) override {
    if (stream == nullptr) return;
    const CudaContextScope scope(api_, context_);
    if (!scope.status().ok()) return;
    (void)api_.cuStreamSynchronize(static_cast<CUstream>(stream));
    (void)api_.cuStreamDestroy(static_cast<CUstream>(stream));
  }
  Status synchronize(void* stream) override {
    return call("cuStreamSynchronize",
                [&] { return api_.cuStreamSynchronize(static_cast<CUstream>(stream)); });
  }

  /// Relaxed: ranks of one process capture at the same time, each on a thread of its own, and what
  /// one does on another stream must not break the other's capture.
  Status begin_capture(void* stream) override {
    return call("cuStreamBeginCapture", [&] {
      return api_.cuStreamBeginCapture(static_cast<CUstream>(stream),
                                       CU_STREAM_CAPTURE_MODE_RELAXED);
    });
  }
  Result<void*> end_capture(void* stream) override {
    const CudaContextScope scope(api_, context_);
    if (!scope.status().ok()) return scope.status();
    CUgraph graph = nullptr;
    Status status = cuda_status(
        api_, api_.cuStreamEndCapture(static_cast<CUstream>(stream), &graph), "cuStreamEndCapture");
    if (!status.ok()) return status;
    CUgraphExec ready = nullptr;
    status = cuda_status(api_, api_.cuGraphInstantiate(&ready, graph, 0), "cuGraphInstantiate");
    (void)api_.cuGraphDestroy(graph);
    if (!status.ok()) return status;
    return static_cast<void*>(ready);
  }
  Status launch_graph(void* graph, void* stream) override {
    return call("cuGraphLaunch", [&] {
      return api_.cuGraphLaunch(static_cast<CUgraphExec>(graph), static_cast<CUstream>(stream));
    });
  }
  void destroy_graph(void* graph) override {
    if (graph == nullptr) return;
    const CudaContextScope scope(api_, context_);
    if (scope.status().ok()) (void)api_.cuGraphExecDestroy(static_cast<CUgraphExec>(graph));
  }

  Status bind_thread() override {
    return cuda_status(api_, api_.cuCtxSetCurrent(context_), "cuCtxSetCurrent");
  }
  std::size_t cache_bytes() const override { return cache_bytes_; }

 private:
  static CUdeviceptr address(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

  /// One call of the driver in the context.
  template <class Function>
  Status call(const char* name, Function&& function) {
    const CudaContextScope scope(api_, context_);
    return scope.status().ok() ? cuda_status(api_, function(), name) : scope.status();
  }
  /// Enqueues on the stream for copies and waits for it.
  template <class Function>
  Status copy(std::size_t bytes, const char* name, Function&& function) {
    if (bytes == 0) return {};
    Status status = call(name, function);
    return status.ok() ? synchronize(copies_) : status;
  }

  const CudaApi& api_;
  CUcontext context_;
  CUstream copies_ = nullptr;
  std::size_t cache_bytes_ = 0;
};

/// The device of this thread's current context; 0 without one.
int current_device(const CudaApi& api) {
  CUcontext context = nullptr;
  CUdevice device = 0;
  if (api.cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr) return 0;
  return api.cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : 0;
}

}  // namespace

Result<std::unique_ptr<Workbench>> make_cuda_workbench(int ordinal) {
  const Result<const CudaApi*> loaded = load_cuda_api();
  if (!loaded.ok()) return loaded.status();
  const CudaApi& api = *loaded.value();
  const int wanted = ordinal < 0 ? current_device(api) : ordinal;
  const std::string purpose = fmt::format("use CUDA device {}", wanted);
  CUdevice device = 0;
  Status status =
      cuda_status(api, api.cuDeviceGet(&device, wanted), "cuDeviceGet", purpose.c_str());
  if (!status.ok()) return status;
  CUcontext context = nullptr;
  status = cuda_status(api, api.cuDevicePrimaryCtxRetain(&context, device),
                       "cuDevicePrimaryCtxRetain", purpose.c_str());
  if (!status.ok()) return status;
  auto workbench = std::make_unique<CudaWorkbench>(api, context);
  status = workbench->start(device);
  if (!status.ok()) return status;
  return std::unique_ptr<Workbench>(std::move(workbench));
}

int cuda_device_count() {
  const Result<const CudaApi*> api = load_cuda_api();
  int count = 0;
  if (!api.ok() || api.value()->cuDeviceGetCount(&count) != CUDA_SUCCESS) return 0;
  return count;
}

}  // namespace lamppost
