#include "scripted_driver/ranks.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "api/handles.hpp"
#include "bootstrap/thread_bootstrap.hpp"

namespace lamppost::test {

lpConfig config_of(const WorldOptions& options, int rank) {
  lpConfig config = LP_CONFIG_INITIALIZER;
  config.backend = LP_BACKEND_CUDA;
  config.device = options.devices[static_cast<std::size_t>(rank)];
  config.timeout_ms = options.timeout_ms;
  config.setup_timeout_ms = options.setup_timeout_ms;
  config.slot_bytes = 256 * 1024;
  config.allow_shared_device = options.allow_shared_device ? 1 : 0;
  config.early_launch = options.early_launch ? 1 : 0;
  return config;
}

World::World(const WorldOptions& options)
    : statuses_(options.devices.size()), comms_(options.devices.size(), nullptr) {
  auto group = std::make_shared<ThreadGroup>(size());
  RankGroup::for_each_rank(size(), [&](int rank) {
    scripted_driver().set_rank(rank);
    const auto index = static_cast<std::size_t>(rank);
    auto bootstrap = make_thread_bootstrap(group, rank);
    const lpConfig config = config_of(options, rank);
    auto created = create_communicator(*bootstrap, resolve_config(&config));
    statuses_[index] = created.status();
    if (created.ok()) comms_[index] = publish(created.take()).value();
  });
}

World::~World() {
  for (int rank = 0; rank < size(); ++rank) (void)destroy(rank);
}

bool World::ok() const {
  for (const Status& status : statuses_) {
    if (!status.ok()) return false;
  }
  return true;
}

lpResult_t World::destroy(int rank) {
  lpComm_t comm = std::exchange(comms_[static_cast<std::size_t>(rank)], nullptr);
  return comm == nullptr ? LP_SUCCESS : lpCommDestroy(comm);
}

const CudaApi& api() {
  (void)scripted_driver();
  const Result<const CudaApi*> loaded = load_cuda_api();
  if (!loaded.ok()) {
    std::fprintf(stderr, "%s\n", loaded.status().message().c_str());
    std::exit(2);
  }
  return *loaded.value();
}

void must(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s: %d\n", call, static_cast<int>(result));
  std::abort();
}

User::User(int device) : device_(device) {
  must(api().cuDevicePrimaryCtxRetain(&context_, device), "cuDevicePrimaryCtxRetain");
  must(api().cuCtxPushCurrent(context_), "cuCtxPushCurrent");
}

User::~User() {
  CUcontext popped = nullptr;
  must(api().cuCtxPopCurrent(&popped), "cuCtxPopCurrent");
  if (popped != context_) {
    std::fprintf(stderr, "another context is current at the end\n");
    std::abort();
  }
  must(api().cuDevicePrimaryCtxRelease(device_), "cuDevicePrimaryCtxRelease");
}

CUstream User::create_stream(unsigned flags) const {
  CUstream stream = nullptr;
  must(api().cuStreamCreate(&stream, flags), "cuStreamCreate");
  return stream;
}
void User::destroy_stream(CUstream stream) const {
  must(api().cuStreamDestroy(stream), "cuStreamDestroy");
}
void User::synchronize(CUstream stream) const {
  must(api().cuStreamSynchronize(stream), "cuStreamSynchronize");
}
void User::begin_capture(CUstream stream, CUstreamCaptureMode mode) const {
  must(api().cuStreamBeginCapture(stream, mode), "cuStreamBeginCapture");
}
CUgraphExec User::end_capture(CUstream stream) const {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  must(api().cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
  must(api().cuGraphInstantiate(&exec, graph, 0), "cuGraphInstantiate");
  must(api().cuGraphDestroy(graph), "cuGraphDestroy");
  return exec;
}
void User::launch_graph(CUgraphExec graph, CUstream stream) const {
  must(api().cuGraphLaunch(graph, stream), "cuGraphLaunch");
}

void run_and_check(const World& world, const WorldOptions& options, TestCall& call) {
  std::vector<std::unique_ptr<User>> users;
  std::vector<CUstream> streams;
  for (int rank = 0; rank < world.size(); ++rank) {
    users.push_back(std::make_unique<User>(options.devices[static_cast<std::size_t>(rank)]));
    streams.push_back(users.back()->create_stream());
    EXPECT_EQ(call.enqueue(world[rank], rank, streams.back()), LP_SUCCESS)
        << lpGetLastError(world[rank]);
  }
  for (CUstream stream : streams) users[0]->synchronize(stream);
  for (CUstream stream : streams) users[0]->destroy_stream(stream);
  while (!users.empty()) users.pop_back();
  call.expect_right();
}

OneRank::OneRank() {
  const lpConfig config = config_of({{0}}, 0);
  EXPECT_EQ(lpCommInitAll(&comm, 1, nullptr, &config), LP_SUCCESS) << lpGetLastError(nullptr);
}

lpResult_t OneRank::call() {
  return lpAllReduce(data.data(), data.data(), 100, LP_FLOAT32, LP_SUM, comm, nullptr);
}

}  // namespace lamppost::test
