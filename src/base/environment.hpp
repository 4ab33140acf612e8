// LAMPPOST_* environment variables that change behaviour, read once when a communicator is created.
// An unparseable value is an error, never ignored.
#pragma once

#include <lamppost/status.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lamppost {

/// LAMPPOST_FAULT, for drills and tests: "rank=1,call=17,phase=publish,delay_ms=500" delays that
/// rank's kernel (phase: start, publish, data, header, arrive); "rank=1,step=import" makes a step of
/// creation fail on that rank (step: allocate, fill, export, socket, pidfd, import, self-test; several:
/// "step=socket,step=pidfd").
struct PlantedFault {
  int rank = -1;
  std::uint32_t call = 0;
  std::uint32_t phase = 0;  // device::Phase; 0: no delay is planted
  std::uint64_t delay_ms = 0;
  std::vector<std::string> steps;  // that fail

  /// An error if a fault is planted for `rank` at `step_name`.
  Status check(int my_rank, const char* step_name) const;
};

/// Nothing planted if the variable is unset or empty; INVALID_ARGUMENT naming key and value.
Result<PlantedFault> planted_fault_from_environment();
Result<PlantedFault> parse_planted_fault(const std::string& text);

/// A non-negative integer variable; none if unset. INVALID_ARGUMENT naming variable and value.
Result<std::optional<std::uint64_t>> integer_from_environment(const char* name);

}  // namespace lamppost
