// The CUDA Driver API, found at run time: libcuda.so.1 is opened once, and every symbol that Lamppost
// uses is a pointer in CudaApi. cuda.h is needed to compile; nothing is linked.
//
// To use another function: one line in LAMPPOST_CUDA_SYMBOLS. cuda.h defines some names as macros
// for their current version (cuMemAlloc is cuMemAlloc_v2); the list follows it.
#pragma once

#include <cuda.h>
#include <lamppost/status.hpp>

namespace lamppost {

// clang-format off
#define LAMPPOST_CUDA_SYMBOLS(X)                                                                   \
  X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) X(cuGetErrorString)                            \
  X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetUuid)                         \
  X(cuDeviceGetAttribute) X(cuDeviceGetPCIBusId) X(cuDeviceCanAccessPeer)                          \
  X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuDevicePrimaryCtxGetState)           \
  X(cuCtxGetCurrent) X(cuCtxSetCurrent) X(cuCtxPushCurrent) X(cuCtxPopCurrent) X(cuCtxGetDevice)   \
  X(cuThreadExchangeStreamCaptureMode)                                                             \
  X(cuMemGetAllocationGranularity) X(cuMemCreate) X(cuMemRelease) X(cuMemAddressReserve)           \
  X(cuMemAddressFree) X(cuMemMap) X(cuMemUnmap) X(cuMemSetAccess)                                  \
  X(cuMemExportToShareableHandle) X(cuMemImportFromShareableHandle)                                \
  X(cuMemHostRegister) X(cuMemHostUnregister) X(cuMemHostGetDevicePointer)                         \
  X(cuPointerGetAttribute) X(cuMemAlloc) X(cuMemFree) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync)    \
  X(cuMemsetD8Async) X(cuMemsetD32Async)                                                           \
  X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) X(cuFuncGetAttribute)               \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor) X(cuLaunchKernelEx)                               \
  X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamGetId)                     \
  X(cuStreamGetCaptureInfo) X(cuStreamWaitEvent) X(cuStreamWaitValue32)                            \
  X(cuStreamBeginCapture) X(cuStreamEndCapture)                                                    \
  X(cuEventCreate) X(cuEventRecord) X(cuEventDestroy)                                              \
  X(cuGraphInstantiate) X(cuGraphLaunch) X(cuGraphExecDestroy) X(cuGraphDestroy)
// clang-format on

struct CudaApi {
#define LAMPPOST_CUDA_MEMBER(name) decltype(&::name) name;
  LAMPPOST_CUDA_SYMBOLS(LAMPPOST_CUDA_MEMBER)
#undef LAMPPOST_CUDA_MEMBER
};

/// The driver, loaded and initialised (cuInit) by the first call; later calls return the same, its failure
/// too: a driver that is installed later is found by the next process. Any thread; blocks while the driver starts. NOT_SUPPORTED with the reason: no libcuda.so.1, a driver
/// that is too old, or no device.
Result<const CudaApi*> load_cuda_api();

/// The status of a driver call: ok for CUDA_SUCCESS, else DRIVER (OUT_OF_MEMORY for
/// CUDA_ERROR_OUT_OF_MEMORY, NOT_CAPTURABLE for CUDA_ERROR_STREAM_CAPTURE_*) with the call's name, what it was for (may be empty), and the error's
/// name and sentence.
Status cuda_status(const CudaApi& api, CUresult result, const char* call, const char* purpose = "");

/// Makes a context current on this thread and restores the caller's on exit. Nothing is called where
/// it is current already, as it is in a framework's threads.
class CudaContextScope {
 public:
  enum class Use {
    kCall,   // the path of a call: only what is legal while a stream is captured
    kSetUp,  // allows calls that another thread's capture forbids: they do not touch its stream
  };

  CudaContextScope(const CudaApi& api, CUcontext context, Use use);
  ~CudaContextScope();
  CudaContextScope(const CudaContextScope&) = delete;
  CudaContextScope& operator=(const CudaContextScope&) = delete;
  /// Not ok: the context could not be made current, and nothing may be called.
  const Status& status() const { return status_; }

 private:
  const CudaApi& api_;
  bool is_pushed_ = false;
  bool is_relaxed_ = false;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  Status status_;
};

}  // namespace lamppost
