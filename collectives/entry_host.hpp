// The host target's kernels, in the order of kernels.def. The library has the plain target; the test
// suite compiles entry_host.cc again for each fault target.
#pragma once

#include "lamppost/device/host.hpp"

namespace lamppost {

/// kKernelCount entries, for the life of the process.
const device::HostKernel* host_kernels();

}  // namespace lamppost
