// Creation fails on one rank at one step: every rank gets the same error, which names rank and
// step, and nothing is left behind. And: ranks that disagree on their configuration.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "bootstrap/thread_bootstrap.hpp"
#include "support/environment_guard.hpp"
#include "support/rank_group.hpp"
#include "support/resource_count.hpp"

namespace lamppost::test {
namespace {

TEST(CreationFault, EveryStepOnEveryRank) {
  { RankGroup warm_up(3); }
  const ResourceCount before = count_resources();
  for (const char* step : {"allocate", "fill", "import", "self-test"}) {
    for (int rank = 0; rank < 3; ++rank) {
      SCOPED_TRACE(testing::Message() << step << " on rank " << rank);
      const EnvironmentGuard fault("LAMPPOST_FAULT", fmt::format("rank={},step={}", rank, step));
      lpComm_t comms[3] = {};
      lpConfig config = LP_CONFIG_INITIALIZER;
      config.setup_timeout_ms = 2000;
      config.slot_bytes = 256 * 1024;
      EXPECT_EQ(lpCommInitAll(comms, 3, nullptr, &config), LP_ERROR_SYSTEM);
      const std::string text = lpGetLastError(nullptr);
      EXPECT_NE(text.find(fmt::format("rank {}", rank)), std::string::npos) << text;
      EXPECT_NE(text.find("LAMPPOST_FAULT"), std::string::npos) << text;
    }
  }
  const ResourceCount after = count_resources();
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_EQ(after.threads, before.threads);
  EXPECT_EQ(after.shared_mappings, before.shared_mappings);
}

TEST(CreationFault, AnUnreadableFaultIsRefused) {
  lpComm_t comm = nullptr;
  for (const char* text : {"rank=x", "phase=lunch", "step=tea", "hello", "rank=1,call="}) {
    const EnvironmentGuard fault("LAMPPOST_FAULT", text);
    EXPECT_EQ(lpCommInitAll(&comm, 1, nullptr, nullptr), LP_ERROR_INVALID_ARGUMENT) << text;
  }
}

TEST(CreationFault, AnUnreadableSeedIsRefused) {
  lpComm_t comm = nullptr;
  {
    const EnvironmentGuard seed("LAMPPOST_HOST_SEED", "17");
    ASSERT_EQ(lpCommInitAll(&comm, 1, nullptr, nullptr), LP_SUCCESS);
    EXPECT_EQ(lpCommDestroy(comm), LP_SUCCESS);
  }
  const EnvironmentGuard seed("LAMPPOST_HOST_SEED", "seventeen");
  EXPECT_EQ(lpCommInitAll(&comm, 1, nullptr, nullptr), LP_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(lpGetLastError(nullptr)).find("'seventeen'"), std::string::npos);
}

/// Creates `count` ranks, each with the config that `config_of` gives; returns every rank's Status.
std::vector<Status> create_each(int count, const std::function<lpConfig(int)>& config_of) {
  auto group = std::make_shared<ThreadGroup>(count);
  std::vector<Status> statuses(static_cast<std::size_t>(count));
  RankGroup::for_each_rank(count, [&](int rank) {
    auto bootstrap = make_thread_bootstrap(group, rank);
    const lpConfig config = config_of(rank);
    auto created = create_communicator(*bootstrap, resolve_config(&config));
    statuses[static_cast<std::size_t>(rank)] = created.status();
    if (created.ok()) statuses[static_cast<std::size_t>(rank)] = created.value()->shut_down();
  });
  return statuses;
}

TEST(CreationFault, RanksThatDisagreeAreToldWhoAndWhat) {
  const auto differ = [](int rank) {
    lpConfig config = LP_CONFIG_INITIALIZER;
    if (rank == 1) config.slot_bytes = 1 << 20;
    return config;
  };
  for (const Status& status : create_each(3, differ)) {
    EXPECT_EQ(status.code(), LP_ERROR_BOOTSTRAP);
    EXPECT_NE(status.message().find("slot_bytes: rank 0 has 2097152, rank 1 has 1048576"),
              std::string::npos)
        << status.message();
  }
}

TEST(CreationFault, AWrongConfigOnOneRankFailsAll) {
  const auto wrong = [](int rank) {
    lpConfig config = LP_CONFIG_INITIALIZER;
    if (rank == 2) config.slot_bytes = 17;
    return config;
  };
  for (const Status& status : create_each(3, wrong)) {
    EXPECT_EQ(status.code(), LP_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(status.message().find("rank 2"), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace lamppost::test
