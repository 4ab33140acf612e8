#include "base/switches.hpp"

#include <cstdlib>
#include <string_view>

namespace lamppost {
namespace {

using State = MulticastSwitch::State;

/// What a value means: an enabling switch is off at 0, a disabling one at 1.
enum class Sense { kEnables, kDisables };

struct KnownSwitch {
  const char* name;
  Sense sense;
};

constexpr const char* kOwnSwitch = "LAMPPOST_NVLS_ENABLE";
constexpr KnownSwitch kKnownSwitches[] = {
    {kOwnSwitch, Sense::kEnables},
    {"NCCL_NVLS_ENABLE", Sense::kEnables},
    {"NVSHMEM_DISABLE_NVLS", Sense::kDisables},
    {"TORCH_SYMM_MEM_DISABLE_MULTICAST", Sense::kDisables},
};

bool is_one_of(std::string_view value, std::initializer_list<std::string_view> values) {
  for (const std::string_view candidate : values) {
    if (value == candidate) return true;
  }
  return false;
}

State state_of(Sense sense, const char* value) {
  if (value == nullptr) return State::kUnset;
  const bool no = is_one_of(value, {"0", "n", "no", "N", "NO", "false", "FALSE", "off", "OFF"});
  const bool yes = is_one_of(value, {"1", "y", "yes", "Y", "YES", "true", "TRUE", "on", "ON"});
  if (sense == Sense::kEnables) {
    // 2 is NCCL's "if it can", and Lamppost's "also with two ranks".
    if (yes || std::string_view(value) == "2") return State::kPermits;
    return no ? State::kOff : State::kUnreadable;
  }
  if (no) return State::kPermits;
  return yes ? State::kOff : State::kUnreadable;
}

}  // namespace

MulticastVerdict multicast_verdict() {
  return multicast_verdict([](const char* name) -> const char* { return std::getenv(name); });
}

MulticastVerdict multicast_verdict(EnvironmentReader read) {
  MulticastVerdict verdict;
  for (const KnownSwitch& known : kKnownSwitches) {
    const char* value = read(known.name);
    MulticastSwitch found;
    found.name = known.name;
    if (value != nullptr) found.value = value;
    found.state = state_of(known.sense, value);
    verdict.switches.push_back(found);
    if (known.name == kOwnSwitch) verdict.with_two_ranks = found.value == "2";
    if (found.state != State::kOff && found.state != State::kUnreadable) continue;
    if (verdict.permitted) {
      verdict.because = found.name + "=" + *found.value;
      if (found.state == State::kUnreadable) {
        verdict.because += " cannot be understood, and that means off";
      }
    }
    verdict.permitted = false;
  }
  if (verdict.permitted) verdict.because = "no switch forbids it";
  if (!verdict.permitted) verdict.with_two_ranks = false;
  return verdict;
}

}  // namespace lamppost
