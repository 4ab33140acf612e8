// main of the GPU test programs: points the test bodies at the CUDA backend, or skips (77) with the
// reason where there is no device. Ranks are threads that share device 0, or the first
// LAMPPOST_TEST_DEVICES devices.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "driver/cuda.hpp"
#include "driver/workbench.hpp"
#include "support/test_backend.hpp"

namespace {

constexpr int kSkipped = 77;

/// Before the driver starts. NVLink multicast stays off whatever the machine says; the ranks of one
/// device wait for each other, so each needs a hardware queue of its own.
void prepare_environment() {
  setenv("LAMPPOST_NVLS_ENABLE", "0", 1);
  setenv("NCCL_NVLS_ENABLE", "0", 1);
  setenv("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1", 1);
  setenv("NVSHMEM_DISABLE_NVLS", "1", 1);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

int wanted_devices(int present) {
  const char* text = std::getenv("LAMPPOST_TEST_DEVICES");
  const int wanted = text != nullptr ? std::atoi(text) : 1;
  return wanted < 1 ? 1 : wanted < present ? wanted : present;
}

}  // namespace

int main(int argc, char** argv) {
  prepare_environment();
  // The parameter that stands for the product's own target; the others are the host's fault targets.
  testing::GTEST_FLAG(filter) = "-*/lanes64*:*/torn*:*/delayed*:*/skewed*";
  testing::InitGoogleTest(&argc, argv);
  const auto present = lamppost::count_cuda_devices();
  if (!present.ok()) {
    std::printf("skipped: %s\n", present.status().message().c_str());
    return kSkipped;
  }
  lamppost::test::TestBackend& backend = lamppost::test::test_backend();
  backend.backend = LP_BACKEND_CUDA;
  backend.has_exact_rsqrt = false;
  for (int device = 0; device < wanted_devices(present.value()); ++device) {
    auto workbench = lamppost::make_cuda_workbench(device);
    if (!workbench.ok()) {
      std::printf("failed: %s\n", workbench.status().message().c_str());
      return 1;
    }
    backend.devices.push_back(workbench.take());
  }
  return RUN_ALL_TESTS();
}
