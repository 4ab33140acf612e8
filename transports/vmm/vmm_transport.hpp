// Transport by file descriptor: every rank exports its workspace as one and maps every peer's. Ranks
// of one process share one mapping (so that race checkers see one address); others get the
// descriptor.
#pragma once

#include "transports/transport.hpp"

namespace lamppost {

std::unique_ptr<Transport> make_vmm_transport();

}  // namespace lamppost
