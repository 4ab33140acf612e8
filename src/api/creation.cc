#include "api/creation.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <new>

#include "api/backend.hpp"
#include "base/process_identity.hpp"
#include "health/health.hpp"
#include "transports/vmm/vmm_transport.hpp"

namespace lamppost {
namespace {

using device::ControlPage;

constexpr std::uint32_t kHostSelfTestRounds = 16;
constexpr std::uint32_t kDeviceSelfTestRounds = 256;

#ifndef LAMPPOST_BUILD_ID
#define LAMPPOST_BUILD_ID "unknown"
#endif

/// What every rank must have in common, and what the ranks take the minimum of.
struct CreationFacts {
  std::int64_t library_version;
  char build_id[48];
  std::int64_t backend;
  std::int64_t chip;
  std::int64_t lanes;
  std::int64_t slot_bytes;
  std::int64_t timeout_ms;
  std::int64_t first_call_timeout_ms;
  std::int64_t setup_timeout_ms;
  std::int64_t allow_shared_device;
  std::int64_t early_launch;
  std::uint64_t communicator_id;    // rank 0's draw is used
  std::uint64_t process;            // a number of its own
  std::uint32_t resident_blocks;    // for block_budget()
  std::uint32_t max_block_threads;  // minimum
  DeviceUuid uuid;
};

CreationFacts facts_of(const ResolvedConfig& config, const DeviceFacts& device) {
  CreationFacts facts{};
  facts.library_version = LP_VERSION;
  std::strncpy(facts.build_id, LAMPPOST_BUILD_ID, sizeof(facts.build_id) - 1);
  facts.backend = config.backend;
  facts.chip = device.chip;
  facts.lanes = device.lanes;
  facts.slot_bytes = static_cast<std::int64_t>(config.slot_bytes);
  facts.timeout_ms = config.timeout_ms;
  facts.first_call_timeout_ms = config.first_call_timeout_ms;
  facts.setup_timeout_ms = config.setup_timeout_ms;
  facts.allow_shared_device = config.allow_shared_device ? 1 : 0;
  facts.early_launch = config.early_launch ? 1 : 0;
  facts.communicator_id = process_identity().nonce[0] ^ reinterpret_cast<std::uintptr_t>(&facts);
  facts.process = process_identity().nonce[0];
  facts.resident_blocks = device.resident_blocks;
  facts.max_block_threads = device.max_block_threads;
  facts.uuid = device.uuid;
  return facts;
}

Status differs(const char* name, std::size_t rank, const std::string& first,
               const std::string& other) {
  return Status(
      LP_ERROR_BOOTSTRAP,
      fmt::format("ranks disagree on {}: rank 0 has {}, rank {} has {}", name, first, rank, other));
}

Status compare_facts(const std::vector<CreationFacts>& all) {
  struct Field {
    const char* name;
    std::int64_t CreationFacts::*member;
  };
  constexpr Field kFields[] = {
      {"the library's version", &CreationFacts::library_version},
      {"lpConfig.backend", &CreationFacts::backend},
      {"the device's compute capability", &CreationFacts::chip},
      {"the device's lanes", &CreationFacts::lanes},
      {"lpConfig.slot_bytes", &CreationFacts::slot_bytes},
      {"lpConfig.timeout_ms", &CreationFacts::timeout_ms},
      {"lpConfig.first_call_timeout_ms", &CreationFacts::first_call_timeout_ms},
      {"lpConfig.setup_timeout_ms", &CreationFacts::setup_timeout_ms},
      {"lpConfig.allow_shared_device", &CreationFacts::allow_shared_device},
      {"lpConfig.early_launch", &CreationFacts::early_launch},
  };
  for (std::size_t r = 1; r < all.size(); ++r) {
    if (std::strcmp(all[0].build_id, all[r].build_id) != 0) {
      return differs("the library's build", r, all[0].build_id, all[r].build_id);
    }
    for (const Field& field : kFields) {
      const std::int64_t first = all[0].*field.member;
      const std::int64_t other = all[r].*field.member;
      if (first != other)
        return differs(field.name, r, std::to_string(first), std::to_string(other));
    }
  }
  return {};
}

/// The ranks whose device is that of `rank`, itself included. A rank on the host has its own.
std::uint32_t ranks_on_device_of(const std::vector<CreationFacts>& all, std::size_t rank) {
  if (all[rank].uuid == DeviceUuid{}) return 1;
  return static_cast<std::uint32_t>(
      std::count_if(all.begin(), all.end(),
                    [&](const CreationFacts& facts) { return facts.uuid == all[rank].uuid; }));
}

/// Two ranks on one device work, but wait for each other's kernels there: only where it was asked for.
Status check_devices(const std::vector<CreationFacts>& all) {
  for (std::size_t r = 0; r < all.size(); ++r) {
    for (std::size_t other = 0; other < r; ++other) {
      if (all[r].uuid == DeviceUuid{} || all[r].uuid != all[other].uuid ||
          all[r].allow_shared_device != 0) {
        continue;
      }
      return Status(LP_ERROR_INVALID_USAGE,
                    fmt::format("ranks {} and {} are on the same device, {}: give each its own (by "
                                "lpConfig.device, or a current context), or set "
                                "lpConfig.allow_shared_device",
                                other, r, to_string(all[r].uuid)));
    }
  }
  return {};
}

/// Says once a process, on stderr, that its ranks on one device have too few hardware queues: it works
/// until two streams share one.
void warn_of_shared_queues(const std::vector<CreationFacts>& all, std::size_t rank,
                           const DeviceFacts& device) {
  static std::atomic_flag is_said = ATOMIC_FLAG_INIT;
  const auto ranks = std::count_if(all.begin(), all.end(), [&](const CreationFacts& facts) {
    return facts.process == all[rank].process && facts.uuid == all[rank].uuid;
  });
  if (device.stream_queues == 0 || ranks <= static_cast<std::ptrdiff_t>(device.stream_queues)) return;
  if (is_said.test_and_set()) return;
  fmt::print(stderr,
             "lamppost: warning: {} ranks of this process share {}, whose streams have {} hardware queues: "
             "kernels of two ranks in one queue wait for each other until they time out. Set "
             "CUDA_DEVICE_MAX_CONNECTIONS={} (at most 32) before the process's first CUDA call\n",
             ranks, device.name, device.stream_queues, ranks);
}

/// Blocks that every rank can have resident at once: the least over all ranks of what its device holds,
/// shared by the ranks on it, and by two launches where one may start before the other ends.
Result<std::uint32_t> block_budget(const std::vector<CreationFacts>& all) {
  std::uint32_t budget = device::ArrivalWord::kMostBlocks;
  for (std::size_t r = 0; r < all.size(); ++r) {
    const std::uint32_t sharers = ranks_on_device_of(all, r) * (all[r].early_launch != 0 ? 2 : 1);
    const std::uint32_t share = all[r].resident_blocks / sharers;
    if (share == 0) {
      return Status(LP_ERROR_RESOURCE_LIMIT,
                    fmt::format("the device of rank {} holds {} blocks at once, too few for {} "
                                "launches that wait for each other",
                                r, all[r].resident_blocks, sharers));
    }
    budget = std::min(budget, share);
  }
  return budget;
}

DeviceFacts limited(DeviceFacts facts, const CreationOptions& options) {
  if (options.max_block_threads != 0) facts.max_block_threads = options.max_block_threads;
  return facts;
}

void initialise_page(ControlPage& page, const Bootstrap& bootstrap, std::uint64_t communicator_id,
                     std::uint64_t ticks_per_second) {
  page = ControlPage{};
  page.version = device::kControlPageVersion;
  page.process_id = static_cast<std::uint32_t>(getpid());
  page.rank = static_cast<std::uint32_t>(bootstrap.rank());
  page.rank_count = static_cast<std::uint32_t>(bootstrap.rank_count());
  page.communicator_id = communicator_id;
  page.ticks_per_second = ticks_per_second;
  gethostname(page.host_name, sizeof(page.host_name) - 1);
  __atomic_store_n(&page.magic, device::kControlPageMagic, __ATOMIC_RELEASE);
}

/// Step 1: a driver, and facts that agree.
Status agree(Bootstrap& bootstrap, const CreationOptions& options, CommunicatorParts& parts,
             std::uint64_t& communicator_id) {
  if (bootstrap.rank_count() > LP_MAX_WORLD_TODAY) {
    return Status(LP_ERROR_NOT_SUPPORTED, fmt::format("{} ranks: this version takes at most {}",
                                                      bootstrap.rank_count(), LP_MAX_WORLD_TODAY));
  }
  Result<std::unique_ptr<Driver>> driver = make_driver(parts.config, options);
  Status status = vote(bootstrap, driver.status(), "open the backend");
  if (!status.ok()) return status;
  parts.driver = driver.take();

  const DeviceFacts device = limited(parts.driver->device_facts(), options);
  std::vector<CreationFacts> all;
  status = all_gather_value(bootstrap, facts_of(parts.config, device), all, "exchange of facts");
  if (status.ok()) status = compare_facts(all);  // the same verdict on all ranks
  if (status.ok()) status = check_devices(all);
  if (!status.ok()) return status;
  warn_of_shared_queues(all, static_cast<std::size_t>(bootstrap.rank()), device);
  const Result<std::uint32_t> budget = block_budget(all);
  if (!budget.ok()) return budget.status();
  const std::uint32_t blocks =
      options.max_blocks == 0 ? budget.value() : std::min(budget.value(), options.max_blocks);
  parts.facts = {static_cast<std::uint32_t>(all.size()), parts.config.slot_bytes, blocks,
                 all[0].max_block_threads, parts.config.early_launch};
  for (const CreationFacts& facts : all) {
    parts.facts.max_block_threads =
        std::min(parts.facts.max_block_threads, facts.max_block_threads);
  }
  communicator_id = all[0].communicator_id;
  return {};
}

/// Step 2: control page, stream, workspace, peers.
Status allocate(Bootstrap& bootstrap, std::uint64_t communicator_id, CommunicatorParts& parts) {
  auto page = parts.driver->allocate_control_page(device::kControlPageBytes, kControlPageName);
  Result<StreamHandle> stream = parts.driver->create_stream();
  if (stream.ok()) parts.own_stream = stream.value();
  Status status = vote(bootstrap, page.ok() ? stream.status() : page.status(),
                       "allocate control page and stream");
  if (!status.ok()) return status;
  parts.control_page = page.take();
  initialise_page(*new (parts.control_page->address()) ControlPage, bootstrap, communicator_id,
                  parts.driver->device_facts().ticks_per_second);

  const std::unique_ptr<Transport> transport = make_vmm_transport();
  const device::Layout layout{parts.facts.rank_count, parts.facts.slot_bytes};
  Result<Workspace> workspace =
      set_up_workspace(bootstrap, *parts.driver, *transport, layout, parts.fault);
  if (!workspace.ok()) return workspace.status();
  parts.workspace = workspace.take();
  return {};
}

/// Step 3: the self-test over every ordered pair, then ready.
Status prove(Bootstrap& bootstrap, Communicator& communicator, const ResolvedConfig& config,
             const PlantedFault& fault) {
  Status status =
      vote(bootstrap, fault.check(bootstrap.rank(), "self-test"), "prepare the self-test");
  if (!status.ok()) return status;
  // Shorter than the bootstrap's deadline: a rank that waits for a missing one still comes to the
  // vote.
  const std::int64_t test_timeout_ms = config.setup_timeout_ms / 2 + 1;
  communicator.set_timeout(test_timeout_ms, test_timeout_ms);
  const std::uint32_t rounds =
      communicator.backend() == LP_BACKEND_HOST ? kHostSelfTestRounds : kDeviceSelfTestRounds;
  status = vote(bootstrap, communicator.self_test(rounds), "self-test");
  if (!status.ok()) return status;
  communicator.set_timeout(config.timeout_ms, config.first_call_timeout_ms);
  return bootstrap.barrier("ready");
}

}  // namespace

Result<std::unique_ptr<Communicator>> create_communicator(Bootstrap& bootstrap,
                                                          Result<ResolvedConfig> config,
                                                          const CreationOptions& options) {
  if (config.ok()) bootstrap.set_timeout_ms(config.value().setup_timeout_ms);
  Result<PlantedFault> fault = planted_fault_from_environment();
  Status status =
      vote(bootstrap, config.ok() ? fault.status() : config.status(), "read the configuration");
  if (!status.ok()) return status;

  CommunicatorParts parts;
  parts.config = config.value();
  parts.fault = fault.take();
  std::uint64_t communicator_id = 0;
  status = agree(bootstrap, options, parts, communicator_id);
  if (status.ok()) status = allocate(bootstrap, communicator_id, parts);
  if (!status.ok()) {
    if (parts.own_stream != 0) (void)parts.driver->destroy_stream(parts.own_stream);
    return status;
  }
  const PlantedFault planted = parts.fault;
  const ResolvedConfig resolved = parts.config;
  auto communicator = std::make_unique<Communicator>(std::move(parts));
  status = prove(bootstrap, *communicator, resolved, planted);
  if (!status.ok()) {
    (void)communicator->shut_down();  // the first error is the one to tell
    return status;
  }
  return communicator;
}

}  // namespace lamppost
