#include "transports/vmm/vmm_transport.hpp"

#include <algorithm>

#include "base/process_identity.hpp"
#include "transports/descriptor_exchange.hpp"

namespace lamppost {
namespace {

/// What a rank tells the others of its workspace. `mapping` is an address in the rank's own
/// process: ranks of that process copy the shared_ptr there, between two votes.
struct Offer {
  ProcessIdentity process;
  std::uint64_t bytes;
  const std::shared_ptr<SharedMapping>* mapping;
};

/// Which ranks live in another process than this one.
std::vector<bool> find_remote(const std::vector<Offer>& offers, int rank) {
  std::vector<bool> remote(offers.size());
  for (std::size_t r = 0; r < offers.size(); ++r) {
    remote[r] = !(offers[r].process == offers[static_cast<std::size_t>(rank)].process);
  }
  return remote;
}

Status map_peers(Driver& driver, const std::vector<Offer>& offers,
                 const std::vector<FileDescriptor>& descriptors, PeerMemory& memory) {
  for (std::size_t r = 0; r < offers.size(); ++r) {
    if (descriptors.empty() || !descriptors[r].is_open()) {
      memory.mappings[r] = *offers[r].mapping;
      Status reached = driver.reach(*memory.mappings[r]);
      if (!reached.ok()) return reached;
    } else {
      auto mapped = driver.import_descriptor(descriptors[r].get(), offers[r].bytes);
      if (!mapped.ok()) return mapped.status();
      memory.mappings[r] = mapped.take();
    }
    memory.table.ring[memory.table.place_of(static_cast<std::uint32_t>(r))] =
        memory.mappings[r]->address();
  }
  return {};
}

class VmmTransport final : public Transport {
 public:
  Result<PeerMemory> connect(Bootstrap& bootstrap, Driver& driver,
                             std::shared_ptr<SharedMapping> own,
                             const PlantedFault& fault) override {
    const Offer mine{process_identity(), own->bytes(), &own};
    std::vector<Offer> offers;
    Status status = all_gather_value(bootstrap, mine, offers, "exchange of memory offers");
    if (!status.ok()) return status;

    const std::vector<bool> remote = find_remote(offers, bootstrap.rank());
    const bool any_remote = std::any_of(offers.begin(), offers.end(), [&](const Offer& offer) {
      return !(offer.process == offers[0].process);
    });
    std::vector<FileDescriptor> descriptors;
    if (any_remote) {  // the same on all ranks
      Result<int> exported = fault.check(bootstrap.rank(), "export");
      if (exported.status().ok()) exported = driver.export_descriptor(*own);
      status = vote(bootstrap, exported.status(), "export memory");
      if (!status.ok()) return status;
      auto received = exchange_descriptors(bootstrap, {exported.value(), remote, fault});
      if (!received.ok()) return received.status();
      descriptors = received.take();
    }

    PeerMemory memory;
    memory.mappings.resize(offers.size());
    memory.table.rank = static_cast<std::uint32_t>(bootstrap.rank());
    memory.table.rank_count = static_cast<std::uint32_t>(offers.size());
    // After this vote every rank has its own reference, and `own` may go.
    Status mapped = fault.check(bootstrap.rank(), "import");
    if (mapped.ok()) mapped = map_peers(driver, offers, descriptors, memory);
    status = vote(bootstrap, mapped, "map peer memory");
    driver.close_export(*own);
    if (!status.ok()) return status;
    return memory;
  }
};

}  // namespace

std::unique_ptr<Transport> make_vmm_transport() { return std::make_unique<VmmTransport>(); }

}  // namespace lamppost
