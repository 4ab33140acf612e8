// The workbench of a CUDA device, over the Driver API: its primary context, as a CUDA runtime program
// would use it.
#include <fmt/core.h>

#include "driver/cuda_api.hpp"
#include "driver/workbench.hpp"

namespace lamppost {
namespace {

using Use = CudaContextScope::Use;

CUstream as_stream(void* stream) { return static_cast<CUstream>(stream); }
CUdeviceptr as_device(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

class CudaWorkbench final : public Workbench {
 public:
  CudaWorkbench(const CudaApi& api, CUdevice device, CUcontext context)
      : api_(api), device_(device), context_(context) {}
  ~CudaWorkbench() override {
    {
      const CudaContextScope scope(api_, context_, Use::kSetUp);
      if (copies_ != nullptr) (void)api_.cuStreamDestroy(copies_);
    }
    (void)api_.cuDevicePrimaryCtxRelease(device_);
  }

  Status set_up() {
    const CudaContextScope scope(api_, context_, Use::kSetUp);
    if (!scope.status().ok()) return scope.status();
    int cache_bytes = 0;
    Status status = cuda_status(
        api_,
        api_.cuDeviceGetAttribute(&cache_bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device_),
        "cuDeviceGetAttribute");
    if (!status.ok()) return status;
    cache_bytes_ = static_cast<std::size_t>(cache_bytes);
    return cuda_status(api_, api_.cuStreamCreate(&copies_, CU_STREAM_NON_BLOCKING),
                       "cuStreamCreate");
  }

  lpBackend_t backend() const override { return LP_BACKEND_CUDA; }

  Result<void*> allocate(std::size_t bytes) override {
    const CudaContextScope scope(api_, context_, Use::kSetUp);
    CUdeviceptr memory = 0;
    Status status = cuda_status(api_, api_.cuMemAlloc(&memory, bytes == 0 ? 1 : bytes),
                                "cuMemAlloc", fmt::format("{} bytes", bytes).c_str());
    if (!status.ok()) return status;
    return reinterpret_cast<void*>(memory);
  }
  void free(void* memory) override {
    const CudaContextScope scope(api_, context_, Use::kSetUp);
    (void)api_.cuMemFree(as_device(memory));
  }
  Status copy_in(void* memory, const void* from, std::size_t bytes) override {
    const CudaContextScope scope(api_, context_, Use::kSetUp);
    if (bytes == 0) return {};
    return finish_copy(api_.cuMemcpyHtoDAsync(as_device(memory), from, bytes, copies_),
                       "cuMemcpyHtoDAsync");
  }
  Status copy_out(void* to, const void* memory, std::size_t bytes) override {
    const CudaContextScope scope(api_, context_, Use::kSetUp);
    if (bytes == 0) return {};
    return finish_copy(api_.cuMemcpyDtoHAsync(to, as_device(memory), bytes, copies_),
                       "cuMemcpyDtoHAsync");
  }
  Status fill_bytes(void* memory, int value, std::size_t bytes) override {
    const CudaContextScope scope(api_, context_, Use::kSetUp);
    if (bytes == 0) return {};
    return finish_copy(api_.cuMemsetD8Async(as_device(memory), static_cast<unsigned char>(value),
                                            bytes, copies_),
                       "cuMemsetD8Async");
  }

  Result<void*> create_stream() override {
    const CudaContextScope scope(api_, context_, Use::kSetUp);
    CUstream stream = nullptr;
    Status status = cuda_status(api_, api_.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING),
                                "cuStreamCreate");
    if (!status.ok()) return status;
    return static_cast<void*>(stream);
  }
  void destroy_stream(void* stream) override {
    const CudaContextScope scope(api_, context_, Use::kSetUp);
    (void)api_.cuStreamSynchronize(as_stream(stream));
    (void)api_.cuStreamDestroy(as_stream(stream));
  }
  Status synchronize(void* stream) override {
    const CudaContextScope scope(api_, context_, Use::kSetUp);
    return cuda_status(api_, api_.cuStreamSynchronize(as_stream(stream)), "cuStreamSynchronize");
  }

  Status begin_capture(void* stream) override {
    const CudaContextScope scope(api_, context_, Use::kCall);
    return cuda_status(
        api_, api_.cuStreamBeginCapture(as_stream(stream), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
        "cuStreamBeginCapture");
  }
  Result<void*> end_capture(void* stream) override {
    const CudaContextScope scope(api_, context_, Use::kCall);
    CUgraph graph = nullptr;
    Status status = cuda_status(api_, api_.cuStreamEndCapture(as_stream(stream), &graph),
                                "cuStreamEndCapture");
    if (!status.ok()) return status;
    CUgraphExec ready = nullptr;
    status = cuda_status(api_, api_.cuGraphInstantiate(&ready, graph, 0), "cuGraphInstantiate");
    (void)api_.cuGraphDestroy(graph);
    if (!status.ok()) return status;
    return static_cast<void*>(ready);
  }
  Status launch_graph(void* graph, void* stream) override {
    const CudaContextScope scope(api_, context_, Use::kCall);
    return cuda_status(
        api_, api_.cuGraphLaunch(static_cast<CUgraphExec>(graph), as_stream(stream)),
        "cuGraphLaunch");
  }
  void destroy_graph(void* graph) override {
    const CudaContextScope scope(api_, context_, Use::kSetUp);
    (void)api_.cuGraphExecDestroy(static_cast<CUgraphExec>(graph));
  }

  Status bind_thread() override {
    return cuda_status(api_, api_.cuCtxSetCurrent(context_), "cuCtxSetCurrent");
  }
  std::size_t cache_bytes() const override { return cache_bytes_; }

 private:
  Status finish_copy(CUresult enqueued, const char* call) {
    Status status = cuda_status(api_, enqueued, call);
    if (!status.ok()) return status;
    return cuda_status(api_, api_.cuStreamSynchronize(copies_), "cuStreamSynchronize", call);
  }

  const CudaApi& api_;
  CUdevice device_;
  CUcontext context_;
  CUstream copies_ = nullptr;
  std::size_t cache_bytes_ = 0;
};

}  // namespace

Result<std::unique_ptr<Workbench>> make_cuda_workbench(int device) {
  const Result<const CudaApi*> api = load_cuda_api();
  if (!api.ok()) return api.status();
  CUdevice handle = 0;
  Status status = cuda_status(*api.value(), api.value()->cuDeviceGet(&handle, device),
                              "cuDeviceGet", fmt::format("device {}", device).c_str());
  if (!status.ok()) return status;
  CUcontext context = nullptr;
  status = cuda_status(*api.value(), api.value()->cuDevicePrimaryCtxRetain(&context, handle),
                       "cuDevicePrimaryCtxRetain");
  if (!status.ok()) return status;
  auto workbench = std::make_unique<CudaWorkbench>(*api.value(), handle, context);
  status = workbench->set_up();
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
