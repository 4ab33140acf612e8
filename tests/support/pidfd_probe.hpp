// Whether this machine lets a process copy descriptors out of another: for tests that must skip,
// with the reason, where a sandbox forbids it.
#pragma once

#include <string>

namespace lamppost::test {

/// Empty if pidfd_getfd works on a process that allows it. Forks.
std::string why_no_pidfd();

}  // namespace lamppost::test
