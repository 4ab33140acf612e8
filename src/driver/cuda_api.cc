#include "driver/cuda_api.hpp"

#include <dlfcn.h>
#include <fmt/core.h>

namespace lamppost {
namespace {

constexpr int kOldestDriver = 12040;  // has every function of the list

Status not_usable(std::string reason) { return Status(LP_ERROR_NOT_SUPPORTED, std::move(reason)); }

Status find_symbols(void* library, CudaApi& api) {
  struct Symbol {
    const char* name;
    void** pointer;
  };
#define LAMPPOST_CUDA_TEXT(name) #name
#define LAMPPOST_CUDA_FIND(name) Symbol{LAMPPOST_CUDA_TEXT(name), reinterpret_cast<void**>(&api.name)},
  const Symbol symbols[] = {LAMPPOST_CUDA_SYMBOLS(LAMPPOST_CUDA_FIND)};
#undef LAMPPOST_CUDA_FIND
#undef LAMPPOST_CUDA_TEXT
  for (const Symbol& symbol : symbols) {
    *symbol.pointer = dlsym(library, symbol.name);
    if (*symbol.pointer == nullptr) {
      return not_usable(fmt::format("libcuda.so.1 has no {}: the driver is too old", symbol.name));
    }
  }
  return {};
}

Result<const CudaApi*> load() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);  // stays open
  if (library == nullptr) {
    const char* reason = dlerror();
    return not_usable(fmt::format("no CUDA driver: {}", reason != nullptr ? reason : "unknown"));
  }
  static CudaApi api;
  Status status = find_symbols(library, api);
  if (!status.ok()) return status;
  CUresult result = api.cuInit(0);
  if (result != CUDA_SUCCESS) {
    return not_usable(cuda_status(api, result, "cuInit", "start the CUDA driver").message());
  }
  int version = 0;
  result = api.cuDriverGetVersion(&version);
  if (result == CUDA_SUCCESS && version < kOldestDriver) {
    return not_usable(fmt::format("the CUDA driver supports CUDA {}.{}; 12.4 or later is needed",
                                  version / 1000, version % 1000 / 10));
  }
  int count = 0;
  result = api.cuDeviceGetCount(&count);
  if (result != CUDA_SUCCESS) {
    return not_usable(cuda_status(api, result, "cuDeviceGetCount").message());
  }
  if (count == 0) return not_usable("the CUDA driver sees no device");
  return &api;
}

}  // namespace

Result<const CudaApi*> load_cuda_api() {
  static const Result<const CudaApi*> loaded = load();
  return loaded;
}

Status cuda_status(const CudaApi& api, CUresult result, const char* call, const char* purpose) {
  if (result == CUDA_SUCCESS) return {};
  const char* name = nullptr;
  const char* sentence = nullptr;
  if (api.cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) name = "unknown error";
  if (api.cuGetErrorString(result, &sentence) != CUDA_SUCCESS) sentence = nullptr;
  lpResult_t code = LP_ERROR_DRIVER;
  if (result == CUDA_ERROR_OUT_OF_MEMORY) code = LP_ERROR_OUT_OF_MEMORY;
  if (result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
      result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD) {
    code = LP_ERROR_NOT_CAPTURABLE;
  }
  return Status(code, fmt::format("{}{}{} failed: {} ({}): {}", purpose,
                                  *purpose != '\0' ? ": " : "", call, name,
                                  static_cast<int>(result), sentence != nullptr ? sentence : "?"));
}

CudaContextScope::CudaContextScope(const CudaApi& api, CUcontext context, Use use) : api_(api) {
  CUcontext current = nullptr;
  status_ = cuda_status(api_, api_.cuCtxGetCurrent(&current), "cuCtxGetCurrent");
  if (status_.ok() && current != context) {
    status_ = cuda_status(api_, api_.cuCtxPushCurrent(context), "cuCtxPushCurrent");
    is_pushed_ = status_.ok();
  }
  if (status_.ok() && use == Use::kSetUp) {
    status_ = cuda_status(api_, api_.cuThreadExchangeStreamCaptureMode(&mode_),
                          "cuThreadExchangeStreamCaptureMode");
    is_relaxed_ = status_.ok();
  }
}

CudaContextScope::~CudaContextScope() {
  if (is_relaxed_) (void)api_.cuThreadExchangeStreamCaptureMode(&mode_);
  CUcontext popped = nullptr;
  if (is_pushed_) (void)api_.cuCtxPopCurrent(&popped);
}

}  // namespace lamppost
