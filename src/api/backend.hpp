// Backends as creation sees them: which one LP_BACKEND_AUTO means here, and a rank's driver.
#pragma once

#include "api/creation.hpp"

namespace lamppost {

/// What LAMPPOST_BACKEND says ("cuda", "host"); unset or empty: CUDA if this build has it and the machine
/// has a driver and a device, else the host. INVALID_ARGUMENT for another value.
Result<lpBackend_t> automatic_backend();

/// The driver of config.backend, or the reason why there is none.
Result<std::unique_ptr<Driver>> make_driver(const ResolvedConfig& config,
                                            const CreationOptions& options);

}  // namespace lamppost
