#include "tools/info/facts.hpp"

#include <fmt/core.h>
#include <lamppost/lamppost.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

namespace lamppost::info {
namespace {

struct KnownVariable {
  std::string_view name;
  std::string_view meaning;
};

constexpr KnownVariable kKnownVariables[] = {
    {"LAMPPOST_FAULT", "plants a delay or a failing step, for drills"},
    {"LAMPPOST_HOST_SEED", "seeds the host backend's random choices"},
    {"LAMPPOST_NVLS_ENABLE", "multicast: 0 off, 1 on, 2 also with two ranks"},
    {"LAMPPOST_TEST_ALL", "read by the tests alone: full cross products"},
};

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string meaning_of(const std::string& name) {
  for (const KnownVariable& known : kKnownVariables) {
    if (known.name == name) return std::string(known.meaning);
  }
  return "not known to this version: without effect";
}

std::vector<Variable> own_variables() {
  std::vector<Variable> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (!text.starts_with("LAMPPOST_") || equals == std::string_view::npos) continue;
    const std::string name(text.substr(0, equals));
    variables.push_back({name, std::string(text.substr(equals + 1)), meaning_of(name)});
  }
  std::sort(variables.begin(), variables.end(),
            [](const Variable& a, const Variable& b) { return a.name < b.name; });
  return variables;
}

}  // namespace

bool Facts::multicast_on() const {
  const auto has_multicast = [](const BackendFacts& b) { return b.usable && b.has_multicast; };
  return multicast.permitted && std::any_of(backends.begin(), backends.end(), has_multicast);
}

std::string Facts::multicast_sentence() const {
  if (!multicast.permitted) return "off because " + multicast.because;
  if (multicast_on()) return "may be used: " + multicast.because;
  return "off because no backend of this version has it (" + multicast.because + ")";
}

Facts gather_facts() {
  Facts facts;
  facts.header_version = version_text(LP_VERSION);
  facts.library_version = version_text(lpGetVersion());
#ifdef __clang__
  facts.compiler = "clang " __clang_version__;
#else
  facts.compiler = "g++ " __VERSION__;
#endif
  facts.build_type = LAMPPOST_BUILD_TYPE;
#ifdef LAMPPOST_HAVE_MPI
  facts.has_mpi = true;
#endif
  facts.topology = read_topology();
  facts.backends = probe_backends(facts.topology);
  facts.variables = own_variables();
  facts.multicast = multicast_verdict();
  return facts;
}

}  // namespace lamppost::info
