// The path of a call: enqueue() -> select() -> Launcher::launch() -> Driver::launch().
#include "api/communicator.hpp"

#include "health/health.hpp"
#include "select/selector.hpp"

#include <fmt/core.h>

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
      launcher_(*parts_.driver, parts_.facts, parts_.workspace.peers.table,
                reinterpret_cast<ControlPage*>(parts_.control_page->device_address()),
                parts_.fault),
      null_stream_(parts_.driver->default_stream() != 0 ? parts_.driver->default_stream()
                                                        : parts_.own_stream) {}

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
  if (stream == 0) stream = null_stream_;
  Status reachable = check_memory(call);
  if (!reachable.ok()) return reachable;
  Result<Choice> choice = select(call, parts_.facts);
  if (!choice.ok()) return choice.status();
  return launch_in_order(stream, [&](const LaunchPlace& place) {
    return launcher_.launch(call, choice.value(), place);
  });
}

Status Communicator::check_memory(const CollectiveCall& call) {
  struct Tensor {
    const char* name;
    const void* address;
  };
  const Tensor tensors[] = {{"in", call.in},
                            {"out", call.out},
                            {"residual_in", call.residual_in},
                            {"residual_out", call.residual_out},
                            {"all_reduce_out", call.all_reduce_out},
                            {"weight", call.weight}};
  if (call.rows == 0 || call.columns == 0) return {};
  for (const Tensor& tensor : tensors) {
    if (tensor.address == nullptr) continue;
    const Result<bool> can_access = parts_.driver->can_access(tensor.address);
    if (!can_access.ok()) return can_access.status();
    if (can_access.value()) continue;
    return Status(LP_ERROR_INVALID_ARGUMENT,
                  fmt::format("{} is {}: memory that the device cannot access (ordinary host memory?)",
                              tensor.name, tensor.address));
  }
  return {};
}

Status Communicator::enqueue_probe(const ProbeRequest& request, StreamHandle stream) {
  if (async_error(page()) != LP_SUCCESS) return sticky_error();
  if (stream == 0) stream = null_stream_;
  return launch_in_order(stream, [&](const LaunchPlace& place) {
    return launcher_.launch_probe(request, place);
  });
}

/// Calls launch(place) between what must come before it on the stream and what later work looks for.
template <class Launch>
Status Communicator::launch_in_order(StreamHandle stream, Launch&& launch) {
  Driver& driver = *parts_.driver;
  Result<StreamFacts> facts = driver.look_at(stream);
  if (!facts.ok()) return facts.status();
  const bool is_captured = facts.value().capture != 0;
  Status status = order(stream, facts.value());
  if (status.ok()) status = launch(LaunchPlace{stream, is_captured});
  if (status.ok() && is_captured) status = driver.mark_capture(stream);
  return status;
}

/// The communicator's calls run in the order they are made, also across streams: on a change of stream
/// the new one waits for the last eager call, and in a capture for the last call of that capture. Work
/// of one capture cannot be ordered with work outside it: that is the caller's part, and two launches
/// in flight are reported by the device.
Status Communicator::order(StreamHandle stream, const StreamFacts& facts) {
  Driver& driver = *parts_.driver;
  Status status;
  if (facts.capture != 0) {
    if (facts.capture == last_captured_.capture && facts.id != last_captured_.id) {
      status = driver.order_after_mark(stream);
    }
    if (status.ok()) last_captured_ = facts;
    return status;
  }
  if (facts.id != last_eager_.id && launcher_.last_ticket() != 0) {
    status = driver.wait_for_word(stream, finished_ticket(), launcher_.last_ticket());
  }
  if (status.ok()) last_eager_ = facts;
  return status;
}

std::uint32_t* Communicator::finished_ticket() const {
  return reinterpret_cast<std::uint32_t*>(parts_.workspace.peers.table.own() +
                                          Layout::kFinishedTicket);
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

/// An eager call that has not ended, or a graph's call that has begun and not ended.
Result<bool> Communicator::is_call_in_flight() {
  Driver& driver = *parts_.driver;
  std::uint32_t ticket = 0;
  Status status = driver.read(&ticket, finished_ticket(), sizeof(ticket));
  if (!status.ok()) return status;
  if (static_cast<std::int32_t>(ticket - launcher_.last_ticket()) < 0) return true;
  std::byte* own = parts_.workspace.peers.table.own();
  ControlLine line{};
  Descriptor entry{};
  status = driver.read(&line, own + Layout::kControlLine, sizeof(line));
  if (!status.ok()) return status;
  const std::uint32_t sequence = line.call >> 2;
  const std::uint64_t slot = sequence % device::kRingEntries * sizeof(Descriptor);
  status = driver.read(&entry, own + Layout::kRing + slot, sizeof(entry));
  if (!status.ok()) return status;
  return entry.grid_blocks != 0 && entry.sequence == sequence && entry.finished == 0;
}

Result<bool> Communicator::drain(std::int64_t timeout_ms) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  while (true) {
    const Result<bool> is_in_flight = is_call_in_flight();
    if (!is_in_flight.ok()) return is_in_flight.status();
    if (!is_in_flight.value()) return true;
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

Status Communicator::shut_down() {
  constexpr std::int64_t kNoTimeoutMs = 60'000;  // for calls that never expire by themselves
  const std::uint64_t ticks = __atomic_load_n(&page().first_call_timeout_ticks, __ATOMIC_RELAXED);
  const auto timeout_ms = static_cast<std::int64_t>(ticks / (page().ticks_per_second / 1000));
  // Two calls in flight may have lost count of each other's ends.
  const bool may_have_lost_count = async_error(page()) == LP_ERROR_CORRUPT;
  Result<bool> is_drained = drain(
      may_have_lost_count ? 1000 : (timeout_ms == 0 ? kNoTimeoutMs : timeout_ms) + 1000);
  if (is_drained.ok() && !is_drained.value()) {
    __atomic_store_n(&page().abort_requested, 1u, __ATOMIC_RELAXED);
    is_drained = drain(1000);
  }
  if (!is_drained.ok()) {  // nobody knows whether a call still runs
    park(std::move(parts_));
    return Status(is_drained.status().code(),
                  fmt::format("the device cannot be asked whether calls have ended, so the communicator's "
                              "memory is kept until the process ends: {}",
                              is_drained.status().message()));
  }
  if (!is_drained.value()) {
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
