// What each backend says about itself: usable or not, why not, and its devices. One row of a table
// a backend; a new backend replaces its row's function.
#pragma once

#include <string>
#include <vector>

#include "topology/topology.hpp"

namespace lamppost::info {

struct BackendFacts {
  std::string name;  // "host"
  bool usable = false;
  bool has_multicast = false;        // could use NVLink multicast if no switch forbids it
  std::string why;                   // usable: what it runs on; otherwise why it is off
  std::vector<std::string> devices;  // one line each, by ordinal
};

/// All backends that Lamppost knows, in the order in which LP_BACKEND_AUTO tries them.
std::vector<BackendFacts> probe_backends(const Topology& topology);

}  // namespace lamppost::info
