// The machine as one plain value. Read once by whoever wants it (lamppost-info); nothing is cached,
// nothing is changed. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lamppost {

struct NumaNode {
  int os_index = -1;  // -1: the machine has none, or hwloc does not know it
  std::uint64_t memory_bytes = 0;
  int cpu_count = 0;  // logical CPUs beside it; 0: memory only
};

struct Topology {
  std::string host_name;
  int core_count = 0;         // 0: unknown
  int cpu_count = 0;          // logical CPUs; 0: unknown
  int allowed_cpu_count = 0;  // logical CPUs that this process may run on; 0: unknown
  std::vector<NumaNode> numa_nodes;
  bool is_this_machine = true;  // false: hwloc was told to describe another (HWLOC_XMLFILE, ...)
  std::string error;            // why hwloc's part is missing; empty if it is there
};

/// Never fails: see Topology::error. Blocks for some milliseconds while hwloc looks around.
Topology read_topology();

}  // namespace lamppost
