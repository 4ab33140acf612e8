// FiberScheduler: runs a kernel launch on the calling OS thread, one fiber a GPU thread. Owned by a
// host stream and used by its one worker thread; fibers never migrate.
//
// All fibers of all blocks share one run queue. A fiber leaves it at a meeting point (block
// barrier, lane exchange) and comes back when the last one arrives; a failed poll goes to its end.
// When every runnable fiber has polled in vain, the OS thread yields its core, and after a while
// sleeps.
#pragma once

#include <cstdint>
#include <memory>

namespace lamppost::device {
struct HostKernel;
}

namespace lamppost::fibers {

/// Seed of the fault targets' generators and of the order of fibers. 0: fibers run in thread order
/// and generators are seeded from the clock. Set from LAMPPOST_HOST_SEED and by tests; applies to
/// later launches of all schedulers. Any thread.
void set_host_seed(std::uint64_t seed);

class FiberScheduler {
 public:
  /// `stream_id` makes the generators of different streams differ.
  explicit FiberScheduler(std::uint64_t stream_id);
  ~FiberScheduler();
  FiberScheduler(const FiberScheduler&) = delete;
  FiberScheduler& operator=(const FiberScheduler&) = delete;

  /// Runs the launch to its end. block_threads is a multiple of kernel.lanes. Stops the process
  /// with a message if the kernel's threads diverge at a meeting point or overrun a stack.
  void run(const device::HostKernel& kernel, std::uint32_t grid_blocks, std::uint32_t block_threads,
           const void* args);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lamppost::fibers
