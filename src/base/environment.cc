#include "base/environment.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <string_view>

namespace lamppost {
namespace {

std::optional<std::uint64_t> parse_integer(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Names of device::Phase, by value.
constexpr std::string_view kPhases[] = {"", "start", "publish", "header", "data", "arrive"};

std::optional<std::uint32_t> parse_phase(std::string_view text) {
  for (std::uint32_t i = 1; i < std::size(kPhases); ++i) {
    if (kPhases[i] == text) return i;
  }
  return std::nullopt;
}

bool is_step(std::string_view text) {
  for (std::string_view step :
       {"allocate", "fill", "export", "socket", "pidfd", "import", "self-test"}) {
    if (step == text) return true;
  }
  return false;
}

/// One "key=value" of LAMPPOST_FAULT; false if it makes no sense.
bool apply(PlantedFault& fault, std::string_view key, std::string_view value) {
  if (key == "step") {
    fault.steps.emplace_back(value);
    return is_step(value);
  }
  if (key == "phase") {
    const auto phase = parse_phase(value);
    fault.phase = phase.value_or(0);
    return phase.has_value();
  }
  const auto number = parse_integer(value);
  if (!number) return false;
  if (key == "rank") {
    fault.rank = static_cast<int>(*number);
  } else if (key == "call") {
    fault.call = static_cast<std::uint32_t>(*number);
  } else if (key == "delay_ms") {
    fault.delay_ms = *number;
  } else {
    return false;
  }
  return true;
}

}  // namespace

Status PlantedFault::check(int my_rank, const char* step_name) const {
  const bool is_planted = std::find(steps.begin(), steps.end(), step_name) != steps.end();
  if (rank != my_rank || !is_planted) return {};
  return Status(LP_ERROR_SYSTEM, fmt::format("planted by LAMPPOST_FAULT at step '{}'", step_name));
}

Result<PlantedFault> parse_planted_fault(const std::string& text) {
  PlantedFault fault;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(item.size() < rest.size() ? item.size() + 1 : item.size());
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos ||
        !apply(fault, item.substr(0, equals), item.substr(equals + 1))) {
      return Status(LP_ERROR_INVALID_ARGUMENT,
                    fmt::format("LAMPPOST_FAULT: cannot understand '{}' (known: rank=, call=, "
                                "phase=start|publish|data|header|arrive, delay_ms=, step=)",
                                item));
    }
  }
  return fault;
}

Result<PlantedFault> planted_fault_from_environment() {
  const char* text = std::getenv("LAMPPOST_FAULT");
  return parse_planted_fault(text == nullptr ? "" : text);
}

Result<std::optional<std::uint64_t>> integer_from_environment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::optional<std::uint64_t>();
  const auto value = parse_integer(text);
  if (!value) {
    return Status(LP_ERROR_INVALID_ARGUMENT,
                  fmt::format("{}='{}' is not a non-negative integer", name, text));
  }
  return value;
}

}  // namespace lamppost
