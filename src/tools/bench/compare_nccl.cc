#include "tools/bench/compare_nccl.hpp"

#include <dlfcn.h>
#include <fmt/core.h>

#include <cstdlib>
#include <map>

namespace lamppost::bench {
namespace {

using Comm = void*;
using Window = void*;
constexpr int kSuccessCode = 0;
constexpr int kInProgressCode = 7;
constexpr int kSum = 0;
constexpr int kSymmetricWindow = 1;  // NCCL_WIN_COLL_SYMMETRIC

struct UniqueId {
  char internal[128];
};

struct NcclApi {
  int (*get_unique_id)(UniqueId*);
  int (*comm_init_rank)(Comm*, int, UniqueId, int);
  int (*comm_destroy)(Comm);
  int (*comm_get_async_error)(Comm, int*);
  const char* (*get_error_string)(int);
  int (*all_reduce)(const void*, void*, std::size_t, int, int, Comm, void*);
  // Since 2.27; null in an older one.
  int (*mem_alloc)(void**, std::size_t);
  int (*mem_free)(void*);
  int (*window_register)(Comm, void*, std::size_t, Window*, int);
  int (*window_deregister)(Comm, Window);

  bool has_windows() const {
    return mem_alloc != nullptr && mem_free != nullptr && window_register != nullptr &&
           window_deregister != nullptr;
  }
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

Result<NcclApi> load() {
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);  // stays open
  if (library == nullptr) {
    const char* reason = dlerror();
    return Status(LP_ERROR_NOT_SUPPORTED,
                  fmt::format("NCCL was not found: {}", reason != nullptr ? reason : "unknown"));
  }
  NcclApi api{};
  const bool is_whole = find(library, "ncclGetUniqueId", api.get_unique_id) &&
                        find(library, "ncclCommInitRank", api.comm_init_rank) &&
                        find(library, "ncclCommDestroy", api.comm_destroy) &&
                        find(library, "ncclCommGetAsyncError", api.comm_get_async_error) &&
                        find(library, "ncclGetErrorString", api.get_error_string) &&
                        find(library, "ncclAllReduce", api.all_reduce);
  if (!is_whole) {
    return Status(LP_ERROR_NOT_SUPPORTED, "libnccl.so.2 lacks functions of NCCL 2");
  }
  find(library, "ncclMemAlloc", api.mem_alloc);
  find(library, "ncclMemFree", api.mem_free);
  find(library, "ncclCommWindowRegister", api.window_register);
  find(library, "ncclCommWindowDeregister", api.window_deregister);
  return api;
}

const Result<NcclApi>& loaded() {
  static const Result<NcclApi> api = load();
  return api;
}

Status to_status(int result, const char* call) {
  if (result == kSuccessCode) return {};
  return Status(LP_ERROR_DRIVER, fmt::format("{}: {} ({})", call,
                                             loaded().value().get_error_string(result), result));
}

/// Another workbench's streams, graphs and copies, with memory of its own.
class SymmetricWorkbench final : public Workbench {
 public:
  SymmetricWorkbench(Workbench& other, Comm comm) : other_(other), comm_(comm) {}

  lpBackend_t backend() const override { return other_.backend(); }
  Result<void*> allocate(std::size_t bytes) override {
    constexpr std::size_t kUnitBytes = 4096;
    const std::size_t all = (bytes / kUnitBytes + 1) * kUnitBytes;
    void* memory = nullptr;
    Window window = nullptr;
    Status status = to_status(api_.mem_alloc(&memory, all), "ncclMemAlloc");
    if (!status.ok()) return status;
    status = to_status(api_.window_register(comm_, memory, all, &window, kSymmetricWindow),
                       "ncclCommWindowRegister");
    if (!status.ok()) {
      api_.mem_free(memory);
      return status;
    }
    windows_[memory] = window;
    return memory;
  }
  void free(void* memory) override {
    const auto found = windows_.find(memory);
    if (found == windows_.end()) return;
    api_.window_deregister(comm_, found->second);
    windows_.erase(found);
    api_.mem_free(memory);
  }
  Status copy_in(void* memory, const void* from, std::size_t bytes) override {
    return other_.copy_in(memory, from, bytes);
  }
  Status copy_out(void* to, const void* memory, std::size_t bytes) override {
    return other_.copy_out(to, memory, bytes);
  }
  Status fill_bytes(void* memory, int value, std::size_t bytes) override {
    return other_.fill_bytes(memory, value, bytes);
  }
  Result<void*> create_stream() override { return other_.create_stream(); }
  void destroy_stream(void* stream) override { other_.destroy_stream(stream); }
  Status synchronize(void* stream) override { return other_.synchronize(stream); }
  Status begin_capture(void* stream) override { return other_.begin_capture(stream); }
  Result<void*> end_capture(void* stream) override { return other_.end_capture(stream); }
  Status launch_graph(void* graph, void* stream) override {
    return other_.launch_graph(graph, stream);
  }
  void destroy_graph(void* graph) override { other_.destroy_graph(graph); }
  Status bind_thread() override { return other_.bind_thread(); }
  std::size_t cache_bytes() const override { return other_.cache_bytes(); }

 private:
  Workbench& other_;
  Comm comm_;
  const NcclApi& api_ = loaded().value();
  std::map<void*, Window> windows_;
};

class LoadedNcclRank final : public NcclRank {
 public:
  LoadedNcclRank(Comm comm, Workbench& workbench) : comm_(comm), symmetric_(workbench, comm) {}
  ~LoadedNcclRank() override { api_.comm_destroy(comm_); }

  Issue issue(const Workload& workload) override {
    return [this, &workload](RowBuffers& buffers, void* stream) {
      return to_status(api_.all_reduce(buffers.in(), buffers.out(), workload.row.elements,
                                       static_cast<int>(workload.type), kSum, comm_, stream),
                       "ncclAllReduce");
    };
  }
  Status async_error() override {
    int error = kSuccessCode;
    Status status = to_status(api_.comm_get_async_error(comm_, &error), "ncclCommGetAsyncError");
    if (!status.ok() || error == kInProgressCode) return status;
    return to_status(error, "NCCL's asynchronous error");
  }
  Workbench* symmetric_workbench() override { return api_.has_windows() ? &symmetric_ : nullptr; }

 private:
  const NcclApi& api_ = loaded().value();
  Comm comm_;
  SymmetricWorkbench symmetric_;
};

}  // namespace

Status load_nccl() { return loaded().status(); }

Result<std::unique_ptr<NcclRank>> NcclRank::create(World& world, RankSeat& seat) {
  const NcclApi& api = loaded().value();
  Status status = seat.workbench().bind_thread();
  UniqueId mine{};
  if (status.ok() && world.rank() == 0) {
    status = to_status(api.get_unique_id(&mine), "ncclGetUniqueId");
  }
  const UniqueId id = world.gather(mine)[0];
  // From here on a rank that stays away would make the others wait for ever.
  if (world.any(!status.ok())) {
    return status.ok() ? Status(LP_ERROR_ABORTED, "another rank could not start NCCL") : status;
  }
  Comm comm = nullptr;
  status = to_status(api.comm_init_rank(&comm, world.rank_count(), id, world.rank()),
                     "ncclCommInitRank");
  std::unique_ptr<NcclRank> rank;
  if (status.ok()) rank = std::make_unique<LoadedNcclRank>(comm, seat.workbench());
  if (world.any(!status.ok())) {
    return status.ok() ? Status(LP_ERROR_ABORTED, "another rank could not start NCCL") : status;
  }
  return rank;
}

}  // namespace lamppost::bench
