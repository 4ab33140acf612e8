#include "api/backend.hpp"

#include <fmt/core.h>

#include <cstdlib>
#include <cstring>
#include <lamppost/types.hpp>

#include "collectives/entry_host.hpp"
#include "collectives/kernel_table.hpp"
#include "driver/host.hpp"
#include "fibers/scheduler.hpp"

#ifdef LAMPPOST_HAVE_CUDA
#include "collectives/entry_cuda_image.hpp"
#include "driver/cuda.hpp"
#include "driver/cuda_device.hpp"
#endif

namespace lamppost {
namespace {

Result<std::unique_ptr<Driver>> make_host(const CreationOptions& options) {
  const Result<std::optional<std::uint64_t>> seed = integer_from_environment("LAMPPOST_HOST_SEED");
  if (!seed.ok()) return seed.status();
  if (seed.value()) fibers::set_host_seed(*seed.value());
  const device::HostKernel* kernels =
      options.host_kernels != nullptr ? options.host_kernels : host_kernels();
  return make_host_driver(kernels, kKernelCount);
}

lpBackend_t first_with_a_device() {
#ifdef LAMPPOST_HAVE_CUDA
  if (count_cuda_devices().ok()) return LP_BACKEND_CUDA;
#endif
  return LP_BACKEND_HOST;
}

}  // namespace

Result<lpBackend_t> automatic_backend() {
  const char* text = std::getenv("LAMPPOST_BACKEND");
  if (text == nullptr || *text == '\0') return first_with_a_device();
  for (lpBackend_t backend : {LP_BACKEND_HOST, LP_BACKEND_CUDA, LP_BACKEND_HIP}) {
    if (std::strcmp(text, backend_name(backend)) == 0) return backend;
  }
  return Status(LP_ERROR_INVALID_ARGUMENT,
                fmt::format("LAMPPOST_BACKEND is \"{}\": must be host, cuda or hip", text));
}

#ifdef LAMPPOST_HAVE_CUDA

Result<std::unique_ptr<Driver>> make_driver(const ResolvedConfig& config,
                                            const CreationOptions& options) {
  if (config.backend == LP_BACKEND_HOST) return make_host(options);
  if (config.backend == LP_BACKEND_CUDA) {
    const EmbeddedKernels kernels = embedded_cuda_kernels();
    return make_cuda_driver(config.device,
                            {kernels.image, kernels.symbols, kKernelCount, kernels.chips});
  }
  return Status(LP_ERROR_NOT_SUPPORTED,
                fmt::format("this build has no {} backend", backend_name(config.backend)));
}

#else

Result<std::unique_ptr<Driver>> make_driver(const ResolvedConfig& config,
                                            const CreationOptions& options) {
  if (config.backend == LP_BACKEND_HOST) return make_host(options);
  return Status(LP_ERROR_NOT_SUPPORTED,
                fmt::format("this build has no {} backend", backend_name(config.backend)));
}

#endif

}  // namespace lamppost
