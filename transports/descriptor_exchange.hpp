// Passing one file descriptor from every rank to every other, over Unix datagram sockets
// (SCM_RIGHTS; unix(7)). For ranks of one node in different processes.
#pragma once

#include <lamppost/status.hpp>

#include "base/file_descriptor.hpp"
#include "bootstrap/bootstrap.hpp"

#include <vector>

namespace lamppost {

/// Sends `mine` to every rank r with wanted[r] and receives theirs; result[r] is open exactly where
/// wanted[r]. `wanted` must be symmetric: a wants b's if b wants a's. Collective, blocks (the
/// bootstrap's deadline); every rank returns the same verdict. `mine` stays the caller's.
/// Errors name the ranks whose descriptor did not come, and the likely cause.
Result<std::vector<FileDescriptor>> exchange_descriptors(Bootstrap& bootstrap, int mine,
                                                         const std::vector<bool>& wanted);

}  // namespace lamppost
