// The switches with which an operator turns NVLink multicast off: Lamppost's own and those of the
// libraries it stands beside. Whoever switched multicast off for one of them has switched it off
// here. Off beats on, and a value that cannot be understood means off.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lamppost {

/// std::getenv, or a test's stand-in.
using EnvironmentReader = const char* (*)(const char* name);

struct MulticastSwitch {
  enum class State {
    kUnset,
    kPermits,     // says that multicast may be used
    kOff,         // says that it may not
    kUnreadable,  // says nothing that can be understood: off
  };

  std::string name;
  std::optional<std::string> value;
  State state = State::kUnset;
};

struct MulticastVerdict {
  /// True unless a switch says off. That no switch forbids multicast does not mean that it is used:
  /// driver, rank count and the other ranks have a say too.
  bool permitted = true;
  /// LAMPPOST_NVLS_ENABLE=2: also with two ranks.
  bool with_two_ranks = false;
  /// "NCCL_NVLS_ENABLE=0", or "no switch forbids it".
  std::string because;
  std::vector<MulticastSwitch> switches;  // all that were looked at, in a fixed order
};

/// The verdict of this process's environment. Local; other ranks may see another one.
MulticastVerdict multicast_verdict();
MulticastVerdict multicast_verdict(EnvironmentReader read);

}  // namespace lamppost
