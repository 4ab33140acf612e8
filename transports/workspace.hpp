// Workspace set-up: the order in which a communicator's memory comes to life. Allocate, fill, device
// synchronisation, then exchange and mapping (Transport): a peer can only reach memory that is ready,
// and nothing is initialised again afterwards. After every fallible step all ranks vote.
#pragma once

#include "transports/transport.hpp"

namespace lamppost {

struct Workspace {
  device::Layout layout{};
  PeerMemory peers;
};

/// Collective, blocks. All ranks succeed, or all fail with the same error naming the first rank and
/// step that failed.
Result<Workspace> set_up_workspace(Bootstrap& bootstrap, Driver& driver, Transport& transport,
                                   const device::Layout& layout, const PlantedFault& fault);

/// LP_ERROR_CORRUPT naming the region and rank if a guard word of this rank's workspace has changed.
/// Local; blocks for a device read.
Status check_guards(Driver& driver, const Workspace& workspace);

}  // namespace lamppost
