// The CUDA backend on the scripted driver, ranks as processes over the Unix socket: memory passed as
// descriptors, every process with a device numbering of its own, and a driver call that fails in
// one of them.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "api/handles.hpp"
#include "bootstrap/socket_bootstrap.hpp"
#include "scripted_driver/ranks.hpp"
#include "support/environment_guard.hpp"
#include "support/fork_launcher.hpp"
#include "support/pidfd_probe.hpp"

namespace lamppost::test {
namespace {

constexpr int kRanks = 3;
constexpr std::size_t kTextBytes = 1024;

struct Verdict {
  int code;
  char text[kTextBytes];
};

/// What every process says, in memory that all share.
Verdict* shared_verdicts() {
  void* memory = mmap(nullptr, kRanks * sizeof(Verdict), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return static_cast<Verdict*>(memory);
}

Status create(const std::string& address, int rank, const lpConfig& config, lpComm_t& comm) {
  auto bootstrap = make_socket_bootstrap({address, rank, kRanks, 99, 5'000});
  if (!bootstrap.ok()) return bootstrap.status();
  auto created = create_communicator(*bootstrap.value(), resolve_config(&config));
  if (created.ok()) comm = publish(created.take()).value();
  return created.status();
}

/// One all-reduce of rank + 1 in device memory, through a graph if asked for; whether it is right.
bool reduces_right(lpComm_t comm, int rank, int device, bool in_graph) {
  constexpr std::size_t kCount = 10'000;
  const User user(device);
  const CUstream stream = user.create_stream();
  CUdeviceptr memory = 0;
  must(api().cuMemAlloc(&memory, kCount * 4), "cuMemAlloc");
  auto* data = reinterpret_cast<void*>(memory);
  const std::vector<float> mine(kCount, static_cast<float>(rank + 1));
  std::vector<float> sum(kCount);
  must(api().cuMemcpyHtoDAsync(memory, mine.data(), kCount * 4, stream), "cuMemcpyHtoDAsync");
  if (in_graph) user.begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  const lpResult_t result = lpAllReduce(data, data, kCount, LP_FLOAT32, LP_SUM, comm, stream);
  if (in_graph) {
    const CUgraphExec graph = user.end_capture(stream);
    user.launch_graph(graph, stream);
    must(api().cuGraphExecDestroy(graph), "cuGraphExecDestroy");
  }
  must(api().cuMemcpyDtoHAsync(sum.data(), memory, kCount * 4, stream), "cuMemcpyDtoHAsync");
  user.synchronize(stream);
  must(api().cuMemFree(memory), "cuMemFree");
  user.destroy_stream(stream);
  return result == LP_SUCCESS && sum == std::vector<float>(kCount, 6.0f);
}

/// A whole life of one rank; its exit code says where it went wrong.
int live(const std::string& address, int rank, const WorldOptions& options) {
  (void)scripted_driver();
  lpComm_t comm = nullptr;
  const Status status = create(address, rank, config_of(options, rank), comm);
  if (!status.ok()) {
    std::fprintf(stderr, "rank %d: %s\n", rank, status.message().c_str());
    return 1;
  }
  const int device = options.devices[static_cast<std::size_t>(rank)];
  for (int call = 0; call < 20; ++call) {
    if (!reduces_right(comm, rank, device, call % 2 == 1)) return 2;
  }
  if (lpCommDestroy(comm) != LP_SUCCESS) return 3;
  const ScriptedHandles open = scripted_driver().open_handles();
  const bool is_clean = open.allocations + open.reservations + open.mappings + open.registrations +
                            open.events + open.graphs + open.graph_execs + open.device_memory ==
                        0;
  return is_clean ? 0 : 4;
}

/// What one rank says, and the number of handles that it still holds.
int fail_to_create(const std::string& address, int rank, const WorldOptions& options,
                   Verdict& verdict) {
  lpComm_t comm = nullptr;
  const Status status = create(address, rank, config_of(options, rank), comm);
  verdict.code = status.code();
  std::strncpy(verdict.text, status.message().c_str(), kTextBytes - 1);
  const ScriptedHandles open = scripted_driver().open_handles();
  return open.allocations + open.reservations + open.mappings + open.registrations;
}

TEST(ScriptedProcesses, EveryProcessSeesAllDevices) {
  const std::string address = unique_socket_address();
  WorldOptions options;
  options.devices = {0, 1, 2};
  setenv("LAMPPOST_SCRIPTED_DEVICES", "3", 1);
  const auto exits = run_ranks(kRanks, [&](int rank) { return live(address, rank, options); });
  unsetenv("LAMPPOST_SCRIPTED_DEVICES");
  for (const RankExit& exit : exits) EXPECT_EQ(exit.exit_code, 0);
}

TEST(ScriptedProcesses, EveryProcessSeesOneDevice) {
  const std::string address = unique_socket_address();
  WorldOptions options;
  options.devices = {0, 0, 0};  // three devices, each the first of its process
  const auto exits = run_ranks(kRanks, [&](int rank) {
    setenv("LAMPPOST_SCRIPTED_DEVICES", "1", 1);
    setenv("LAMPPOST_SCRIPTED_FIRST_DEVICE", std::to_string(rank).c_str(), 1);
    return live(address, rank, options);
  });
  for (const RankExit& exit : exits) EXPECT_EQ(exit.exit_code, 0);
}

TEST(ScriptedProcesses, ProcessesShareADeviceOnlyIfAllowed) {
  WorldOptions options;
  options.devices = {1, 1, 1};
  std::string address = unique_socket_address();
  auto exits = run_ranks(kRanks, [&](int rank) {
    (void)scripted_driver();
    lpComm_t comm = nullptr;
    const Status status = create(address, rank, config_of(options, rank), comm);
    const bool is_named = status.message().find("ranks 0 and 1") != std::string::npos;
    return status.code() == LP_ERROR_INVALID_USAGE && is_named ? 0 : 1;
  });
  for (const RankExit& exit : exits) EXPECT_EQ(exit.exit_code, 0);
  options.allow_shared_device = true;
  address = unique_socket_address();
  exits = run_ranks(kRanks, [&](int rank) { return live(address, rank, options); });
  for (const RankExit& exit : exits) EXPECT_EQ(exit.exit_code, 0);
}

TEST(ScriptedProcesses, DeviceMemoryIsPassedWithoutSockets) {
  const std::string reason = why_no_pidfd();
  if (!reason.empty()) GTEST_SKIP() << reason;
  const EnvironmentGuard fault("LAMPPOST_FAULT", "rank=2,step=socket");
  setenv("LAMPPOST_SCRIPTED_DEVICES", "3", 1);
  const std::string address = unique_socket_address();
  WorldOptions options;
  options.devices = {0, 1, 2};
  const auto exits = run_ranks(kRanks, [&](int rank) { return live(address, rank, options); });
  unsetenv("LAMPPOST_SCRIPTED_DEVICES");
  for (const RankExit& exit : exits) EXPECT_EQ(exit.exit_code, 0);
}

TEST(ScriptedProcesses, WithNeitherSocketsNorPidfdAllRanksSayWhoseFailedFirst) {
  Verdict* verdicts = shared_verdicts();
  const EnvironmentGuard fault("LAMPPOST_FAULT", "rank=1,step=socket,step=pidfd");
  setenv("LAMPPOST_SCRIPTED_DEVICES", "3", 1);
  const std::string address = unique_socket_address();
  WorldOptions options;
  options.devices = {0, 1, 2};
  const auto exits = run_ranks(kRanks, [&](int rank) {
    (void)scripted_driver();
    return fail_to_create(address, rank, options, verdicts[rank]);
  });
  unsetenv("LAMPPOST_SCRIPTED_DEVICES");
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(exits[static_cast<std::size_t>(rank)].exit_code, 0) << "rank " << rank << " leaks";
    EXPECT_EQ(verdicts[rank].code, LP_ERROR_SYSTEM);
    EXPECT_STREQ(verdicts[rank].text, verdicts[0].text);
  }
  const std::string text = verdicts[0].text;
  EXPECT_EQ(text.find("rank 1 failed at step 'connect Unix sockets"), 0u) << text;
  EXPECT_NE(text.find("rank 1 failed at step 'take memory descriptors by pidfd'"), std::string::npos)
      << text;
  munmap(verdicts, kRanks * sizeof(Verdict));
}

TEST(ScriptedProcesses, ACallThatFailsInOneProcessIsNamedInAll) {
  Verdict* verdicts = shared_verdicts();
  for (const char* call :
       {"cuInit:1", "cuMemCreate:1", "cuMemExportToShareableHandle:1", "cuMemMap:1", "cuMemMap:2",
        "cuMemImportFromShareableHandle:1", "cuMemImportFromShareableHandle:2", "cuMemSetAccess:3",
        "cuMemHostRegister:1", "cuLaunchKernelEx:1"}) {
    SCOPED_TRACE(call);
    const std::string address = unique_socket_address();
    setenv("LAMPPOST_SCRIPTED_DEVICES", "3", 1);
    const auto exits = run_ranks(kRanks, [&](int rank) {
      if (rank == 1) setenv("FAIL_CALL", fmt::format("{}:719", call).c_str(), 1);
      (void)scripted_driver();
      WorldOptions options;
      options.devices = {0, 1, 2};
      options.setup_timeout_ms = 2'000;
      return fail_to_create(address, rank, options, verdicts[rank]);
    });
    unsetenv("LAMPPOST_SCRIPTED_DEVICES");
    const std::string name(call, std::strchr(call, ':'));
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::string text = verdicts[rank].text;
      EXPECT_EQ(exits[static_cast<std::size_t>(rank)].exit_code, 0) << "rank " << rank << " leaks";
      EXPECT_NE(verdicts[rank].code, LP_SUCCESS);
      EXPECT_EQ(verdicts[rank].code, verdicts[0].code) << text;
      EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
      EXPECT_NE(text.find(name), std::string::npos) << text;
    }
  }
  munmap(verdicts, kRanks * sizeof(Verdict));
}

}  // namespace
}  // namespace lamppost::test
