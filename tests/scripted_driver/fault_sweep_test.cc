// Every driver call of a communicator's whole life, made to fail once on one rank: creation, calls on two
// streams, destruction. Nothing hangs, nothing leaks, the error names the call, and the next life
// is a good one.
//
// The life is recorded first; then each (function, nth) has a process of its own, in which rank 1's
// call fails. Of functions that are called very often, the first, the last and some between are taken;
// LAMPPOST_TEST_ALL=1 takes all.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <map>
#include <sstream>
#include <thread>

#include "scripted_driver/ranks.hpp"
#include "support/resource_count.hpp"

namespace lamppost::test {
namespace {

constexpr int kRanks = 2;
constexpr int kVictim = 1;
constexpr int kCode = CUDA_ERROR_LAUNCH_FAILED;  // a code that Lamppost treats like no other

/// What a life left: the first error of each rank, and where it was.
struct Life {
  std::vector<Status> created;
  std::vector<lpResult_t> called = std::vector<lpResult_t>(kRanks, LP_SUCCESS);
  std::vector<std::string> call_text = std::vector<std::string>(kRanks);
  std::vector<lpResult_t> destroyed = std::vector<lpResult_t>(kRanks, LP_SUCCESS);
  std::vector<std::string> destroy_text = std::vector<std::string>(kRanks);
  std::map<std::string, int> before_end;  // the victim's calls before its destruction
};

/// The call and its end on one rank; its own driver calls belong to nobody.
void call_twice(lpComm_t comm, int rank, CUstream stream, void* data, Life& life) {
  const auto index = static_cast<std::size_t>(rank);
  constexpr std::size_t kCount = 100;
  lpResult_t result = LP_SUCCESS;
  for (void* on : {static_cast<void*>(nullptr), static_cast<void*>(stream)}) {
    if (result != LP_SUCCESS) break;
    result = lpAllReduce(data, data, kCount, LP_FLOAT32, LP_SUM, comm, on);
  }
  if (result != LP_SUCCESS) life.call_text[index] = lpGetLastError(comm);
  const lpResult_t waited = lpCommSynchronize(comm);
  if (result == LP_SUCCESS && waited != LP_SUCCESS) {
    result = waited;
    life.call_text[index] = lpGetLastError(comm);
  }
  scripted_driver().set_rank(-1);
  (void)api().cuStreamSynchronize(stream);
  scripted_driver().set_rank(rank);
  if (result == LP_SUCCESS) (void)lpCommGetAsyncError(comm, &result);
  life.called[index] = result;
}

void live_as(World& world, int rank, Life& life) {
  const User user(rank);
  const CUstream stream = user.create_stream();
  CUdeviceptr data = 0;
  must(api().cuMemAlloc(&data, 4096), "cuMemAlloc");
  scripted_driver().set_rank(rank);
  call_twice(world[rank], rank, stream, reinterpret_cast<void*>(data), life);
  scripted_driver().set_rank(-1);
  must(api().cuMemFree(data), "cuMemFree");
  user.destroy_stream(stream);
}

/// One rank after the other, the victim last: it is the one that unmaps.
void destroy_all(World& world, Life& life) {
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    scripted_driver().set_rank(rank);
    life.destroyed[index] = world.destroy(rank);
    if (life.destroyed[index] != LP_SUCCESS) life.destroy_text[index] = lpGetLastError(nullptr);
  }
  scripted_driver().set_rank(-1);
}

/// The victim's calls so far, by name.
std::map<std::string, int> victims_calls() {
  std::map<std::string, int> counts;
  for (const CallRecord& call : scripted_calls()) counts[call.name] += call.rank == kVictim ? 1 : 0;
  return counts;
}

Life live() {
  WorldOptions options;
  options.setup_timeout_ms = 1'500;
  options.timeout_ms = 400;
  World world(options);
  Life life;
  life.created = world.statuses();
  if (!world.ok()) return life;
  RankGroup::for_each_rank(kRanks, [&](int rank) { live_as(world, rank, life); });
  life.before_end = victims_calls();
  destroy_all(world, life);
  return life;
}

bool is_good(const Life& life) {
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    if (!life.created[index].ok() || life.called[index] != LP_SUCCESS ||
        life.destroyed[index] != LP_SUCCESS) {
      return false;
    }
  }
  return true;
}

std::string describe(const Life& life) {
  std::string text;
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    text += fmt::format("\n  rank {}: created {} '{}', called {} '{}', destroyed {} '{}'", rank,
                        static_cast<int>(life.created[rank].code()), life.created[rank].message(),
                        static_cast<int>(life.called[rank]), life.call_text[rank],
                        static_cast<int>(life.destroyed[rank]), life.destroy_text[rank]);
  }
  return text;
}

/// What is left when all communicators are gone.
std::string what_is_left() {
  const ResourceCount count = count_resources();
  return fmt::format("{}, descriptors {}, shared mappings {}",
                     describe(scripted_driver().open_handles()), count.descriptors,
                     count.shared_mappings);
}

// ---- What a failure must look like ---------------------------------------------------------------

bool is_one_of(const std::string& name, std::initializer_list<const char*> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Calls whose failure nobody need hear of: they end something that is over, and what they end is
/// released all the same.
bool may_be_silent(const std::string& name) {
  return is_one_of(name, {"cuMemUnmap", "cuMemAddressFree", "cuMemRelease", "cuMemHostUnregister",
                          "cuEventDestroy", "cuCtxPopCurrent", "cuThreadExchangeStreamCaptureMode",
                          "cuCtxGetCurrent", "cuCtxPushCurrent"});
}

/// Without its context a communicator cannot give back what it holds there (and its control page's
/// address stays registered); and it says so when it keeps memory that a call may still use.
bool may_leak(const Life& life, const std::string& name, bool is_at_end) {
  const std::string& text = life.destroy_text[kVictim];
  return is_at_end && (text.find("kept until the process ends") != std::string::npos ||
                       is_one_of(name, {"cuCtxGetCurrent", "cuCtxPushCurrent",
                                        "cuThreadExchangeStreamCaptureMode"}));
}

std::string names_call(const std::string& text, const std::string& name) {
  return text.find(name) != std::string::npos ? "" : "an error does not name the call";
}

/// What is wrong with how the life went, or nothing.
std::string judge(const Life& life, const std::string& name) {
  if (!life.created[0].ok() || !life.created[1].ok()) {
    if (life.created[0].code() != life.created[1].code()) return "ranks have different errors";
    if (life.created[0].message().find("rank 1") == std::string::npos) return "no rank is named";
    for (const Status& status : life.created) {
      if (std::string wrong = names_call(status.message(), name); !wrong.empty()) return wrong;
    }
    return "";
  }
  if (life.called[kVictim] != LP_SUCCESS) return names_call(life.call_text[kVictim], name);
  if (life.called[0] != LP_SUCCESS) return "only the other rank's call failed";
  if (life.destroyed[0] != LP_SUCCESS) return "the other rank's destruction failed";
  if (life.destroyed[kVictim] != LP_SUCCESS) return names_call(life.destroy_text[kVictim], name);
  return may_be_silent(name) ? "" : "nobody heard of it";
}

/// One case, in a process of its own. `clean`: what a good life leaves.
std::string run_case(const std::string& name, int nth, const std::string& clean) {
  (void)api();  // the start of the driver is everyone's; a case of its own below
  scripted_driver().set_failure(name.c_str(), nth, kCode, kVictim);
  const Life life = live();
  if (!scripted_driver().has_failed()) return "the call was not made" + describe(life);
  scripted_driver().set_failure(nullptr, 0, 0, -1);
  const auto earlier = life.before_end.find(name);
  const bool is_at_end = !life.before_end.empty() &&
                         nth > (earlier == life.before_end.end() ? 0 : earlier->second);
  if (std::string wrong = judge(life, name); !wrong.empty()) return wrong + describe(life);
  if (may_leak(life, name, is_at_end)) return "";
  const Life next = live();
  if (!is_good(next)) {
    return "the next life is no good one" + describe(next) + "\n after" + describe(life);
  }
  const std::string left = what_is_left();
  if (left != clean) {
    return "left: " + left + "\n not: " + clean + describe(life);
  }
  return "";
}

/// "name count" a line for the victim's calls, then what is left.
std::string record() {
  (void)api();
  const Life life = live();
  if (!is_good(life)) return "wrong:" + describe(life);
  std::string text;
  for (const auto& [name, count] : victims_calls()) text += fmt::format("{} {}\n", name, count);
  return text + "left " + what_is_left();
}

std::vector<int> chosen(int count) {
  std::vector<int> all;
  const bool wants_all = std::getenv("LAMPPOST_TEST_ALL") != nullptr;
  for (int nth = 1; nth <= count; ++nth) {
    const bool is_taken = nth <= 2 || nth == count || nth % (count / 6 + 1) == 0;
    if (wants_all || count <= 8 || is_taken) all.push_back(nth);
  }
  return all;
}

TEST(FaultSweep, EveryCallOfALife) {
  const std::string recorded = in_child({}, record);
  const std::size_t left = recorded.find("left ");
  ASSERT_NE(left, std::string::npos) << recorded;
  const std::string clean = recorded.substr(left + 5);
  std::istringstream lines(recorded.substr(0, left));
  std::string name;
  int count = 0;
  int cases = 0;
  while (lines >> name >> count) {
    for (const int nth : chosen(count)) {
      ++cases;
      const std::string wrong = in_child({}, [&] { return run_case(name, nth, clean); });
      EXPECT_EQ(wrong, "") << name << ", call " << nth << " of " << count;
    }
  }
  EXPECT_GT(cases, 60);
  std::printf("%d cases\n", cases);
}

/// The calls that start the driver are made once a process, by any rank: their failure is all ranks'.
TEST(FaultSweep, TheStartOfTheDriver) {
  for (const char* name : {"cuInit", "cuDeviceGetCount"}) {
    SCOPED_TRACE(name);
    const std::string said = in_child({}, [&] {
      (void)scripted_driver();
      scripted_driver().set_failure(name, 1, kCode, -1);
      const World world({});
      if (world.ok()) return std::string("created all the same");
      if (world.statuses()[0].code() != world.statuses()[1].code()) return std::string("differ");
      return names_call(world.statuses()[0].message(), name) +
             names_call(world.statuses()[1].message(), name);
    });
    EXPECT_EQ(said, "");
  }
}

}  // namespace
}  // namespace lamppost::test
