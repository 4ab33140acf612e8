// The host targets that every collective must be right on: the product's and the fault targets. The
// tables come from collectives/entry_host.cc, compiled once for each (tests/CMakeLists.txt).
#pragma once

#include "collectives/entry_host.hpp"

namespace lamppost {
const device::HostKernel* host_kernels_lanes64();
const device::HostKernel* host_kernels_torn();
const device::HostKernel* host_kernels_delayed();
const device::HostKernel* host_kernels_skewed();
}  // namespace lamppost

namespace lamppost::test {

struct HostVariant {
  const char* name;
  const device::HostKernel* (*kernels)();
};

inline constexpr HostVariant kHostVariants[] = {
    {"lanes32", host_kernels},         {"lanes64", host_kernels_lanes64},
    {"torn", host_kernels_torn},       {"delayed", host_kernels_delayed},
    {"skewed", host_kernels_skewed},
};

}  // namespace lamppost::test
