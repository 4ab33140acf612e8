// RankGroup: all ranks of one communicator in this process, each with a thread to call from when a
// test needs them to act at once. Built through the same creation code as lpCommInitAll, with a
// host target and launch limits of the test's choice. Destroys on exit and checks that it
// succeeded.
#pragma once

#include <lamppost/lamppost.h>

#include <functional>
#include <vector>

#include "api/creation.hpp"
#include "support/host_variants.hpp"
#include "support/sanitizer.hpp"
#include "support/test_backend.hpp"

namespace lamppost::test {

struct GroupOptions {
  HostVariant variant = kHostVariants[0];
  // 0: the backend's. Fewer fibers where a sanitizer makes each of them dear.
  std::uint32_t max_blocks = kHasSanitizer ? 2 : 0;
  std::uint32_t max_block_threads = kHasSanitizer ? 64 : 0;
  std::int64_t timeout_ms = 30'000;
  std::uint64_t slot_bytes = 256 * 1024;
  bool early_launch = false;
};

/// All ranks' devices of a group: rank r on device r % device count (GPUs).
class RankGroup {
 public:
  explicit RankGroup(int rank_count, const GroupOptions& options = {});
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  int size() const { return static_cast<int>(comms_.size()); }
  lpComm_t operator[](int rank) const { return comms_[static_cast<std::size_t>(rank)]; }
  Communicator& communicator(int rank) const;
  /// The rank's own stream: null on the host (the communicator's), a stream of its own on GPUs, where
  /// ranks may share a device and then must not share its default stream.
  void* stream(int rank) const { return streams_[static_cast<std::size_t>(rank)]; }
  /// Streams and graphs for a rank.
  Workbench& workbench(int rank) const { return *workbenches_[static_cast<std::size_t>(rank)]; }

  /// Runs `body(rank)` on a thread a rank; returns when all have ended.
  static void for_each_rank(int rank_count, const std::function<void(int)>& body);
  /// Waits for stream(rank) of all ranks.
  void synchronize() const;
  /// The sticky errors, by rank.
  std::vector<lpResult_t> errors() const;

 private:
  void add(lpComm_t comm);
  /// Of every rank that has something to tell; after a failed test.
  void print_health() const;

  std::vector<lpComm_t> comms_;
  std::vector<std::unique_ptr<Workbench>> workbenches_;
  std::vector<void*> streams_;
};

/// Sets the host target's seed and prints it, so that a failure can be repeated with
/// LAMPPOST_HOST_SEED. A test that uses random numbers takes them from here.
std::uint64_t announce_seed();

}  // namespace lamppost::test
