// The tensors of one rank's calls, in memory of the backend, and what they hold before and after a
// call, in host memory. Belongs to one rank and one thread.
#pragma once

#include <cstddef>
#include <lamppost/status.hpp>
#include <memory>
#include <vector>

#include "driver/workbench.hpp"
#include "tools/bench/options.hpp"
#include "tools/bench/workload.hpp"

namespace lamppost::bench {

/// Memory of a workbench, which must outlive it, followed by a guard that nobody may write.
class GuardedBuffer {
 public:
  /// Not filled. bytes may be 0.
  static Result<GuardedBuffer> create(Workbench& workbench, std::size_t bytes);

  void* data() { return memory_.get(); }
  const void* data() const { return memory_.get(); }
  std::size_t bytes() const { return bytes_; }
  // Of bytes() bytes; without memory they do nothing.
  Status fill_bytes(int value);
  Status copy_in(const std::vector<std::byte>& from);
  Status copy_out(std::vector<std::byte>& to) const;
  /// Guard bytes that were overwritten.
  Result<std::size_t> changed_guard_bytes() const;

 private:
  struct Free {
    Workbench* workbench;
    void operator()(void* memory) const { workbench->free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  std::size_t bytes_ = 0;
};

/// What a rank's call takes.
struct Inputs {
  std::vector<std::byte> in;
  std::vector<std::byte> residual;  // fused only
  std::vector<std::byte> weight;    // fused only

  static Inputs make(const Workload& workload, int rank, Operation operation);
};

/// What a call gave.
struct Outputs {
  std::vector<std::byte> out;
  std::vector<std::byte> residual_out;  // fused only
};

/// One set of tensors. In place, `out` is `in` and `residual_out` is `residual_in`. A plain
/// all-reduce has no residual and no weight.
class RowBuffers {
 public:
  static Result<RowBuffers> create(Workbench& workbench, const Workload& workload,
                                   const Options& options);
  /// Bytes of all tensors of a set.
  static std::uint64_t set_bytes(const Workload& workload, const Options& options);

  /// Inputs as given, outputs full of NaN, so that an element nobody wrote is wrong.
  Status reset(const Inputs& inputs);
  Status read(Outputs& outputs) const;

  const void* in() const { return in_.data(); }
  void* out() { return in_place_ ? in_.data() : out_.data(); }
  const void* residual_in() const { return residual_in_.data(); }
  void* residual_out() { return in_place_ ? residual_in_.data() : residual_out_.data(); }
  const void* weight() const { return weight_.data(); }
  /// Bytes of one tensor.
  std::size_t tensor_bytes() const { return in_.bytes(); }
  Result<std::size_t> changed_guard_bytes() const;

 private:
  bool in_place_ = false;
  bool fused_ = false;
  GuardedBuffer in_, out_, residual_in_, residual_out_, weight_;
};

}  // namespace lamppost::bench
