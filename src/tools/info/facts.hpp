// Everything that lamppost-info tells, gathered first and printed after, as text or as JSON.
#pragma once

#include <string>
#include <vector>

#include "base/switches.hpp"
#include "tools/info/backends.hpp"
#include "topology/topology.hpp"

namespace lamppost::info {

struct Variable {
  std::string name;
  std::string value;
  std::string meaning;
};

struct Facts {
  std::string header_version;   // what this program was compiled with
  std::string library_version;  // what it has loaded
  std::string compiler;
  std::string build_type;
  bool has_mpi = false;
  Topology topology;
  std::vector<BackendFacts> backends;
  std::vector<Variable> variables;  // LAMPPOST_* that are set, by name
  MulticastVerdict multicast;

  /// No switch forbids it, and a usable backend has it.
  bool multicast_on() const;
  /// "off because NCCL_NVLS_ENABLE=0"
  std::string multicast_sentence() const;
};

Facts gather_facts();

/// The report for people.
std::string to_text(const Facts& facts);
/// The same for programs.
std::string to_json(const Facts& facts);

}  // namespace lamppost::info
