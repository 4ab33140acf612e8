// ProcessIdentity: tells whether two ranks live in one process. A pid alone does not: pids repeat
// across PID namespaces. Drawn at random once a process, and again in a forked child.
#pragma once

#include <cstdint>

namespace lamppost {

struct ProcessIdentity {
  std::uint64_t nonce[2];
  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

/// Any thread.
ProcessIdentity process_identity();

}  // namespace lamppost
