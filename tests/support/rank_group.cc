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
  config.backend = LP_BACKEND_HOST;
  config.timeout_ms = options.timeout_ms;
  config.slot_bytes = options.slot_bytes;
  CreationOptions creation;
  creation.host_kernels = options.variant.kernels();
  creation.max_blocks = options.max_blocks;
  creation.max_block_threads = options.max_block_threads;
  auto created = create_all(rank_count, &config, nullptr, creation);
  if (!created.ok()) {
    ADD_FAILURE() << "creation failed: " << created.status().message();
    return;
  }
  for (auto& communicator : created.value()) {
    comms_.push_back(publish(std::move(communicator)).value());
  }
}

RankGroup::~RankGroup() {
  for (lpComm_t comm : comms_) {
    EXPECT_EQ(lpCommDestroy(comm), LP_SUCCESS) << lpGetLastError(nullptr);
  }
}

Communicator& RankGroup::communicator(int rank) const { return *find_communicator((*this)[rank]); }

void RankGroup::for_each_rank(int rank_count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int r = 0; r < rank_count; ++r) threads.emplace_back(body, r);
  for (std::thread& thread : threads) thread.join();
}

void RankGroup::synchronize() const {
  for (lpComm_t comm : comms_) {
    EXPECT_EQ(lpCommSynchronize(comm), LP_SUCCESS) << lpGetLastError(comm);
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

std::uint64_t announce_seed() {
  const char* given = std::getenv("LAMPPOST_HOST_SEED");
  const std::uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}() | 1u;
  std::printf("LAMPPOST_HOST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  fibers::set_host_seed(seed);
  return seed;
}

}  // namespace lamppost::test
