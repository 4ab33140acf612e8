// Transport of the host backend: memfd memory, mapped by every peer. Ranks of one process share one
// mapping (so that race checkers see one address); others get the descriptor.
#pragma once

#include "transports/transport.hpp"

namespace lamppost {

std::unique_ptr<Transport> make_shm_transport();

}  // namespace lamppost
