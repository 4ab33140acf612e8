// Nothing leaks: 300 times create, use, destroy, with at most 64 open files.
#include "support/collective_cases.hpp"
#include "support/resource_count.hpp"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>

#include <ostream>

namespace lamppost::test {

void PrintTo(const ResourceCount& c, std::ostream* os) {
  *os << c.descriptors << " descriptors, " << c.threads << " threads, " << c.mappings
      << " mappings, " << c.shared_mappings << " shared, " << c.shm_files << " in /dev/shm";
}

namespace {

void cycle(int count, Random& random) {
  for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
    RankGroup group(2);
    lpStream_t stream = nullptr;
    lpGraph_t graph = nullptr;
    ASSERT_EQ(lpStreamCreate(group[0], &stream), LP_SUCCESS);
    run_and_check(group, *make_plain_call(2, {64, LP_BFLOAT16, false, 0}, random));
    ASSERT_EQ(lpStreamBeginCapture(stream), LP_SUCCESS);
    ASSERT_EQ(lpStreamEndCapture(stream, &graph), LP_SUCCESS);
    ASSERT_EQ(lpGraphDestroy(graph), LP_SUCCESS);
    ASSERT_EQ(lpStreamDestroy(stream), LP_SUCCESS);
  }
}

TEST(LifeCycle, ThreeHundredTimesLeavesNothingBehind) {
  // One allocator arena: otherwise glibc maps arenas for threads as they come and go.
  mallopt(M_ARENA_MAX, 1);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  Random random(announce_seed());
  cycle(20, random);  // caches of the C library fill
  const ResourceCount before = count_resources();
  cycle(300, random);
  EXPECT_EQ(count_resources(), before);
}

TEST(LifeCycle, RunningOutOfDescriptorsIsAnErrorWithAdvice) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlim_t kept = limit.rlim_cur;
  limit.rlim_cur = static_cast<rlim_t>(entries("/proc/self/fd")) + 1;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  lpComm_t comms[3] = {};
  const lpResult_t result = lpCommInitAll(comms, 3, nullptr, nullptr);
  limit.rlim_cur = kept;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(result, LP_ERROR_RESOURCE_LIMIT);
  EXPECT_NE(std::string(lpGetLastError(nullptr)).find("ulimit -n"), std::string::npos)
      << lpGetLastError(nullptr);
}

}  // namespace
}  // namespace lamppost::test
