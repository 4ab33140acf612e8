// Passing one file descriptor from every rank to every other, for ranks of one node in different
// processes. First choice: Unix sockets. Where any rank cannot use those, all take the second:
// pidfd_getfd.
#pragma once

#include <lamppost/status.hpp>
#include <vector>

#include "base/environment.hpp"
#include "base/file_descriptor.hpp"
#include "bootstrap/bootstrap.hpp"

namespace lamppost {

/// What a rank brings. Its parts must outlive the exchange.
struct DescriptorRequest {
  int mine;                         // to be passed on; stays the caller's
  const std::vector<bool>& wanted;  // by rank; symmetric: a wants b's if b wants a's
  const PlantedFault& fault;
};

/// How one way of exchange ended, the same on all ranks but for the descriptors.
struct DescriptorOutcome {
  Status bootstrap;  // an error: the ranks cannot go on together
  Status verdict;    // an error: this way failed, another may be tried
  std::vector<FileDescriptor> received;
};

/// Sends `mine` to every rank r with wanted[r] and receives theirs; result[r] is open exactly where
/// wanted[r]. Collective, blocks (the bootstrap's deadline a step); every rank returns the same
/// verdict. Errors name the rank and step that failed first, and the likely cause, for both ways.
Result<std::vector<FileDescriptor>> exchange_descriptors(Bootstrap& bootstrap,
                                                         const DescriptorRequest& request);

}  // namespace lamppost
