#include "support/rank_group.hpp"

#include "api/handles.hpp"
#include "fibers/scheduler.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <thread>

namespace lamppost::test {

RankGroup::RankGroup(int rank_count, const GroupOptions& options) {
  lpConfig config = LP_CONFIG_INITIALIZER;
  config.backend = test_backend().backend;
  config.allow_shared_device = test_backend().is_host() ? 0 : 1;
  std::vector<int> devices;
  for (int r = 0; r < rank_count && !test_backend().is_host(); ++r) {
    devices.push_back(test_backend().device_of(r));
  }
  config.timeout_ms = options.timeout_ms;
  config.slot_bytes = options.slot_bytes;
  config.early_launch = options.early_launch ? 1 : 0;
  CreationOptions creation;
  creation.host_kernels = options.variant.kernels();
  creation.max_blocks = options.max_blocks;
  creation.max_block_threads = options.max_block_threads;
  auto created = create_all(rank_count, &config, devices.empty() ? nullptr : devices.data(), creation);
  if (!created.ok()) {
    ADD_FAILURE() << "creation failed: " << created.status().message();
    return;
  }
  for (auto& communicator : created.value()) {
    add(publish(std::move(communicator)).value());
  }
}

void RankGroup::add(lpComm_t comm) {
  const int rank = size();
  comms_.push_back(comm);
  const int device = test_backend().is_host() ? 0 : test_backend().device_of(rank);
  auto workbench = make_workbench(comm, device);
  ASSERT_TRUE(workbench.ok()) << workbench.status().message();
  workbenches_.push_back(workbench.take());
  streams_.push_back(nullptr);
  if (test_backend().is_host()) return;
  const Result<void*> stream = workbenches_.back()->create_stream();
  ASSERT_TRUE(stream.ok()) << stream.status().message();
  streams_.back() = stream.value();
}

RankGroup::~RankGroup() {
  if (testing::Test::HasFailure()) print_health();
  for (std::size_t r = 0; r < comms_.size(); ++r) {
    EXPECT_EQ(lpCommDestroy(comms_[r]), LP_SUCCESS) << lpGetLastError(nullptr);
    if (streams_[r] != nullptr) workbenches_[r]->destroy_stream(streams_[r]);
  }
}

Communicator& RankGroup::communicator(int rank) const { return *find_communicator((*this)[rank]); }

void RankGroup::for_each_rank(int rank_count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int r = 0; r < rank_count; ++r) threads.emplace_back(body, r);
  for (std::thread& thread : threads) thread.join();
}

void RankGroup::synchronize() const {
  for (std::size_t r = 0; r < comms_.size(); ++r) {
    if (streams_[r] == nullptr) {
      EXPECT_EQ(lpCommSynchronize(comms_[r]), LP_SUCCESS) << lpGetLastError(comms_[r]);
      continue;
    }
    const Status status = workbenches_[r]->synchronize(streams_[r]);
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

void RankGroup::print_health() const {
  for (lpComm_t comm : comms_) {
    lpHealth health = LP_HEALTH_INITIALIZER;
    if (lpCommGetHealth(comm, &health) != LP_SUCCESS || health.state == LP_HEALTH_OK) continue;
    std::vector<char> text(lpHealthToString(&health, nullptr, 0));
    lpHealthToString(&health, text.data(), text.size());
    std::printf("health of rank %d: %s\n", health.rank, text.data());
  }
}

std::vector<lpResult_t> RankGroup::errors() const {
  std::vector<lpResult_t> errors;
  for (lpComm_t comm : comms_) {
    lpResult_t error = LP_ERROR_INTERNAL;
    EXPECT_EQ(lpCommGetAsyncError(comm, &error), LP_SUCCESS);
    errors.push_back(error);
  }
  return errors;
}

TestBackend& test_backend() {
  static TestBackend backend;
  return backend;
}

std::uint64_t announce_seed() {
  const char* given = std::getenv("LAMPPOST_HOST_SEED");
  const std::uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}() | 1u;
  std::printf("LAMPPOST_HOST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  fibers::set_host_seed(seed);
  return seed;
}

}  // namespace lamppost::test
