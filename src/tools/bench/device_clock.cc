#include "tools/bench/device_clock.hpp"

#include <cmath>
#include <cstring>

#include "api/internal.hpp"

namespace lamppost::bench {

Status enqueue_probe(RankSeat& seat, const ProbeRequest& request) {
  const lpResult_t result = lpInternalProbe(seat.communicator().handle(), &request, seat.stream());
  return result == LP_SUCCESS ? Status() : Status(result, lpGetLastError(nullptr));
}

Result<DeviceClock> DeviceClock::create(RankSeat& seat, int mark_count) {
  std::uint64_t ticks_per_second = 0;
  const lpResult_t result =
      lpInternalTicksPerSecond(seat.communicator().handle(), &ticks_per_second);
  if (result != LP_SUCCESS) return Status(result, lpGetLastError(nullptr));
  Result<GuardedBuffer> marks = GuardedBuffer::create(
      seat.workbench(), static_cast<std::size_t>(mark_count) * sizeof(std::uint64_t));
  if (!marks.ok()) return marks.status();
  DeviceClock clock;
  clock.seat_ = &seat;
  clock.ns_per_tick_ = 1e9 / static_cast<double>(ticks_per_second);
  clock.marks_ = marks.take();
  return clock;
}

Status DeviceClock::mark(int mark) {
  ProbeRequest request;
  request.probe = Probe::kTimestamp;
  request.result = static_cast<std::uint64_t*>(marks_.data()) + mark;
  return enqueue_probe(*seat_, request);
}

Result<std::vector<std::int64_t>> DeviceClock::read() const {
  std::vector<std::byte> bytes;
  Status status = marks_.copy_out(bytes);
  if (!status.ok()) return status;
  std::vector<std::uint64_t> ticks(bytes.size() / sizeof(std::uint64_t));
  if (!bytes.empty()) std::memcpy(ticks.data(), bytes.data(), bytes.size());
  std::vector<std::int64_t> ns;
  for (const std::uint64_t tick : ticks) {
    // Nanosecond clocks as they are: a double has too few bits for a time since 1970.
    ns.push_back(ns_per_tick_ == 1.0 ? static_cast<std::int64_t>(tick)
                                     : std::llround(static_cast<long double>(tick) * ns_per_tick_));
  }
  return ns;
}

}  // namespace lamppost::bench
