// The CUDA backend on the scripted driver, ranks as threads: right results on two and three devices and on
// a shared one, eager and in graphs; which device a rank takes; what the caller's thread and captures
// keep.
#include <gtest/gtest.h>

#include <thread>

#include "bootstrap/thread_bootstrap.hpp"
#include "scripted_driver/ranks.hpp"

namespace lamppost::test {
namespace {

class Backend : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("LAMPPOST_SCRIPTED_DEVICES", "3", 1);
    setenv("LAMPPOST_SCRIPTED_PAGEABLE", "1", 1);  // tensors are ordinary memory
    (void)scripted_driver();
  }
  // A first creation opens devices for the life of the process.
  void SetUp() override {
    { const World warm_up({{0, 1, 2}}); }
    before_ = scripted_driver().open_handles();
    scripted_driver().clear_calls();
  }
  void TearDown() override {
    EXPECT_EQ(scripted_driver().open_handles(), before_)
        << describe(scripted_driver().open_handles()) << ", was " << describe(before_);
  }

 private:
  ScriptedHandles before_;
};

void expect_all_ok(const World& world) {
  for (const Status& status : world.statuses()) ASSERT_TRUE(status.ok()) << status.message();
}

void run_calls(const WorldOptions& options) {
  Random random(announce_seed());
  const World world(options);
  ASSERT_NO_FATAL_FAILURE(expect_all_ok(world));
  for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4099},
                                    std::uint64_t{300'000}}) {
    PlainCase plain;
    plain.count = count;
    plain.type = random_type(random);
    plain.in_place = random() % 2 == 0;
    run_and_check(world, options, *make_plain_call(world.size(), plain, random));
  }
  for (const std::uint64_t hidden : {std::uint64_t{64}, std::uint64_t{2880}}) {
    FusedCase fused;
    fused.tokens = 5;
    fused.hidden = hidden;
    fused.type = random_type(random);
    run_and_check(world, options, *make_fused_call(world.size(), fused, random));
  }
}

TEST_F(Backend, TwoDevices) { run_calls({{0, 1}}); }
TEST_F(Backend, ThreeDevicesInAnotherOrder) { run_calls({{2, 0, 1}}); }
TEST_F(Backend, ThreeRanksOnOneDevice) {
  WorldOptions options;
  options.devices = {1, 1, 1};
  options.allow_shared_device = true;
  run_calls(options);
}

TEST_F(Backend, DefaultStream) {
  Random random(announce_seed());
  const World world({{0, 1}});
  ASSERT_NO_FATAL_FAILURE(expect_all_ok(world));
  auto call = make_plain_call(2, {}, random);
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(call->enqueue(world[rank], rank, nullptr), LP_SUCCESS) << lpGetLastError(world[rank]);
  }
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(lpCommSynchronize(world[rank]), LP_SUCCESS) << lpGetLastError(world[rank]);
  }
  call->expect_right();
}

TEST_F(Backend, CallsOnSeveralStreamsKeepTheirOrder) {
  Random random(announce_seed());
  const World world({{0, 1}});
  ASSERT_NO_FATAL_FAILURE(expect_all_ok(world));
  const User users[] = {User(0), User(1)};
  CUstream streams[2][2];
  for (int rank = 0; rank < 2; ++rank) {
    must(api().cuCtxSetCurrent(users[rank].context()), "cuCtxSetCurrent");
    for (CUstream& stream : streams[rank]) stream = users[rank].create_stream();
  }
  PlainCase shape;
  shape.count = 5000;
  std::vector<std::unique_ptr<TestCall>> calls;
  for (int i = 0; i < 8; ++i) {
    calls.push_back(make_plain_call(2, shape, random));
    for (int rank = 0; rank < 2; ++rank) {
      ASSERT_EQ(calls.back()->enqueue(world[rank], rank, streams[rank][i % 2]), LP_SUCCESS);
    }
  }
  for (auto& of_rank : streams) {
    for (CUstream stream : of_rank) {
      users[0].synchronize(stream);
      users[0].destroy_stream(stream);
    }
  }
  for (auto& call : calls) call->expect_right();
  EXPECT_GT(count_calls("cuStreamWaitValue32"), 0);
}

TEST_F(Backend, Graphs) {
  Random random(announce_seed());
  const World world({{0, 1}});
  ASSERT_NO_FATAL_FAILURE(expect_all_ok(world));
  PlainCase plain;
  plain.count = 3000;
  FusedCase fused;
  fused.tokens = 3;
  fused.hidden = 512;
  std::vector<std::unique_ptr<TestCall>> calls;
  calls.push_back(make_plain_call(2, plain, random));
  calls.push_back(make_fused_call(2, fused, random));
  CUgraphExec graphs[2];
  CUstream streams[2];
  for (int rank = 0; rank < 2; ++rank) {
    const User user(rank);
    streams[rank] = user.create_stream();
    user.begin_capture(streams[rank], CU_STREAM_CAPTURE_MODE_GLOBAL);
    for (auto& call : calls) {
      ASSERT_EQ(call->enqueue(world[rank], rank, streams[rank]), LP_SUCCESS)
          << lpGetLastError(world[rank]);
    }
    graphs[rank] = user.end_capture(streams[rank]);
  }
  for (int replay = 0; replay < 4; ++replay) {
    for (auto& call : calls) call->refill(random);
    for (int rank = 0; rank < 2; ++rank) User(rank).launch_graph(graphs[rank], streams[rank]);
    for (int rank = 0; rank < 2; ++rank) User(rank).synchronize(streams[rank]);
    for (auto& call : calls) call->expect_right();
  }
  for (int rank = 0; rank < 2; ++rank) {
    must(api().cuGraphExecDestroy(graphs[rank]), "cuGraphExecDestroy");
    User(rank).destroy_stream(streams[rank]);
  }
}

TEST_F(Backend, AGraphOfTwoStreamsKeepsTheOrder) {
  Random random(announce_seed());
  const World world({{0, 1}});
  ASSERT_NO_FATAL_FAILURE(expect_all_ok(world));
  std::vector<std::unique_ptr<TestCall>> calls;
  for (int i = 0; i < 2; ++i) calls.push_back(make_plain_call(2, {}, random));
  CUgraphExec graphs[2];
  CUstream streams[2][2];
  for (int rank = 0; rank < 2; ++rank) {
    const User user(rank);
    CUevent fork = nullptr;
    CUevent join = nullptr;
    must(api().cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    must(api().cuEventCreate(&join, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    for (CUstream& stream : streams[rank]) stream = user.create_stream();
    user.begin_capture(streams[rank][0], CU_STREAM_CAPTURE_MODE_GLOBAL);
    must(api().cuEventRecord(fork, streams[rank][0]), "cuEventRecord");
    must(api().cuStreamWaitEvent(streams[rank][1], fork, 0), "cuStreamWaitEvent");
    const int waits = count_calls("cuStreamWaitEvent");
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(calls[static_cast<std::size_t>(i)]->enqueue(world[rank], rank, streams[rank][i]),
                LP_SUCCESS)
          << lpGetLastError(world[rank]);
    }
    EXPECT_GT(count_calls("cuStreamWaitEvent"), waits) << "the second call is not ordered";
    must(api().cuEventRecord(join, streams[rank][1]), "cuEventRecord");
    must(api().cuStreamWaitEvent(streams[rank][0], join, 0), "cuStreamWaitEvent");
    graphs[rank] = user.end_capture(streams[rank][0]);
    must(api().cuEventDestroy(fork), "cuEventDestroy");
    must(api().cuEventDestroy(join), "cuEventDestroy");
  }
  for (int rank = 0; rank < 2; ++rank) User(rank).launch_graph(graphs[rank], streams[rank][0]);
  for (int rank = 0; rank < 2; ++rank) {
    const User user(rank);
    user.synchronize(streams[rank][0]);
    for (CUstream stream : streams[rank]) user.destroy_stream(stream);
    must(api().cuGraphExecDestroy(graphs[rank]), "cuGraphExecDestroy");
  }
  for (auto& call : calls) call->expect_right();
}

TEST_F(Backend, ASharedDeviceIsRefusedByName) {
  const World world({{0, 2, 2}});
  for (const Status& status : world.statuses()) {
    EXPECT_EQ(status.code(), LP_ERROR_INVALID_USAGE);
    EXPECT_NE(status.message().find("ranks 1 and 2"), std::string::npos) << status.message();
    // The tools' name of device 2: its UUID is "scripted-device" and a byte 2.
    EXPECT_NE(status.message().find("GPU-73637269-7074-6564-2d64-657669636502"), std::string::npos)
        << status.message();
    EXPECT_NE(status.message().find("allow_shared_device"), std::string::npos);
  }
}

TEST_F(Backend, ADeviceThatDoesNotExist) {
  const World world({{0, 7}});
  for (const Status& status : world.statuses()) {
    EXPECT_EQ(status.code(), LP_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(status.message().find("rank 1"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("device is 7"), std::string::npos) << status.message();
  }
}

/// The device that one rank takes when this thread has `current`'s context (-1: none).
std::string device_of_default(int current) {
  std::unique_ptr<User> user;
  if (current >= 0) user = std::make_unique<User>(current);
  lpConfig config = config_of({{-1}}, 0);
  auto bootstrap = make_thread_bootstrap(std::make_shared<ThreadGroup>(1), 0);
  auto created = create_communicator(*bootstrap, resolve_config(&config));
  if (!created.ok()) return created.status().message();
  const std::string name = created.value()->driver().device_facts().name;
  EXPECT_TRUE(created.value()->shut_down().ok());
  return name;
}

TEST_F(Backend, TheDeviceOfTheCurrentContextElseTheFirst) {
  EXPECT_EQ(device_of_default(2), "Scripted GPU 2");
  EXPECT_EQ(device_of_default(1), "Scripted GPU 1");
  EXPECT_EQ(device_of_default(-1), "Scripted GPU 0");
}

TEST_F(Backend, TheCallersContextIsRestored) {
  const User outer(1);
  const User inner(2);
  const auto expect_unchanged = [&](const char* after) {
    CUcontext current = nullptr;
    must(api().cuCtxGetCurrent(&current), "cuCtxGetCurrent");
    EXPECT_EQ(current, inner.context()) << after;
  };
  lpComm_t comm = nullptr;
  const lpConfig config = config_of({{0}}, 0);
  ASSERT_EQ(lpCommInitAll(&comm, 1, nullptr, &config), LP_SUCCESS) << lpGetLastError(nullptr);
  expect_unchanged("lpCommInitAll");
  std::vector<float> data(100, 1.0f);
  EXPECT_EQ(lpAllReduce(data.data(), data.data(), 100, LP_FLOAT32, LP_SUM, comm, nullptr),
            LP_SUCCESS);
  expect_unchanged("lpAllReduce");
  EXPECT_EQ(lpCommSynchronize(comm), LP_SUCCESS);
  expect_unchanged("lpCommSynchronize");
  lpResult_t error = LP_SUCCESS;
  EXPECT_EQ(lpCommGetAsyncError(comm, &error), LP_SUCCESS);
  expect_unchanged("lpCommGetAsyncError");
  lpHealth health = LP_HEALTH_INITIALIZER;
  EXPECT_EQ(lpCommGetHealth(comm, &health), LP_SUCCESS);
  expect_unchanged("lpCommGetHealth");
  EXPECT_EQ(lpCommSetTimeout(comm, 1000), LP_SUCCESS);
  expect_unchanged("lpCommSetTimeout");
  EXPECT_EQ(lpCommDestroy(comm), LP_SUCCESS) << lpGetLastError(nullptr);
  expect_unchanged("lpCommDestroy");
}  // ~User: the stack below is unchanged too

TEST_F(Backend, ALaunchThatACaptureForbidsIsNotCapturable) {
  OneRank rank;
  scripted_driver().set_failure("cuLaunchKernelEx", 1, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, -1);
  EXPECT_EQ(rank.call(), LP_ERROR_NOT_CAPTURABLE);
  EXPECT_NE(std::string(lpGetLastError(rank.comm)).find("cuLaunchKernelEx"), std::string::npos);
  scripted_driver().set_failure(nullptr, 0, 0, -1);
  EXPECT_EQ(rank.call(), LP_SUCCESS);
  EXPECT_EQ(lpCommDestroy(rank.comm), LP_SUCCESS) << lpGetLastError(nullptr);
}

TEST_F(Backend, ACaptureSurvivesTheCallersOtherCallsAndOtherThreads) {
  Random random(announce_seed());
  const World world({{0, 1}});
  ASSERT_NO_FATAL_FAILURE(expect_all_ok(world));
  auto call = make_plain_call(2, {}, random);
  CUgraphExec graphs[2];
  CUstream streams[2];
  for (int rank = 0; rank < 2; ++rank) {
    const User user(rank);
    streams[rank] = user.create_stream();
    user.begin_capture(streams[rank], CU_STREAM_CAPTURE_MODE_GLOBAL);
    ASSERT_EQ(call->enqueue(world[rank], rank, streams[rank]), LP_SUCCESS);
    // Another thread makes and destroys communicators meanwhile; this one asks how things are.
    std::thread([] { expect_all_ok(World({{2, 0}})); }).join();
    lpResult_t error = LP_SUCCESS;
    EXPECT_EQ(lpCommGetAsyncError(world[rank], &error), LP_SUCCESS);
    lpHealth health = LP_HEALTH_INITIALIZER;
    EXPECT_EQ(lpCommGetHealth(world[rank], &health), LP_SUCCESS);
    graphs[rank] = user.end_capture(streams[rank]);  // fails if anything broke the capture
  }
  for (int rank = 0; rank < 2; ++rank) User(rank).launch_graph(graphs[rank], streams[rank]);
  for (int rank = 0; rank < 2; ++rank) {
    User(rank).synchronize(streams[rank]);
    User(rank).destroy_stream(streams[rank]);
    must(api().cuGraphExecDestroy(graphs[rank]), "cuGraphExecDestroy");
  }
  call->expect_right();
}

}  // namespace
}  // namespace lamppost::test
