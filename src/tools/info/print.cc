// The two forms of lamppost-info's report.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "tools/info/facts.hpp"

namespace lamppost::info {
namespace {

using Json = nlohmann::ordered_json;

/// Changes when a field changes its name or meaning; new fields do not count.
constexpr const char* kSchema = "lamppost-info/1";

/// Paragraphs of "label    text" lines; the label stands before the first line only.
class Paragraphs {
 public:
  void label(const char* label) { label_ = label; }
  void line(const std::string& text) {
    text_ += fmt::format("{:<11}{}\n", label_, text);
    label_ = "";
  }
  std::string take() { return std::move(text_); }

 private:
  const char* label_ = "";
  std::string text_;
};

std::string gib(std::uint64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

/// "2 cores"; 0 is what could not be read.
std::string plural(int count, const char* what) {
  if (count == 0) return fmt::format("unknown number of {}s", what);
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

const char* state_text(MulticastSwitch::State state) {
  switch (state) {
    case MulticastSwitch::State::kUnset:
      return "unset";
    case MulticastSwitch::State::kPermits:
      return "permits";
    case MulticastSwitch::State::kOff:
      return "off";
    case MulticastSwitch::State::kUnreadable:
      return "unreadable: off";
  }
  return "";
}

void add_build(const Facts& facts, Paragraphs& out) {
  out.label("lamppost");
  out.line(facts.library_version);
  if (facts.library_version != facts.header_version) {
    out.line(fmt::format("this tool was built with {}: two installations are mixed",
                         facts.header_version));
  }
  out.label("build");
  out.line(fmt::format("{}, {}, {}", facts.compiler, facts.build_type,
                       facts.has_mpi ? "with MPI" : "without MPI"));
}

void add_backends(const Facts& facts, Paragraphs& out) {
  out.label("backends");
  for (const BackendFacts& backend : facts.backends) {
    out.line(
        fmt::format("{:<5} {:<4} {}", backend.name, backend.usable ? "on" : "off", backend.why));
  }
  out.label("devices");
  bool any = false;
  for (const BackendFacts& backend : facts.backends) {
    for (std::size_t ordinal = 0; ordinal < backend.devices.size(); ++ordinal) {
      out.line(fmt::format("{} {}: {}", backend.name, ordinal, backend.devices[ordinal]));
      any = true;
    }
  }
  if (!any) out.line("none");
}

void add_machine(const Topology& topology, Paragraphs& out) {
  out.label("machine");
  out.line(fmt::format("{}: {}, {}, {} for this process", topology.host_name,
                       plural(topology.core_count, "core"),
                       plural(topology.cpu_count, "logical CPU"), topology.allowed_cpu_count));
  if (!topology.is_this_machine) {
    out.line("as described to hwloc (HWLOC_XMLFILE or HWLOC_SYNTHETIC), not as it is");
  }
  for (const NumaNode& node : topology.numa_nodes) {
    out.line(fmt::format("NUMA node {}: {}, {}", node.os_index, gib(node.memory_bytes),
                         node.cpu_count == 0 ? "memory only" : plural(node.cpu_count, "CPU")));
  }
  if (!topology.error.empty()) out.line(topology.error + " (cores and NUMA nodes are unknown)");
}

void add_switches(const Facts& facts, Paragraphs& out) {
  out.label("switches");
  for (const Variable& variable : facts.variables) {
    out.line(fmt::format("{}={}  ({})", variable.name, variable.value, variable.meaning));
  }
  if (facts.variables.empty()) out.line("no LAMPPOST_* variable is set");
  out.label("multicast");
  out.line(facts.multicast_sentence());
  for (const MulticastSwitch& one : facts.multicast.switches) {
    const std::string setting = one.value ? one.name + "=" + *one.value : one.name;
    out.line(fmt::format("  {:<36} {}", setting, state_text(one.state)));
  }
}

Json machine_json(const Topology& topology) {
  Json nodes = Json::array();
  for (const NumaNode& node : topology.numa_nodes) {
    nodes.push_back({{"os_index", node.os_index},
                     {"memory_bytes", node.memory_bytes},
                     {"cpus", node.cpu_count}});
  }
  return Json{{"host", topology.host_name}, {"cores", topology.core_count},
              {"cpus", topology.cpu_count}, {"allowed_cpus", topology.allowed_cpu_count},
              {"numa_nodes", nodes},        {"is_this_machine", topology.is_this_machine},
              {"error", topology.error}};
}

Json multicast_json(const Facts& facts) {
  Json switches = Json::array();
  for (const MulticastSwitch& one : facts.multicast.switches) {
    switches.push_back({{"name", one.name},
                        {"value", one.value ? Json(*one.value) : Json()},
                        {"state", state_text(one.state)}});
  }
  return Json{{"on", facts.multicast_on()},
              {"permitted", facts.multicast.permitted},
              {"with_two_ranks", facts.multicast.with_two_ranks},
              {"sentence", facts.multicast_sentence()},
              {"switches", switches}};
}

}  // namespace

std::string to_text(const Facts& facts) {
  Paragraphs out;
  add_build(facts, out);
  add_backends(facts, out);
  add_machine(facts.topology, out);
  add_switches(facts, out);
  return out.take();
}

std::string to_json(const Facts& facts) {
  Json backends = Json::array();
  for (const BackendFacts& backend : facts.backends) {
    backends.push_back({{"name", backend.name},
                        {"usable", backend.usable},
                        {"why", backend.why},
                        {"devices", backend.devices}});
  }
  Json variables = Json::array();
  for (const Variable& variable : facts.variables) {
    variables.push_back(
        {{"name", variable.name}, {"value", variable.value}, {"meaning", variable.meaning}});
  }
  const Json json{
      {"schema", kSchema},
      {"library_version", facts.library_version},
      {"header_version", facts.header_version},
      {"build", {{"compiler", facts.compiler}, {"type", facts.build_type}, {"mpi", facts.has_mpi}}},
      {"backends", backends},
      {"machine", machine_json(facts.topology)},
      {"variables", variables},
      {"multicast", multicast_json(facts)}};
  // Variables and host names need not be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lamppost::info
