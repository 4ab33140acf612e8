// The second way of descriptor_exchange.hpp: every rank tells its process and descriptor numbers,
// and the others copy the descriptor out of that process (pidfd_open, pidfd_getfd; Linux 5.6).
// Needs the permission to trace the other process, and one PID namespace.
#pragma once

#include "transports/descriptor_exchange.hpp"

namespace lamppost {

/// Collective, blocks.
DescriptorOutcome exchange_by_pidfd(Bootstrap& bootstrap, const DescriptorRequest& request);

}  // namespace lamppost
