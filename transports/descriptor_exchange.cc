#include "transports/descriptor_exchange.hpp"

#include <fmt/core.h>

#include "transports/descriptor_pidfd.hpp"
#include "transports/descriptor_sockets.hpp"

namespace lamppost {

Result<std::vector<FileDescriptor>> exchange_descriptors(Bootstrap& bootstrap,
                                                         const DescriptorRequest& request) {
  DescriptorOutcome sockets = exchange_by_sockets(bootstrap, request);
  if (!sockets.bootstrap.ok()) return sockets.bootstrap;
  if (sockets.verdict.ok()) return std::move(sockets.received);
  // A rank that is late would be late again.
  if (sockets.verdict.code() == LP_ERROR_TIMEOUT) return sockets.verdict;

  DescriptorOutcome pidfds = exchange_by_pidfd(bootstrap, request);
  if (!pidfds.bootstrap.ok()) return pidfds.bootstrap;
  if (pidfds.verdict.ok()) return std::move(pidfds.received);
  return Status(
      sockets.verdict.code(),
      fmt::format("{}; without sockets, {}", sockets.verdict.message(), pidfds.verdict.message()));
}

}  // namespace lamppost
