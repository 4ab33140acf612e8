// The scripted driver's own rules: what the real driver refuses, it refuses too, or tests on it would pass
// by its leniency.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <thread>

#include "scripted_driver/ranks.hpp"

namespace lamppost::test {
namespace {

constexpr std::size_t kGranule = 2u << 20;

class Rules : public testing::Test {
 protected:
  void SetUp() override { before_ = scripted_driver().open_handles(); }
  void TearDown() override {
    EXPECT_EQ(scripted_driver().open_handles(), before_)
        << describe(scripted_driver().open_handles());
  }
  const CudaApi& cu_ = api();

 private:
  ScriptedHandles before_;
};

CUmemAllocationProp on_device(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}
CUmemAccessDesc access_of(int device) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access;
}

TEST_F(Rules, NothingElseIsExported) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  EXPECT_NE(dlsym(library, "lamppost_scripted_driver"), nullptr);
  EXPECT_NE(dlsym(library, "cuMulticastCreate"), nullptr);
  EXPECT_EQ(dlsym(library, "lpAllReduce"), nullptr);
  EXPECT_EQ(dlsym(library, "cuCtxCreate_v2"), nullptr);  // not in LAMPPOST_CUDA_SYMBOLS
  dlclose(library);
}

TEST_F(Rules, AContextIsNeeded) {
  CUstream stream = nullptr;
  CUdevice device = 0;
  CUdeviceptr memory = 0;
  EXPECT_EQ(cu_.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cu_.cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cu_.cuMemAlloc(&memory, 64), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cu_.cuCtxPopCurrent(nullptr), CUDA_ERROR_INVALID_CONTEXT);
  CUcontext context = nullptr;
  {
    const User user(1);
    context = user.context();
    EXPECT_EQ(cu_.cuCtxGetDevice(&device), CUDA_SUCCESS);
    EXPECT_EQ(device, 1);
    std::thread([&] {  // a thread has contexts of its own
      EXPECT_EQ(cu_.cuMemAlloc(&memory, 64), CUDA_ERROR_INVALID_CONTEXT);
    }).join();
  }
  EXPECT_EQ(cu_.cuCtxPushCurrent(context), CUDA_ERROR_INVALID_CONTEXT);  // nobody retains it
}

TEST_F(Rules, VirtualMemoryLivesAndDiesInOrder) {
  const CUmemAllocationProp properties = on_device(0);
  const CUmemAccessDesc access = access_of(0);
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  EXPECT_EQ(cu_.cuMemCreate(&handle, kGranule + 4096, &properties, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cu_.cuMemCreate(&handle, kGranule, &properties, 0), CUDA_SUCCESS);
  EXPECT_EQ(cu_.cuMemMap(0x1000, kGranule, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cu_.cuMemAddressReserve(&address, kGranule, 0, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(cu_.cuMemSetAccess(address, kGranule, &access, 1), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cu_.cuMemMap(address, kGranule, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(cu_.cuMemMap(address, kGranule, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cu_.cuMemSetAccess(address, kGranule, &access, 1), CUDA_SUCCESS);
  auto* word = reinterpret_cast<std::uint32_t*>(address);
  EXPECT_NE(*word, 0u) << "new memory must not look initialised";
  *word = 17;
  EXPECT_EQ(cu_.cuMemAddressFree(address, kGranule), CUDA_ERROR_INVALID_VALUE);  // mapped
  ASSERT_EQ(cu_.cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cu_.cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);  // once
  EXPECT_EQ(*word, 17u) << "the mapping keeps the memory";
  ASSERT_EQ(cu_.cuMemUnmap(address, kGranule), CUDA_SUCCESS);
  EXPECT_EQ(cu_.cuMemUnmap(address, kGranule), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cu_.cuMemAddressFree(address, kGranule), CUDA_SUCCESS);
  EXPECT_EQ(cu_.cuMemAddressFree(address, kGranule), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Rules, ExportedMemoryIsTheSameMemory) {
  const CUmemAllocationProp properties = on_device(0);
  std::array<CUmemGenericAllocationHandle, 2> handles{};
  std::array<CUdeviceptr, 2> addresses{};
  ASSERT_EQ(cu_.cuMemCreate(&handles[0], kGranule, &properties, 0), CUDA_SUCCESS);
  int descriptor = -1;
  ASSERT_EQ(cu_.cuMemExportToShareableHandle(&descriptor, handles[0],
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_SUCCESS);
  ASSERT_EQ(cu_.cuMemImportFromShareableHandle(
                &handles[1], reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            CUDA_SUCCESS);
  close(descriptor);
  for (int i = 0; i < 2; ++i) {
    const CUmemAccessDesc access = access_of(i);
    must(cu_.cuMemAddressReserve(&addresses[i], kGranule, 0, 0, 0), "cuMemAddressReserve");
    must(cu_.cuMemMap(addresses[i], kGranule, 0, handles[i], 0), "cuMemMap");
    must(cu_.cuMemSetAccess(addresses[i], kGranule, &access, 1), "cuMemSetAccess");
  }
  *reinterpret_cast<volatile int*>(addresses[0]) = 4711;
  EXPECT_EQ(*reinterpret_cast<volatile int*>(addresses[1]), 4711);
  for (int i = 0; i < 2; ++i) {
    must(cu_.cuMemUnmap(addresses[i], kGranule), "cuMemUnmap");
    must(cu_.cuMemAddressFree(addresses[i], kGranule), "cuMemAddressFree");
    must(cu_.cuMemRelease(handles[i]), "cuMemRelease");
  }
  const int other = memfd_create("not the driver's", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(other, kGranule), 0);
  EXPECT_EQ(cu_.cuMemImportFromShareableHandle(
                &handles[1], reinterpret_cast<void*>(static_cast<std::intptr_t>(other)),
                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            CUDA_ERROR_INVALID_VALUE);
  close(other);
}

TEST_F(Rules, HostMemoryIsRegisteredOnce) {
  const User user(0);
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CUdeviceptr address = 0;
  EXPECT_EQ(cu_.cuMemHostGetDevicePointer(&address, page, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu_.cuMemHostRegister(static_cast<char*>(page) + 1, 4095, CU_MEMHOSTREGISTER_DEVICEMAP),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu_.cuMemHostRegister(page, 4096, CU_MEMHOSTREGISTER_DEVICEMAP), CUDA_SUCCESS);
  EXPECT_EQ(cu_.cuMemHostRegister(page, 4096, CU_MEMHOSTREGISTER_DEVICEMAP),
            CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(cu_.cuMemHostGetDevicePointer(&address, page, 0), CUDA_SUCCESS);
  EXPECT_EQ(cu_.cuMemHostUnregister(page), CUDA_SUCCESS);
  EXPECT_EQ(cu_.cuMemHostUnregister(page), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  munmap(page, 4096);
}

TEST_F(Rules, CopiesAndEventsFollowTheStreams) {
  const User user(0);
  const CUstream first = user.create_stream();
  const CUstream second = user.create_stream();
  CUdeviceptr memory = 0;
  CUevent event = nullptr;
  ASSERT_EQ(cu_.cuMemAlloc(&memory, 4096), CUDA_SUCCESS);
  ASSERT_EQ(cu_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  std::array<std::uint32_t, 1024> seen{};
  for (std::uint32_t round = 1; round <= 100; ++round) {
    must(cu_.cuMemsetD32Async(memory, round, seen.size(), first), "cuMemsetD32Async");
    must(cu_.cuEventRecord(event, first), "cuEventRecord");
    must(cu_.cuStreamWaitEvent(second, event, 0), "cuStreamWaitEvent");
    must(cu_.cuMemcpyDtoHAsync(seen.data(), memory, sizeof(seen), second), "cuMemcpyDtoHAsync");
    user.synchronize(second);
    ASSERT_EQ(seen[0], round);
    ASSERT_EQ(seen[1023], round);
  }
  EXPECT_EQ(cu_.cuMemcpyHtoDAsync(memory, seen.data(), 4100, first), CUDA_ERROR_INVALID_VALUE);
  user.destroy_stream(first);
  user.destroy_stream(second);
  EXPECT_EQ(cu_.cuStreamSynchronize(first), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cu_.cuStreamDestroy(first), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cu_.cuEventDestroy(event), CUDA_SUCCESS);
  EXPECT_EQ(cu_.cuEventRecord(event, nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cu_.cuMemFree(memory), CUDA_SUCCESS);
  EXPECT_EQ(cu_.cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Rules, TheNullStreamOrdersBlockingStreams) {
  const User user(0);
  const CUstream blocking = user.create_stream(CU_STREAM_DEFAULT);
  CUdeviceptr memory = 0;
  ASSERT_EQ(cu_.cuMemAlloc(&memory, 64), CUDA_SUCCESS);
  std::uint32_t seen = 0;
  for (std::uint32_t round = 1; round <= 100; ++round) {
    must(cu_.cuMemsetD32Async(memory, round, 16, nullptr), "cuMemsetD32Async");
    must(cu_.cuMemcpyDtoHAsync(&seen, memory, 4, blocking), "cuMemcpyDtoHAsync");
    user.synchronize(blocking);
    ASSERT_EQ(seen, round);
  }
  user.begin_capture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(cu_.cuMemsetD32Async(memory, 0, 16, nullptr), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CUgraph graph = nullptr;
  EXPECT_EQ(cu_.cuStreamEndCapture(blocking, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(cu_.cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  user.destroy_stream(blocking);
  must(cu_.cuMemFree(memory), "cuMemFree");
}

/// Whether a capture in `mode` on this thread survives `call` on this one or another.
bool survives(CUstreamCaptureMode mode, bool on_other_thread, const std::function<void()>& call) {
  const User user(0);
  const CUstream stream = user.create_stream();
  user.begin_capture(stream, mode);
  if (on_other_thread) {
    std::thread([&] {
      const User other(0);
      call();
    }).join();
  } else {
    call();
  }
  CUgraph graph = nullptr;
  const CUresult ended = api().cuStreamEndCapture(stream, &graph);
  if (ended == CUDA_SUCCESS) must(api().cuGraphDestroy(graph), "cuGraphDestroy");
  user.destroy_stream(stream);
  return ended == CUDA_SUCCESS;
}

TEST_F(Rules, UnsafeCallsBreakCaptures) {
  const auto allocate = [] {
    CUdeviceptr memory = 0;
    if (api().cuMemAlloc(&memory, 64) == CUDA_SUCCESS) must(api().cuMemFree(memory), "cuMemFree");
  };
  const auto allocate_relaxed = [&] {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    must(api().cuThreadExchangeStreamCaptureMode(&mode), "cuThreadExchangeStreamCaptureMode");
    EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    allocate();
    must(api().cuThreadExchangeStreamCaptureMode(&mode), "cuThreadExchangeStreamCaptureMode");
  };
  EXPECT_FALSE(survives(CU_STREAM_CAPTURE_MODE_GLOBAL, false, allocate));
  EXPECT_FALSE(survives(CU_STREAM_CAPTURE_MODE_GLOBAL, true, allocate));
  EXPECT_FALSE(survives(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, false, allocate));
  EXPECT_TRUE(survives(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, true, allocate));
  EXPECT_TRUE(survives(CU_STREAM_CAPTURE_MODE_RELAXED, false, allocate));
  EXPECT_TRUE(survives(CU_STREAM_CAPTURE_MODE_GLOBAL, false, allocate_relaxed));
}

TEST_F(Rules, ACapturingStreamIsNotWaitedFor) {
  const User user(0);
  const CUstream stream = user.create_stream();
  CUgraph graph = nullptr;
  const auto identify = [](CUstream asked) {
    unsigned long long id = 0;
    return api().cuStreamGetId(asked, &id);
  };
  for (const auto& call : {std::function<CUresult(CUstream)>(api().cuStreamSynchronize),
                           std::function<CUresult(CUstream)>(identify)}) {
    user.begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    EXPECT_EQ(call(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_EQ(cu_.cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
  EXPECT_EQ(cu_.cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
  user.destroy_stream(stream);
}

TEST_F(Rules, StreamsOfACaptureAreJoined) {
  const User user(0);
  const CUstream first = user.create_stream();
  const CUstream second = user.create_stream();
  CUevent event = nullptr;
  CUevent other = nullptr;
  CUgraph graph = nullptr;
  must(cu_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  must(cu_.cuEventCreate(&other, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  for (const bool is_joined : {true, false}) {
    user.begin_capture(first, CU_STREAM_CAPTURE_MODE_GLOBAL);
    must(cu_.cuEventRecord(event, first), "cuEventRecord");
    must(cu_.cuStreamWaitEvent(second, event, 0), "cuStreamWaitEvent");
    EXPECT_EQ(cu_.cuStreamEndCapture(second, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    must(cu_.cuEventRecord(other, second), "cuEventRecord");
    if (is_joined) must(cu_.cuStreamWaitEvent(first, other, 0), "cuStreamWaitEvent");
    EXPECT_EQ(cu_.cuStreamEndCapture(first, &graph),
              is_joined ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    if (is_joined) must(cu_.cuGraphDestroy(graph), "cuGraphDestroy");
  }
  must(cu_.cuEventRecord(event, first), "cuEventRecord");  // outside of any capture
  user.begin_capture(second, CU_STREAM_CAPTURE_MODE_GLOBAL);
  EXPECT_EQ(cu_.cuStreamWaitEvent(second, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  EXPECT_EQ(cu_.cuStreamEndCapture(second, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  must(cu_.cuEventDestroy(event), "cuEventDestroy");
  must(cu_.cuEventDestroy(other), "cuEventDestroy");
  user.destroy_stream(first);
  user.destroy_stream(second);
}

/// A launch of the self-test with `args` as its arguments.
CUresult launch(const User& user, unsigned grid, unsigned block, const void* args) {
  static const char image[] = "any";
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  must(api().cuModuleLoadData(&module, image), "cuModuleLoadData");
  CUfunction missing = nullptr;
  EXPECT_EQ(api().cuModuleGetFunction(&missing, module, "no_such_kernel"), CUDA_ERROR_NOT_FOUND);
  must(api().cuModuleGetFunction(&function, module, "peer_self_test"), "cuModuleGetFunction");
  const CUstream stream = user.create_stream();
  CUlaunchConfig config{};
  config.gridDimX = grid;
  config.blockDimX = block;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  void* parameters[] = {const_cast<void*>(args)};
  const CUresult result = api().cuLaunchKernelEx(&config, function, parameters, nullptr);
  user.destroy_stream(stream);
  must(api().cuModuleUnload(module), "cuModuleUnload");
  EXPECT_EQ(api().cuLaunchKernelEx(&config, function, parameters, nullptr),
            CUDA_ERROR_INVALID_HANDLE);
  return result;
}

TEST_F(Rules, LaunchesBeyondTheChipAndTrapsAreRefused) {
  const User user(0);
  std::array<std::uintptr_t, 128> args{};
  EXPECT_EQ(launch(user, 5, 64, args.data()), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(user, 1, 256, args.data()), CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr reserved = 0;
  must(cu_.cuMemAddressReserve(&reserved, kGranule, 0, 0, 0), "cuMemAddressReserve");
  args[3] = reserved + 100;  // nothing is mapped there
  EXPECT_EQ(launch(user, 1, 64, args.data()), CUDA_ERROR_ILLEGAL_ADDRESS);
  must(cu_.cuMemAddressFree(reserved, kGranule), "cuMemAddressFree");
}

TEST_F(Rules, CallsFailOnDemandAndReleasesReleaseAllTheSame) {
  const User user(0);
  CUdeviceptr memory = 0;
  scripted_driver().set_failure("cuMemAlloc", 2, CUDA_ERROR_OUT_OF_MEMORY, -1);
  EXPECT_EQ(cu_.cuMemAlloc(&memory, 64), CUDA_SUCCESS);
  EXPECT_FALSE(scripted_driver().has_failed());
  CUdeviceptr none = 0;
  EXPECT_EQ(cu_.cuMemAlloc(&none, 64), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_TRUE(scripted_driver().has_failed());
  scripted_driver().set_failure("cuMemFree", 1, CUDA_ERROR_UNKNOWN, -1);
  EXPECT_EQ(cu_.cuMemFree(memory), CUDA_ERROR_UNKNOWN);
  scripted_driver().set_failure(nullptr, 0, 0, -1);
}

}  // namespace
}  // namespace lamppost::test
