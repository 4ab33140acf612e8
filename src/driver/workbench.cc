// The workbench of the host backend, over the public C API; and which backend's it is to be.
#include "driver/workbench.hpp"

#include <fmt/core.h>

#include <cstdlib>
#include <cstring>
#include <lamppost/types.hpp>

namespace lamppost {
namespace {

Status status_of(lpResult_t result) {
  return result == LP_SUCCESS ? Status() : Status(result, lpGetLastError(nullptr));
}

class HostWorkbench final : public Workbench {
 public:
  explicit HostWorkbench(lpComm_t comm) : comm_(comm) {}

  lpBackend_t backend() const override { return LP_BACKEND_HOST; }

  Result<void*> allocate(std::size_t bytes) override {
    constexpr std::size_t kAlignment = 4096;
    const std::size_t whole = (bytes + kAlignment) / kAlignment * kAlignment;  // never 0
    void* memory = std::aligned_alloc(kAlignment, whole);
    if (memory != nullptr) return memory;
    return Status(LP_ERROR_OUT_OF_MEMORY, fmt::format("{} bytes of memory", whole));
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
    Status status = status_of(lpStreamCreate(comm_, &stream));
    if (!status.ok()) return status;
    return static_cast<void*>(stream);
  }
  void destroy_stream(void* stream) override { (void)lpStreamDestroy(as_stream(stream)); }
  Status synchronize(void* stream) override {
    return status_of(lpStreamSynchronize(as_stream(stream)));
  }

  Status begin_capture(void* stream) override {
    return status_of(lpStreamBeginCapture(as_stream(stream)));
  }
  Result<void*> end_capture(void* stream) override {
    lpGraph_t graph = nullptr;
    Status status = status_of(lpStreamEndCapture(as_stream(stream), &graph));
    if (!status.ok()) return status;
    return static_cast<void*>(graph);
  }
  Status launch_graph(void* graph, void* stream) override {
    return status_of(lpGraphLaunch(as_graph(graph), as_stream(stream)));
  }
  void destroy_graph(void* graph) override { (void)lpGraphDestroy(as_graph(graph)); }

  Status bind_thread() override { return {}; }
  std::size_t cache_bytes() const override { return 0; }

 private:
  static lpStream_t as_stream(void* stream) { return static_cast<lpStream_t>(stream); }
  static lpGraph_t as_graph(void* graph) { return static_cast<lpGraph_t>(graph); }

  lpComm_t comm_;
};

}  // namespace

Result<std::unique_ptr<Workbench>> make_workbench(lpComm_t comm, [[maybe_unused]] int device) {
  lpBackend_t backend = LP_BACKEND_AUTO;
  Status status = status_of(lpCommGetBackend(comm, &backend));
  if (!status.ok()) return status;
  if (backend == LP_BACKEND_HOST) {
    return std::unique_ptr<Workbench>(std::make_unique<HostWorkbench>(comm));
  }
#ifdef LAMPPOST_HAVE_CUDA
  if (backend == LP_BACKEND_CUDA) return make_cuda_workbench(device);
#endif
  return Status(LP_ERROR_NOT_SUPPORTED,
                fmt::format("no memory and streams for the {} backend", backend_name(backend)));
}

int device_count([[maybe_unused]] lpBackend_t backend) {
#ifdef LAMPPOST_HAVE_CUDA
  if (backend == LP_BACKEND_CUDA) return cuda_device_count();
#endif
  return 0;
}

}  // namespace lamppost
