// The path of a call: enqueue() -> select() -> Launcher::launch() -> Driver::launch().
#include "api/communicator.hpp"

#include "health/health.hpp"
#include "select/selector.hpp"

#include <chrono>
#include <thread>

namespace lamppost {
namespace {

using device::ControlLine;
using device::ControlPage;
using device::Descriptor;
using device::Layout;

/// Memory that a peer or a stuck launch may still touch: never freed, never used again.
void park(CommunicatorParts parts) {
  static auto* parked = new std::vector<CommunicatorParts>();  // lives as long as the process
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  parked->push_back(std::move(parts));
}

}  // namespace

Communicator::Communicator(CommunicatorParts parts)
    : parts_(std::move(parts)),
      launcher_(*parts_.driver, parts_.facts, parts_.workspace.peers.table, &page(), parts_.fault) {
}

ControlPage& Communicator::page() const {
  return *reinterpret_cast<ControlPage*>(parts_.control_page->address());
}

Status Communicator::sticky_error() const {
  const lpResult_t error = async_error(page());
  if (error == LP_SUCCESS) return {};
  return Status(error, describe_health(read_health(page())));
}

Status Communicator::enqueue(const CollectiveCall& call, StreamHandle stream) {
  if (async_error(page()) != LP_SUCCESS) return sticky_error();
  if (stream == 0) stream = parts_.own_stream;
  Result<Choice> choice = select(call, parts_.facts);
  if (!choice.ok()) return choice.status();
  if (stream != last_stream_ || last_was_captured_) {
    Status status = order_streams(stream);
    if (!status.ok()) return status;
  }
  return launcher_.launch(call, choice.value(), stream);
}

Status Communicator::enqueue_probe(const ProbeRequest& request, StreamHandle stream) {
  if (async_error(page()) != LP_SUCCESS) return sticky_error();
  if (stream == 0) stream = parts_.own_stream;
  if (stream != last_stream_ || last_was_captured_) {
    Status status = order_streams(stream);
    if (!status.ok()) return status;
  }
  return launcher_.launch_probe(request, stream);
}

/// The communicator's calls run in the order they are made, also across streams: on a change of stream
/// the new one waits for the old. Inside a capture nothing can be ordered with work outside it:
/// that is the caller's part, and two launches in flight are reported by the device.
Status Communicator::order_streams(StreamHandle stream) {
  Driver& driver = *parts_.driver;
  Result<CaptureState> state = driver.capture_state(stream);
  if (!state.ok()) return state.status();
  const bool is_captured = state.value() == CaptureState::kActive;
  if (is_captured && last_was_captured_ && stream != last_stream_) {
    Result<CaptureState> last = driver.capture_state(last_stream_);
    if (last.ok() && last.value() == CaptureState::kActive) {
      return Status(LP_ERROR_BUSY,
                    "another stream that is being captured holds calls on this communicator; its "
                    "calls would not be ordered with this one");
    }
  }
  if (!is_captured && last_eager_stream_ != 0 && last_eager_stream_ != stream) {
    Status status = driver.order_after(stream, last_eager_stream_);
    if (!status.ok()) return status;
  }
  last_stream_ = stream;
  last_was_captured_ = is_captured;
  if (!is_captured) last_eager_stream_ = stream;
  return {};
}

Status Communicator::self_test(std::uint32_t rounds) {
  Status status = launcher_.launch_self_test(rounds, parts_.own_stream);
  if (status.ok()) status = parts_.driver->synchronize_stream(parts_.own_stream);
  return status.ok() ? sticky_error() : status;
}

void Communicator::set_timeout(std::int64_t timeout_ms, std::int64_t first_call_timeout_ms) {
  ControlPage& control = page();
  const std::uint64_t per_ms = control.ticks_per_second / 1000;
  __atomic_store_n(&control.timeout_ticks, static_cast<std::uint64_t>(timeout_ms) * per_ms,
                   __ATOMIC_RELAXED);
  __atomic_store_n(&control.first_call_timeout_ticks,
                   static_cast<std::uint64_t>(first_call_timeout_ms) * per_ms, __ATOMIC_RELAXED);
}

bool Communicator::is_call_in_flight() {
  std::byte* own = parts_.workspace.peers.table.own();
  ControlLine line{};
  Descriptor entry{};
  if (!parts_.driver->read(&line, own + Layout::kControlLine, sizeof(line)).ok()) return false;
  const std::uint32_t sequence = line.call >> 2;
  const std::uint64_t slot = sequence % device::kRingEntries * sizeof(Descriptor);
  if (!parts_.driver->read(&entry, own + Layout::kRing + slot, sizeof(entry)).ok()) return false;
  return entry.grid_blocks != 0 && entry.sequence == sequence && entry.finished == 0;
}

/// Waits for the last eager stream and for a graph's call that may still run.
bool Communicator::drain(std::int64_t timeout_ms) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  for (StreamHandle stream : {last_eager_stream_, parts_.own_stream}) {
    if (stream == 0) continue;
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    Result<bool> drained = parts_.driver->drain_stream(stream, left > 0 ? left : 0);
    if (drained.ok() && !drained.value()) return false;
  }
  while (is_call_in_flight()) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

Status Communicator::shut_down() {
  constexpr std::int64_t kNoTimeoutMs = 60'000;  // for calls that never expire by themselves
  const std::uint64_t ticks = __atomic_load_n(&page().first_call_timeout_ticks, __ATOMIC_RELAXED);
  const auto timeout_ms = static_cast<std::int64_t>(ticks / (page().ticks_per_second / 1000));
  bool is_drained = drain((timeout_ms == 0 ? kNoTimeoutMs : timeout_ms) + 1000);
  if (!is_drained) {
    __atomic_store_n(&page().abort_requested, 1u, __ATOMIC_RELAXED);
    is_drained = drain(1000);
  }
  if (!is_drained) {
    park(std::move(parts_));
    return Status(LP_ERROR_TIMEOUT,
                  "a call on the communicator did not end in time; its memory is kept until the "
                  "process ends");
  }
  Status status = check_guards(*parts_.driver, parts_.workspace);
  if (parts_.own_stream != 0) {
    Status destroyed = parts_.driver->destroy_stream(parts_.own_stream);
    if (status.ok()) status = destroyed;
  }
  return status;
}

}  // namespace lamppost
