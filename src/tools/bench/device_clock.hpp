// The device's own clock on one rank's stream: timestamps that a kernel takes between other work,
// and how far ranks' clocks are apart. Belongs to one rank and one thread.
#pragma once

#include <cstdint>
#include <lamppost/status.hpp>
#include <vector>

#include "collectives/probe/args.hpp"
#include "tools/bench/buffers.hpp"
#include "tools/bench/devices.hpp"

namespace lamppost::bench {

/// Enqueues a probe on the seat's stream.
Status enqueue_probe(RankSeat& seat, const ProbeRequest& request);

/// A number of timestamps.
class DeviceClock {
 public:
  static Result<DeviceClock> create(RankSeat& seat, int mark_count);

  /// Enqueues the taking of timestamp `mark`.
  Status mark(int mark);
  /// All timestamps in nanoseconds of this device. When the stream is empty.
  Result<std::vector<std::int64_t>> read() const;

  /// Runs `enqueue` between two marks, waits, and returns the nanoseconds between them.
  template <class Function>
  Result<double> time_ns(Function&& enqueue) {
    Status status = mark(0);
    if (status.ok()) status = enqueue();
    if (status.ok()) status = mark(1);
    if (status.ok()) status = seat_->workbench().synchronize(seat_->stream());
    if (status.ok()) status = seat_->communicator().async_error();
    if (!status.ok()) return status;
    Result<std::vector<std::int64_t>> marks = read();
    if (!marks.ok()) return marks.status();
    return static_cast<double>(marks.value()[1] - marks.value()[0]);
  }

 private:
  RankSeat* seat_ = nullptr;
  double ns_per_tick_ = 1;
  GuardedBuffer marks_;
};

}  // namespace lamppost::bench
