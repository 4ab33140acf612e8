// The CUDA backend under other settings of the scripted driver and of the operator, each in a process of
// its own: multicast, early launch, an image that does not fit, host memory at other addresses.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>

#include "health/health.hpp"
#include "scripted_driver/ranks.hpp"

namespace lamppost::test {
namespace {

// As if nobody had said which backend: lamppost_test() says the host's for every test.
const Environment kAnyBackend = {{"LAMPPOST_BACKEND", ""}};
const Environment kPageable = {{"LAMPPOST_SCRIPTED_PAGEABLE", "1"}};  // tensors are ordinary memory

/// Creates, calls once, destroys; what went wrong, or nothing.
std::string live(const WorldOptions& options) {
  const World world(options);
  for (const Status& status : world.statuses()) {
    if (!status.ok()) return status.message();
  }
  Random random(7);
  FusedCase fused;
  fused.tokens = 3;
  run_and_check(world, options, *make_fused_call(world.size(), fused, random));
  return testing::Test::HasFailure() ? "wrong results" : "";
}

std::vector<CallRecord> launches() {
  std::vector<CallRecord> found;
  for (const CallRecord& call : scripted_calls()) {
    if (call.name == "cuLaunchKernelEx") found.push_back(call);
  }
  return found;
}

/// Whether all launches were early, or none.
std::string expect_launches(const char* early) {
  if (launches().empty()) return "nothing was launched";
  for (const CallRecord& call : launches()) {
    if (call.detail.find(early) == std::string::npos) return call.detail;
  }
  return "";
}

constexpr const char* kSwitches[] = {"LAMPPOST_NVLS_ENABLE", "NCCL_NVLS_ENABLE",
                                     "NVSHMEM_DISABLE_NVLS", "TORCH_SYMM_MEM_DISABLE_MULTICAST"};

TEST(Settings, MulticastIsNeverTouched) {
  const std::string said = in_child(
      {{"LAMPPOST_SCRIPTED_PAGEABLE", "1"},
       {"LAMPPOST_SCRIPTED_DEVICES", "3"},
       {"LAMPPOST_SCRIPTED_MULTICAST", "1"}}, [] {
        if (std::string reason = why_switches_stay(); !reason.empty()) return "skip: " + reason;
        for (const char* name : kSwitches) unsetenv(name);
        WorldOptions options;
        options.devices = {0, 1, 2};
        if (std::string wrong = live(options); !wrong.empty()) return wrong;
        if (count_calls("cuLaunchKernelEx") == 0) return std::string("nothing was recorded");
        return count_calls("cuMulticast") == 0 ? std::string() : std::string("it was");
      });
  if (said.starts_with("skip: ")) GTEST_SKIP() << said;
  EXPECT_EQ(said, "");
}

TEST(Settings, NoEarlyLaunchUnlessAskedFor) {
  EXPECT_EQ(in_child(kPageable, [] {
              const std::string wrong = live({});
              return wrong.empty() ? expect_launches("early=0") : wrong;
            }),
            "");
}

TEST(Settings, EarlyLaunchWhereTheImageWaitsForIt) {
  WorldOptions options;
  options.early_launch = true;
  EXPECT_EQ(in_child({{"LAMPPOST_SCRIPTED_PAGEABLE", "1"},
                      {"LAMPPOST_SCRIPTED_PTX_VERSION", "90"}},
                     [&] {
                       const std::string wrong = live(options);
                       if (!wrong.empty()) return wrong;
                       bool has_early = false;
                       for (const CallRecord& call : launches()) {
                         has_early |= call.detail.ends_with("early=1");
                       }
                       return has_early ? std::string() : std::string("no launch was early");
                     }),
            "");
  EXPECT_EQ(in_child({{"LAMPPOST_SCRIPTED_PAGEABLE", "1"},
                      {"LAMPPOST_SCRIPTED_PTX_VERSION", "80"}},
                     [&] {
                       const std::string wrong = live(options);
                       return wrong.empty() ? expect_launches("early=0") : wrong;
                     }),
            "");
}

TEST(Settings, AnImageForAnotherChip) {
  const std::string said = in_child({{"LAMPPOST_SCRIPTED_NO_IMAGE", "1"}}, [] { return live({}); });
  EXPECT_NE(said.find("LAMPPOST_CUDA_CHIPS"), std::string::npos) << said;
  EXPECT_NE(said.find("Scripted GPU 0"), std::string::npos) << said;
}

TEST(Settings, HostMemoryAtADeviceAddressOfItsOwn) {
  EXPECT_EQ(in_child({{"LAMPPOST_SCRIPTED_PAGEABLE", "1"}, {"LAMPPOST_SCRIPTED_HOST_POINTER", "0"}}, [] { return live({}); }), "");
}

TEST(Settings, OrdinaryMemoryIsRefusedWhereTheDeviceCannotReachIt) {
  EXPECT_EQ(in_child({},
                     [] {
                       const World world({});
                       std::vector<float> data(8);
                       const lpResult_t result = lpAllReduce(data.data(), data.data(), 8, LP_FLOAT32,
                                                             LP_SUM, world[0], nullptr);
                       const std::string text = lpGetLastError(world[0]);
                       const bool is_named = text.find("in is 0x") != std::string::npos;
                       return result == LP_ERROR_INVALID_ARGUMENT && is_named ? "" : text + "?";
                     }),
            "");
}

TEST(Settings, NoDevice) {
  const std::string said = in_child({{"LAMPPOST_SCRIPTED_DEVICES", "0"}}, [] { return live({}); });
  EXPECT_NE(said.find("cuInit"), std::string::npos) << said;
  EXPECT_NE(said.find("CUDA_ERROR_NO_DEVICE"), std::string::npos) << said;
  // AUTO goes on with the host backend.
  EXPECT_EQ(in_child({{"LAMPPOST_BACKEND", ""}, {"LAMPPOST_SCRIPTED_DEVICES", "0"}},
                     [] {
                       lpComm_t comm = nullptr;
                       lpBackend_t backend = LP_BACKEND_AUTO;
                       if (lpCommInitAll(&comm, 1, nullptr, nullptr) != LP_SUCCESS) {
                         return std::string(lpGetLastError(nullptr));
                       }
                       lpCommGetBackend(comm, &backend);
                       lpCommDestroy(comm);
                       return std::string(backend == LP_BACKEND_HOST ? "" : "not the host backend");
                     }),
            "");
}

TEST(Settings, AutoTakesCuda) {
  EXPECT_EQ(in_child(kAnyBackend,
                     [] {
                       lpComm_t comm = nullptr;
                       lpBackend_t backend = LP_BACKEND_AUTO;
                       if (lpCommInitAll(&comm, 1, nullptr, nullptr) != LP_SUCCESS) {
                         return std::string(lpGetLastError(nullptr));
                       }
                       lpCommGetBackend(comm, &backend);
                       lpCommDestroy(comm);
                       return std::string(backend == LP_BACKEND_CUDA ? "" : "not CUDA");
                     }),
            "");
}

TEST(Settings, AnErrorOfTheDriverIsNotTakenForOrdinaryMemory) {
  EXPECT_EQ(in_child({}, [] {
              OneRank rank;
              scripted_driver().set_failure("cuPointerGetAttribute", 1, CUDA_ERROR_ILLEGAL_ADDRESS, -1);
              const lpResult_t result = rank.call();
              const std::string text = lpGetLastError(rank.comm);
              const bool is_right = result == LP_ERROR_DRIVER &&
                                    text.find("CUDA_ERROR_ILLEGAL_ADDRESS") != std::string::npos;
              return is_right ? std::string() : text;
            }),
            "");
}

/// What three ranks on one device write to stderr while they are created.
std::string said_by_three_ranks(const char* queues) {
  return in_child({{"LAMPPOST_SCRIPTED_PAGEABLE", "1"}, {"CUDA_DEVICE_MAX_CONNECTIONS", queues}}, [] {
    std::FILE* file = std::tmpfile();
    const int terminal = dup(2);
    dup2(fileno(file), 2);
    WorldOptions options;
    options.devices = {0, 0, 0};
    options.allow_shared_device = true;
    const bool is_made = World(options).ok();
    dup2(terminal, 2);
    close(terminal);
    std::rewind(file);
    std::array<char, 1000> text{};
    (void)!std::fread(text.data(), 1, text.size() - 1, file);
    std::fclose(file);
    return is_made ? std::string(text.data()) : std::string("not created");
  });
}

TEST(Settings, TooFewHardwareQueuesForTheRanksOfADeviceAreToldOnce) {
  const std::string said = said_by_three_ranks("2");
  EXPECT_NE(said.find("3 ranks of this process share Scripted GPU 0"), std::string::npos) << said;
  EXPECT_NE(said.find("CUDA_DEVICE_MAX_CONNECTIONS=3"), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_EQ(said_by_three_ranks("3"), "");
}

/// A device that cannot be asked any more: what a kernel may still write is kept, and said to be.
std::string destroy_on_a_broken_device() {
  OneRank rank;
  if (rank.call() != LP_SUCCESS || lpCommSynchronize(rank.comm) != LP_SUCCESS) return "no call";
  const ScriptedHandles before = scripted_driver().open_handles();
  scripted_driver().set_failure("cuMemcpyDtoHAsync", 1, CUDA_ERROR_ILLEGAL_ADDRESS, -1);
  const lpResult_t result = lpCommDestroy(rank.comm);
  const std::string text = lpGetLastError(nullptr);
  const bool is_said = text.find("kept until the process ends") != std::string::npos &&
                       text.find("CUDA_ERROR_ILLEGAL_ADDRESS") != std::string::npos;
  if (result != LP_ERROR_DRIVER || !is_said) return std::to_string(result) + ": " + text;
  const ScriptedHandles after = scripted_driver().open_handles();
  return after == before ? "" : "open: " + describe(after) + "; before: " + describe(before);
}

bool is_a_control_page_mapped() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(kControlPageName) != std::string::npos) return true;
  }
  return false;
}

/// The thread cannot be given the context in which the control page is registered: it stays mapped.
std::string destroy_with_a_page_that_stays() {
  int looks = 0;  // at the thread's context, up to the one for the page
  for (const bool fails : {false, true}) {
    OneRank rank;
    if (!is_a_control_page_mapped()) return "no control page";
    scripted_driver().clear_calls();
    if (fails) {
      scripted_driver().set_failure("cuCtxGetCurrent", looks, CUDA_ERROR_CONTEXT_IS_DESTROYED, -1);
    }
    (void)lpCommDestroy(rank.comm);
    if (is_a_control_page_mapped() != fails) return fails ? "it was unmapped" : "it was kept";
    for (const CallRecord& call : scripted_calls()) {
      if (call.name == "cuMemHostUnregister") break;
      looks += call.name == "cuCtxGetCurrent" ? 1 : 0;
    }
  }
  return "";
}

TEST(Settings, WhatABrokenDeviceMayStillWriteIsKept) {
  EXPECT_EQ(in_child(kPageable, destroy_on_a_broken_device), "");
  EXPECT_EQ(in_child(kPageable, destroy_with_a_page_that_stays), "");
}

}  // namespace
}  // namespace lamppost::test
