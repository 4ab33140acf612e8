// Creation of a communicator: from a bootstrap to a rank that is ready, with a vote of all ranks
// after every step that can fail.
#pragma once

#include <vector>

#include "api/communicator.hpp"
#include "bootstrap/bootstrap.hpp"
#include "lamppost/device/host.hpp"

namespace lamppost {

/// Longest time of a configuration or of lpCommSetTimeout: 11 days; its ticks fit 64 bits.
inline constexpr std::int64_t kMostTimeoutMs = 1'000'000'000;

/// What tests may change, alike on all ranks; null and 0 leave the product's own.
struct CreationOptions {
  const device::HostKernel* host_kernels = nullptr;  // kernels.def order
  std::uint32_t max_blocks = 0;
  std::uint32_t max_block_threads = 0;
};

/// Checks size, magic, version and ranges; fills in defaults. `config` may be null.
Result<ResolvedConfig> resolve_config(const lpConfig* config);

/// Collective, blocks (config.setup_timeout_ms a step). All ranks succeed, or all fail with the
/// same error. `config` is this rank's resolve_config(): if that failed, all ranks fail.
Result<std::unique_ptr<Communicator>> create_communicator(Bootstrap& bootstrap,
                                                          Result<ResolvedConfig> config,
                                                          const CreationOptions& options = {});

/// All ranks of one communicator in this process, as lpCommInitAll makes them.
Result<std::vector<std::unique_ptr<Communicator>>> create_all(int rank_count,
                                                              const lpConfig* config,
                                                              const int* devices = nullptr,
                                                              const CreationOptions& options = {});

}  // namespace lamppost
