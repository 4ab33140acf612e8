// What a transport does: make every rank's workspace visible to every other. Runs once, while a
// communicator is created; the call path sees only the PeerTable.
#pragma once

#include <lamppost/status.hpp>
#include <memory>
#include <vector>

#include "base/environment.hpp"
#include "bootstrap/bootstrap.hpp"
#include "driver/driver.hpp"
#include "lamppost/device/peers.hpp"

namespace lamppost {

/// Where every rank's workspace is, and what keeps it mapped.
struct PeerMemory {
  device::PeerTable table{};
  std::vector<std::shared_ptr<SharedMapping>> mappings;  // by rank
};

class Transport {
 public:
  virtual ~Transport() = default;
  /// Exports `own`, imports every peer's. Collective, blocks (the bootstrap's deadline a step); all
  /// ranks succeed or all fail, with the same error.
  virtual Result<PeerMemory> connect(Bootstrap& bootstrap, Driver& driver,
                                     std::shared_ptr<SharedMapping> own,
                                     const PlantedFault& fault) = 0;
};

}  // namespace lamppost
