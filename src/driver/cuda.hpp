// The driver of the CUDA backend, over the CUDA Driver API.
#pragma once

#include "driver/driver.hpp"

namespace lamppost {

struct CudaImage;

/// Opens a device for one rank: its primary context and, once a process, its kernels. `ordinal`:
/// the device, or -1: the device of this thread's current context, 0 if there is none. Blocks while a
/// driver, a context or kernels are loaded. Errors: INVALID_ARGUMENT, NOT_SUPPORTED (no driver; the
/// device lacks something; no kernels for it in this build), DRIVER.
Result<std::unique_ptr<Driver>> make_cuda_driver(int ordinal, const CudaImage& image);

/// Devices that this process sees, or why there are none. Starts the CUDA driver.
Result<int> count_cuda_devices();

}  // namespace lamppost
