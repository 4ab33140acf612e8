// The scripted driver as tests use it: opened in this process in the real driver's place, and the proof
// that it is the one. The one place where that proof is made; what clears an operator's multicast
// switches asks here first.
//
// Any thread. Call scripted_driver() before anything that may load libcuda.so.1.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "scripted_driver/scripted_driver.hpp"

namespace lamppost::test {

/// Opens it on the first call; ends the program with the reason if it cannot be opened.
const ScriptedDriver& scripted_driver();

/// Why the libcuda.so.1 of this process is not the scripted one; empty: it is.
std::string why_not_scripted();

/// Why the multicast switches must stay as they are: the driver is not the scripted one, or the machine
/// has a GPU's device node. Empty: a test may clear them.
std::string why_switches_stay();

/// Calls so far, but for those that were cleared.
struct CallRecord {
  std::string name;
  int rank;
  int result;
  std::string detail;
};
std::vector<CallRecord> scripted_calls();
/// How many of them have a name that starts with `name`.
int count_calls(const std::string& name);
std::string describe(const ScriptedHandles& open);

/// Runs `body` in a forked process with a scripted driver of its own and these variables set; returns what
/// it returns (empty: all is well), or how the process ended. The driver's settings are read once a
/// process, so that a test of a setting needs this. The caller's process must not have threads.
using Environment = std::vector<std::pair<std::string, std::string>>;
std::string in_child(const Environment& environment, const std::function<std::string()>& body);

}  // namespace lamppost::test
