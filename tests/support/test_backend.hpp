// Which backend the test bodies of this program run on. The host, unless the program's main says
// otherwise before any test (tests/gpu/main.cc): the bodies are the same.
#pragma once

#include "driver/workbench.hpp"

#include <memory>
#include <vector>

namespace lamppost::test {

struct TestBackend {
  lpBackend_t backend = LP_BACKEND_HOST;
  /// GPU backends: one for each device that ranks run on; rank r is on device r % devices.size().
  std::vector<std::unique_ptr<Workbench>> devices;
  /// Outputs that pass through the hardware's own reciprocal square root have a bound, not bits.
  bool has_exact_rsqrt = true;

  bool is_host() const { return backend == LP_BACKEND_HOST; }
  int device_of(int rank) const { return rank % static_cast<int>(devices.size()); }
  bool shares_devices(int rank_count) const {
    return static_cast<int>(devices.size()) < rank_count;
  }
  /// The rank's device; null on the host.
  Workbench* workbench_of(int rank) const {
    return is_host() ? nullptr : devices[static_cast<std::size_t>(device_of(rank))].get();
  }
};

/// The program's one.
TestBackend& test_backend();

}  // namespace lamppost::test
