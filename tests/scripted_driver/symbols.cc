// The scripted driver: that no function of LAMPPOST_CUDA_SYMBOLS is missing, names of errors, and the
// multicast functions, which exist so that a test can prove that they are never called.
#include "scripted_driver/state.hpp"  // first: it says what is exported

#include "driver/cuda_api.hpp"

namespace lamppost::test::scripted {

/// A function that is in the list but not in this library does not link.
extern const CudaApi kEveryFunction;
const CudaApi kEveryFunction = {
#define LAMPPOST_SCRIPTED_MEMBER(name) &::name,
    LAMPPOST_CUDA_SYMBOLS(LAMPPOST_SCRIPTED_MEMBER)
#undef LAMPPOST_SCRIPTED_MEMBER
};

namespace {

struct Error {
  CUresult code;
  const char* name;
  const char* text;
};
#define LAMPPOST_SCRIPTED_ERROR(code, text) \
  { code, #code, text }
constexpr Error kErrors[] = {
    LAMPPOST_SCRIPTED_ERROR(CUDA_SUCCESS, "no error"),
    LAMPPOST_SCRIPTED_ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    LAMPPOST_SCRIPTED_ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    LAMPPOST_SCRIPTED_ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    LAMPPOST_SCRIPTED_ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    LAMPPOST_SCRIPTED_ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    LAMPPOST_SCRIPTED_ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    LAMPPOST_SCRIPTED_ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image for the device"),
    LAMPPOST_SCRIPTED_ERROR(CUDA_ERROR_OPERATING_SYSTEM, "OS call failed"),
    LAMPPOST_SCRIPTED_ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    LAMPPOST_SCRIPTED_ERROR(CUDA_ERROR_ILLEGAL_STATE, "operation not permitted in this state"),
    LAMPPOST_SCRIPTED_ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    LAMPPOST_SCRIPTED_ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
    LAMPPOST_SCRIPTED_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access"),
    LAMPPOST_SCRIPTED_ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "registered already"),
    LAMPPOST_SCRIPTED_ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "not registered"),
    LAMPPOST_SCRIPTED_ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    LAMPPOST_SCRIPTED_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                            "operation not permitted when stream is capturing"),
    LAMPPOST_SCRIPTED_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture is invalid"),
    LAMPPOST_SCRIPTED_ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                            "dependency created on uncaptured work"),
    LAMPPOST_SCRIPTED_ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                            "operation would make the legacy stream depend on a capturing one"),
    LAMPPOST_SCRIPTED_ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
                            "the capture was begun by another thread"),
    LAMPPOST_SCRIPTED_ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE, "two captures would become one"),
    LAMPPOST_SCRIPTED_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture began elsewhere"),
    LAMPPOST_SCRIPTED_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "a stream was not joined"),
    LAMPPOST_SCRIPTED_ERROR(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    LAMPPOST_SCRIPTED_ERROR(CUDA_ERROR_INVALID_CLUSTER_SIZE, "invalid cluster size"),
    LAMPPOST_SCRIPTED_ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
};
#undef LAMPPOST_SCRIPTED_ERROR

const Error* find_error(CUresult code) {
  for (const Error& error : kErrors) {
    if (error.code == code) return &error;
  }
  return nullptr;
}

CUresult refuse_multicast(const char* name) {
  return call(name, kNeedsInit, [] { return CUDA_ERROR_NOT_SUPPORTED; });
}

}  // namespace
}  // namespace lamppost::test::scripted

using namespace lamppost::test::scripted;

CUresult CUDAAPI cuGetErrorName(CUresult code, const char** name) {
  return call("cuGetErrorName", kAlways, [&] {
    const Error* error = find_error(code);
    *name = error == nullptr ? nullptr : error->name;
    return error == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGetErrorString(CUresult code, const char** text) {
  return call("cuGetErrorString", kAlways, [&] {
    const Error* error = find_error(code);
    *text = error == nullptr ? nullptr : error->text;
    return error == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMulticastCreate(CUmemGenericAllocationHandle*, const CUmulticastObjectProp*) {
  return refuse_multicast("cuMulticastCreate");
}
CUresult CUDAAPI cuMulticastAddDevice(CUmemGenericAllocationHandle, CUdevice) {
  return refuse_multicast("cuMulticastAddDevice");
}
CUresult CUDAAPI cuMulticastBindMem(CUmemGenericAllocationHandle, size_t,
                                    CUmemGenericAllocationHandle, size_t, size_t,
                                    unsigned long long) {
  return refuse_multicast("cuMulticastBindMem");
}
CUresult CUDAAPI cuMulticastBindAddr(CUmemGenericAllocationHandle, size_t, CUdeviceptr, size_t,
                                     unsigned long long) {
  return refuse_multicast("cuMulticastBindAddr");
}
CUresult CUDAAPI cuMulticastUnbind(CUmemGenericAllocationHandle, CUdevice, size_t, size_t) {
  return refuse_multicast("cuMulticastUnbind");
}
CUresult CUDAAPI cuMulticastGetGranularity(size_t*, const CUmulticastObjectProp*,
                                           CUmulticastGranularity_flags) {
  return refuse_multicast("cuMulticastGetGranularity");
}
