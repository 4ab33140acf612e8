// Which device a rank gets, and what a rank has there: a communicator, a workbench, a stream.
#pragma once

#include <lamppost/communicator.hpp>
#include <lamppost/status.hpp>
#include <memory>
#include <vector>

#include "driver/workbench.hpp"
#include "tools/bench/options.hpp"

namespace lamppost::bench {

/// The device of the process's rank `local_rank`: LP_DEFAULT on the host (device_count 0), else the
/// rank's own number, by turns where devices are shared. Pure.
int device_of(int local_rank, int device_count, Sharing sharing);

/// Devices that the ranks of this run can be on; 0: the host backend. Starts the driver, so before
/// any other use of it the environment is made fit for shared devices here.
int prepare_devices(const Options& options);

lpConfig config_of(const Options& options, int device);

/// One rank of a run. Members are declared in the order in which they depend on each other.
class RankSeat {
 public:
  /// Takes the communicator in. `device` as given to it.
  static Result<std::unique_ptr<RankSeat>> create(Communicator communicator, int device);
  ~RankSeat();
  RankSeat(const RankSeat&) = delete;
  RankSeat& operator=(const RankSeat&) = delete;

  Communicator& communicator() { return communicator_; }
  Workbench& workbench() { return *workbench_; }
  /// The stream that all calls of this rank are made on.
  void* stream() const { return stream_; }
  int device() const { return device_; }

 private:
  RankSeat() = default;

  std::unique_ptr<Workbench> workbench_;
  void* stream_ = nullptr;
  int device_ = LP_DEFAULT;
  Communicator communicator_;
};

/// All ranks of a communicator, in this process.
Result<std::vector<Communicator>> create_thread_ranks(const Options& options, int device_count);

}  // namespace lamppost::bench
