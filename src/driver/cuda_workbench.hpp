// The CUDA backend's workbench. Included by workbench.cc only, in builds with CUDA.
#pragma once

#include "driver/workbench.hpp"

namespace lamppost {

/// On `device`; LP_DEFAULT: the device of the calling thread's current context, 0 without one.
Result<std::unique_ptr<Workbench>> make_cuda_workbench(int device);

/// 0 where the driver does not start.
int cuda_device_count();

}  // namespace lamppost
