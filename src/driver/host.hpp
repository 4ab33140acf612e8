// HostDriver: the host backend. Shared memory is memfd; streams are threads. Streams belong to the
// process, not to a driver object, so that they may outlive a communicator.
#pragma once

#include "driver/driver.hpp"
#include "driver/host_stream.hpp"

namespace lamppost {

/// Launches kernels of `kernels` (kernels.def order, `kernel_count` entries).
std::unique_ptr<Driver> make_host_driver(const device::HostKernel* kernels,
                                         std::uint32_t kernel_count);

/// The host stream behind a handle (lpStream_t), or null.
HostStream* find_host_stream(StreamHandle stream);
/// The error for a handle that is no live host stream.
Status not_a_host_stream(StreamHandle stream);
/// Blocks until the stream is empty. INVALID_HANDLE if it is not live.
Status destroy_host_stream(StreamHandle stream);

}  // namespace lamppost
