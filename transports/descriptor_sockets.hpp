// The first way of descriptor_exchange.hpp: Unix datagram sockets with abstract names (SCM_RIGHTS;
// unix(7)), which need no folder and no permission, but one network namespace.
#pragma once

#include "transports/descriptor_exchange.hpp"

namespace lamppost {

/// Collective, blocks.
DescriptorOutcome exchange_by_sockets(Bootstrap& bootstrap, const DescriptorRequest& request);

}  // namespace lamppost
