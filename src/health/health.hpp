// Health: what a control page says, for the C API and for people. Reads only host memory; never blocks.
#pragma once

#include <lamppost/lamppost.h>
#include <lamppost/status.hpp>

#include "lamppost/device/control_page.hpp"

#include <string>
#include <vector>

namespace lamppost {

/// The sticky error of a page: LP_SUCCESS while no record is valid. Any thread, any process.
lpResult_t async_error(const device::ControlPage& page);

/// The whole health of a page. Any thread, any process.
lpHealth read_health(const device::ControlPage& page);

/// The health as a paragraph for people: who waited for whom, in which call, for which part, how
/// long, what each peer says it is doing, what to do next.
std::string describe_health(const lpHealth& health);

/// One control page of another process (or this one), copied.
struct RemoteHealth {
  std::uint32_t process_id;
  std::uint64_t communicator_id;
  std::string host_name;
  lpHealth health;
};

/// Copies of all control pages that `process_id` holds open, found through /proc/PID/fd. Needs the
/// right to look at that process (same user). SYSTEM if it cannot be read; an empty list if the
/// process has no communicator. No help from the process is needed: it may be stuck.
Result<std::vector<RemoteHealth>> read_process_health(int process_id);

/// Name of the memfd that holds a control page, as it shows in /proc/PID/fd.
inline constexpr const char* kControlPageName = "lamppost-control";

}  // namespace lamppost
