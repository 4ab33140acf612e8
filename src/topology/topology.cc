#include "topology/topology.hpp"

#include <hwloc.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace lamppost {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<hwloc_topology, DestroyTopology>;

/// A loaded topology, or null and *error.
HwlocTopology load(std::string* error) {
  const auto failed = [error](const char* step) {
    *error = std::string("hwloc: ") + step + ": " + std::strerror(errno);
    return HwlocTopology();
  };
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return failed("init");
  HwlocTopology topology(raw);
  // CPUs and nodes outside this process's cgroup are part of the machine.
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  for (const char* component : {"cuda", "nvml", "rsmi", "opencl", "levelzero", "gl"}) {
    hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  }
  if (hwloc_topology_load(raw) != 0) return failed("load");
  return topology;
}

int count(hwloc_topology_t topology, hwloc_obj_type_t type) {
  // -1: objects of this type at several depths.
  return std::max(hwloc_get_nbobjs_by_type(topology, type), 0);
}

std::vector<NumaNode> numa_nodes(hwloc_topology_t topology) {
  std::vector<NumaNode> nodes;
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, object)) != nullptr) {
    NumaNode node;
    node.os_index = static_cast<int>(object->os_index);
    if (object->attr != nullptr) node.memory_bytes = object->attr->numanode.local_memory;
    if (object->cpuset != nullptr)
      node.cpu_count = std::max(hwloc_bitmap_weight(object->cpuset), 0);
    nodes.push_back(node);
  }
  return nodes;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

/// Asked of the kernel, not of hwloc: it is about this process, whatever machine hwloc describes.
int allowed_cpu_count() {
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(cpus));
    if (set == nullptr) return 0;
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(cpus));
    CPU_ZERO_S(bytes, set);
    const int result = sched_getaffinity(0, bytes, set);
    const int allowed = result == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (result == 0) return allowed;
    if (errno != EINVAL) return 0;  // EINVAL: the kernel's mask is larger
  }
  return 0;
}

}  // namespace

Topology read_topology() {
  Topology topology;
  topology.host_name = host_name();
  topology.allowed_cpu_count = allowed_cpu_count();
  const HwlocTopology machine = load(&topology.error);
  if (machine == nullptr) {
    topology.cpu_count = static_cast<int>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 0L));
    return topology;
  }
  topology.core_count = count(machine.get(), HWLOC_OBJ_CORE);
  topology.cpu_count = count(machine.get(), HWLOC_OBJ_PU);
  topology.numa_nodes = numa_nodes(machine.get());
  topology.is_this_machine = hwloc_topology_is_thissystem(machine.get()) != 0;
  return topology;
}

}  // namespace lamppost
