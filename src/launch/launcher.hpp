// The launcher: Choice -> LaunchSpec and Args. Cuts a call into launches, chooses grid and block as a
// pure function of agreed values and collective arguments, fills the kernel's arguments. No
// allocation, no lock; one communicator's calls are serialised by the caller.
#pragma once

#include "base/environment.hpp"
#include "collectives/probe/args.hpp"
#include "driver/driver.hpp"
#include "lamppost/device/call.hpp"
#include "select/selector.hpp"

namespace lamppost {

/// Where a call is enqueued.
struct LaunchPlace {
  StreamHandle stream;
  bool is_captured;  // into a graph: it runs later, any number of times
};

class Launcher {
 public:
  /// `page` is the control page as kernels address it. Everything referred to outlives the launcher.
  Launcher(Driver& driver, const AgreedFacts& facts, const device::PeerTable& peers,
           device::ControlPage* page, const PlantedFault& fault);

  /// Enqueues the call. After an error some launches may have been enqueued.
  Status launch(const CollectiveCall& call, const Choice& choice, const LaunchPlace& place);

  /// Enqueues the self-test that ends creation.
  Status launch_self_test(std::uint32_t rounds, StreamHandle stream);

  /// Enqueues a probe (collectives/probe). INVALID_ARGUMENT for what its kernel could not do.
  Status launch_probe(const ProbeRequest& request, const LaunchPlace& place);

  /// Of the newest eager launch: it has ended when the word at Layout::kFinishedTicket is this or later
  /// (by distance). 0: there was none.
  std::uint32_t last_ticket() const { return last_ticket_; }

 private:
  /// One launch's share of a call: whole rows of a fused one, elements of a plain one.
  struct Part {
    KernelId kernel;
    std::uint64_t first_element;
    std::uint64_t element_count;
    std::uint64_t rows;
    std::uint32_t row_elements;
    std::uint32_t extent;  // tokens or elements, for headers
  };
  std::uint32_t most_threads(const CollectiveCall& call, KernelId kernel) const;
  Part part_for(KernelId kernel, const CollectiveCall& call, std::uint64_t first,
                std::uint64_t extent) const;
  Part part_of(const CollectiveCall& call, const Choice& choice, std::uint64_t first,
               std::uint64_t extent) const;
  Status launch_part(const CollectiveCall& call, const Choice& choice, const Part& part,
                     const LaunchPlace& place);
  device::CallArgs call_args(const LaunchPlace& place) const;
  /// Launches, and counts an eager launch that went well.
  Status launch(const LaunchPlace& place, const LaunchSpec& spec);

  Driver& driver_;
  AgreedFacts facts_;
  device::PeerTable peers_;
  device::ControlPage* page_;
  device::FaultArgs fault_{};
  std::uint32_t last_ticket_ = 0;
  std::uint32_t next_flag_ = 1;  // of the self-test cells; the same on all ranks
};

}  // namespace lamppost
