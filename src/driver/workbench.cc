// The host backend's workbench, and the choice of a backend's.
#include "driver/workbench.hpp"

#include <fmt/core.h>

#include <cstdlib>
#include <cstring>
#include <lamppost/types.hpp>

#ifdef LAMPPOST_HAVE_CUDA
#include "driver/cuda_workbench.hpp"
#endif

namespace lamppost {
namespace {

constexpr std::size_t kAlignmentBytes = 256;

Status to_status(lpResult_t result) {
  if (result == LP_SUCCESS) return {};
  return Status(result, lpGetLastError(nullptr));
}

/// Ordinary memory, and the streams and graphs of the C API.
class HostWorkbench final : public Workbench {
 public:
  explicit HostWorkbench(lpComm_t comm) : comm_(comm) {}

  lpBackend_t backend() const override { return LP_BACKEND_HOST; }

  Result<void*> allocate(std::size_t bytes) override {
    const std::size_t all = (bytes / kAlignmentBytes + 1) * kAlignmentBytes;
    void* memory = std::aligned_alloc(kAlignmentBytes, all);
    if (memory != nullptr) return memory;
    return Status(LP_ERROR_OUT_OF_MEMORY, fmt::format("{} bytes of host memory", all));
  }
  void free(void* memory) override { std::free(memory); }
  Status copy_in(void* memory, const void* from, std::size_t bytes) override {
    if (bytes != 0) std::memcpy(memory, from, bytes);
    return {};
  }
  Status copy_out(void* to, const void* memory, std::size_t bytes) override {
    if (bytes != 0) std::memcpy(to, memory, bytes);
    return {};
  }
  Status fill_bytes(void* memory, int value, std::size_t bytes) override {
    if (bytes != 0) std::memset(memory, value, bytes);
    return {};
  }

  Result<void*> create_stream() override {
    lpStream_t stream = nullptr;
    Status status = to_status(lpStreamCreate(comm_, &stream));
    if (!status.ok()) return status;
    return static_cast<void*>(stream);
  }
  void destroy_stream(void* stream) override {
    static_cast<void>(lpStreamDestroy(static_cast<lpStream_t>(stream)));
  }
  Status synchronize(void* stream) override {
    return to_status(lpStreamSynchronize(static_cast<lpStream_t>(stream)));
  }

  Status begin_capture(void* stream) override {
    return to_status(lpStreamBeginCapture(static_cast<lpStream_t>(stream)));
  }
  Result<void*> end_capture(void* stream) override {
    lpGraph_t graph = nullptr;
    Status status = to_status(lpStreamEndCapture(static_cast<lpStream_t>(stream), &graph));
    if (!status.ok()) return status;
    return static_cast<void*>(graph);
  }
  Status launch_graph(void* graph, void* stream) override {
    return to_status(lpGraphLaunch(static_cast<lpGraph_t>(graph), static_cast<lpStream_t>(stream)));
  }
  void destroy_graph(void* graph) override {
    static_cast<void>(lpGraphDestroy(static_cast<lpGraph_t>(graph)));
  }

  Status bind_thread() override { return {}; }
  std::size_t cache_bytes() const override { return 0; }

 private:
  lpComm_t comm_;
};

}  // namespace

Result<std::unique_ptr<Workbench>> make_workbench(lpComm_t comm, [[maybe_unused]] int device) {
  lpBackend_t backend = LP_BACKEND_AUTO;
  Status status = to_status(lpCommGetBackend(comm, &backend));
  if (!status.ok()) return status;
  if (backend == LP_BACKEND_HOST) {
    return std::unique_ptr<Workbench>(std::make_unique<HostWorkbench>(comm));
  }
#ifdef LAMPPOST_HAVE_CUDA
  if (backend == LP_BACKEND_CUDA) return make_cuda_workbench(device);
#endif
  return Status(LP_ERROR_NOT_SUPPORTED,
                fmt::format("this build has no memory, streams and graphs of the {} backend",
                            backend_name(backend)));
}

int device_count([[maybe_unused]] lpBackend_t backend) {
#ifdef LAMPPOST_HAVE_CUDA
  if (backend == LP_BACKEND_CUDA) return cuda_device_count();
#endif
  return 0;
}

}  // namespace lamppost
