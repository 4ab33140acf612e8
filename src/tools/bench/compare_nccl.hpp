// NCCL's all-reduce beside ours, in the same run on the same devices. libnccl.so.2 is opened at run
// time; its prototypes are written out here, since no header of it is needed to build.
#pragma once

#include <lamppost/status.hpp>
#include <memory>

#include "driver/workbench.hpp"
#include "tools/bench/batch.hpp"
#include "tools/bench/devices.hpp"
#include "tools/bench/world.hpp"

namespace lamppost::bench {

/// Opens the library; later calls give the first one's answer. Call it before ranks are threads: it
/// sets NCCL_NVLS_ENABLE=0 where that is not set, since in-switch sums are not what ours is
/// compared with and not every machine can run them. NOT_SUPPORTED with the reason.
Status load_nccl();

/// One rank's NCCL communicator. Belongs to the rank's thread.
class NcclRank {
 public:
  /// Collective; load_nccl() was ok. Every rank gets one, or every rank an error.
  static Result<std::unique_ptr<NcclRank>> create(World& world, RankSeat& seat);
  virtual ~NcclRank() = default;

  /// ncclAllReduce, as a sum. This object and `workload` must outlive the result.
  virtual Issue issue(const Workload& workload) = 0;
  /// What went wrong in enqueued calls, if anything.
  virtual Status async_error() = 0;
  /// The seat's workbench with memory of ncclMemAlloc in symmetric windows; allocating is
  /// collective. Null where this NCCL has none.
  virtual Workbench* symmetric_workbench() = 0;
};

}  // namespace lamppost::bench
