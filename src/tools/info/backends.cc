#include "tools/info/backends.hpp"

#include <fmt/core.h>
#include <lamppost/lamppost.h>

namespace lamppost::info {
namespace {

BackendFacts probe_host(const Topology& topology) {
  BackendFacts facts;
  facts.name = "host";
  facts.usable = true;
  facts.why = fmt::format("ranks run on CPU cores, up to {} a communicator", LP_MAX_WORLD_TODAY);
  facts.devices.push_back(fmt::format("the CPUs of this process ({})", topology.allowed_cpu_count));
  return facts;
}

BackendFacts probe_cuda(const Topology&) {
  return {"cuda", false, false, "not part of this version", {}};
}

BackendFacts probe_hip(const Topology&) {
  return {"hip", false, false, "not part of this version", {}};
}

using Probe = BackendFacts (*)(const Topology&);
constexpr Probe kProbes[] = {probe_cuda, probe_hip, probe_host};

}  // namespace

std::vector<BackendFacts> probe_backends(const Topology& topology) {
  std::vector<BackendFacts> backends;
  for (const Probe probe : kProbes) backends.push_back(probe(topology));
  return backends;
}

}  // namespace lamppost::info
