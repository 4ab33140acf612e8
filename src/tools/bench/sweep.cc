#include <algorithm>
#include <charconv>
#include <lamppost/types.hpp>
#include <limits>

#include "tools/bench/options.hpp"

namespace lamppost::bench {
namespace {

constexpr std::uint64_t kMaxBytes = std::numeric_limits<std::int64_t>::max();

Row make_row(const Options& options, std::int64_t tokens, std::int64_t hidden) {
  Row row;
  row.tokens = tokens;
  row.hidden = hidden;
  row.elements = static_cast<std::uint64_t>(tokens) * static_cast<std::uint64_t>(hidden);
  row.bytes = row.elements * element_bytes(options.type);
  return row;
}

Row row_of_bytes(const Options& options, std::uint64_t bytes) {
  const std::uint64_t element = element_bytes(options.type);
  if (options.operation != Operation::kAllReduceRmsNorm) {
    return make_row(options, 1, static_cast<std::int64_t>(bytes / element));
  }
  const std::uint64_t token_bytes = static_cast<std::uint64_t>(options.hidden) * element;
  const std::uint64_t tokens = bytes / token_bytes + (bytes % token_bytes != 0 ? 1 : 0);
  return make_row(options, static_cast<std::int64_t>(tokens), options.hidden);
}

/// The size after `bytes`, or nothing when the sweep is over.
std::optional<std::uint64_t> next_bytes(const Options& options, std::uint64_t bytes) {
  std::uint64_t next = 0;
  if (options.step_bytes != 0) {
    if (bytes > options.max_bytes - std::min(options.max_bytes, options.step_bytes)) return {};
    next = bytes + options.step_bytes;
  } else if (bytes == 0) {
    next = element_bytes(options.type);
  } else {
    if (bytes > options.max_bytes / options.step_factor) return {};
    next = bytes * options.step_factor;
  }
  if (next > options.max_bytes) return {};
  return next;
}

}  // namespace

std::optional<std::uint64_t> parse_size(std::string_view text) {
  int shift = 0;
  if (!text.empty()) {
    switch (text.back()) {
      case 'k':
      case 'K':
        shift = 10;
        break;
      case 'm':
      case 'M':
        shift = 20;
        break;
      case 'g':
      case 'G':
        shift = 30;
        break;
      default:
        break;
    }
    if (shift != 0) text.remove_suffix(1);
  }
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || error != std::errc() || stop != end) return {};
  if (number > kMaxBytes >> shift) return {};
  return number << shift;
}

std::vector<Row> plan_rows(const Options& options) {
  if (options.operation == Operation::kInit) return {Row{}};  // no message
  std::vector<Row> rows;
  const auto add = [&rows](Row row) {
    if (!rows.empty() && rows.back().elements == row.elements) return;
    row.index = static_cast<int>(rows.size());
    rows.push_back(row);
  };
  for (const std::int64_t tokens : options.tokens) add(make_row(options, tokens, options.hidden));
  if (!options.tokens.empty()) return rows;
  std::optional<std::uint64_t> bytes = options.min_bytes;
  while (bytes) {
    add(row_of_bytes(options, *bytes));
    bytes = next_bytes(options, *bytes);
  }
  return rows;
}

std::int64_t warmup_ms_of(const Options& options, lpBackend_t backend, bool is_first) {
  const std::int64_t default_ms = backend == LP_BACKEND_HOST ? 0 : 100;
  const std::int64_t ms = options.warmup_ms == LP_DEFAULT ? default_ms : options.warmup_ms;
  return is_first ? 2 * ms : ms;
}

const char* operation_name(Operation operation) {
  switch (operation) {
    case Operation::kAllReduceRmsNorm:
      return "all_reduce_rmsnorm";
    case Operation::kHostCost:
      return "host_cost";
    case Operation::kInit:
      return "init";
    default:
      return "all_reduce";
  }
}

const char* mode_name(Mode mode) { return mode == Mode::kEager ? "eager" : "graph"; }

}  // namespace lamppost::bench
