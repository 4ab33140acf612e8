// One rank's side of a row: its buffers, and batches of calls on them, eager or as a graph. Belongs
// to one rank and one thread.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <lamppost/communicator.hpp>
#include <lamppost/status.hpp>
#include <memory>

#include "tools/bench/options.hpp"
#include "tools/bench/workload.hpp"

namespace lamppost::bench {

/// Memory aligned to a page, followed by a guard that nobody may write.
class GuardedBuffer {
 public:
  /// Not filled. bytes may be 0.
  static Result<GuardedBuffer> create(std::size_t bytes);

  void* data() { return memory_.get(); }
  const void* data() const { return memory_.get(); }
  std::size_t bytes() const { return bytes_; }
  void fill_bytes(int value);
  /// Guard bytes that were overwritten.
  std::size_t changed_guard_bytes() const;

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t bytes_ = 0;
};

/// The tensors of one rank. In place, `out` is `in` and `residual_out` is `residual_in`. A plain
/// all-reduce has no residual and no weight.
class RowBuffers {
 public:
  static Result<RowBuffers> create(const Workload& workload, const Options& options);

  /// Inputs as the workload says, outputs full of NaN, so that an element nobody wrote is wrong.
  void reset(const Workload& workload, int rank);

  const void* in() const { return in_.data(); }
  void* out() { return in_place_ ? in_.data() : out_.data(); }
  const void* residual_in() const { return residual_in_.data(); }
  void* residual_out() { return in_place_ ? residual_in_.data() : residual_out_.data(); }
  const void* weight() const { return weight_.data(); }
  /// Bytes of one tensor.
  std::size_t tensor_bytes() const { return in_.bytes(); }
  std::size_t changed_guard_bytes() const;

 private:
  bool in_place_ = false;
  bool fused_ = false;
  GuardedBuffer in_, out_, residual_in_, residual_out_, weight_;
};

/// A number of equal calls that are enqueued together. Eager: on the communicator's own stream, one
/// by one. Graph: captured once by prepare(), replayed by each enqueue().
class Batch {
 public:
  /// All arguments must outlive the batch.
  Batch(Communicator& communicator, RowBuffers& buffers, const Workload& workload,
        Operation operation, Mode mode, int call_count);

  /// Collective in graph mode. Once, before anything else.
  Status prepare();
  Status enqueue();
  /// Blocks until all that was enqueued has run; then also the communicator's sticky error.
  Status finish();

 private:
  Status issue_all(void* stream);
  Status issue(void* stream);

  Communicator& communicator_;
  RowBuffers& buffers_;
  const Workload& workload_;
  Operation operation_;
  Mode mode_;
  int call_count_;
  Stream stream_;  // graph mode only; declared before graph_, which must go first
  Graph graph_;
};

}  // namespace lamppost::bench
