// The table on standard output, and the same as CSV.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <lamppost/types.hpp>

#include "tools/bench/report.hpp"

namespace lamppost::bench {
namespace {

constexpr int kTextColumns = 96;

std::string red(const Report& report, const std::string& text) {
  return report.coloured ? "\033[1;31m" + text + "\033[0m" : text;
}

/// Prints `text` in lines that start with "# ", the first with `label` after it.
void print_comment(const std::string& label, const std::string& text) {
  std::string line = fmt::format("# {:<9}", label);
  const std::size_t indent = line.size();
  bool empty = true;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (!empty && line.size() + 1 + (end - at) > kTextColumns) {
      fmt::print("{}\n", line);
      line = "#" + std::string(indent - 1, ' ');
      empty = true;
    }
    line += (empty ? " " : " ") + text.substr(at, end - at);
    empty = false;
    at = end + 1;
  }
  fmt::print("{}\n", line);
}

/// The part of the first columns that says how much: tokens for a fused call, elements otherwise.
std::int64_t amount(const Report& report, const Row& row) {
  return report.fused() ? row.tokens : static_cast<std::int64_t>(row.elements);
}

std::size_t width_of(const char* title) {
  return std::max<std::size_t>(9, std::char_traits<char>::length(title));
}

std::string wrong_cell(const Report& report, const RowResult& result) {
  if (report.options.check == Check::kOff) return "-";
  return std::to_string(result.wrong.total());
}

void print_failures(const Report& report, const RowResult& result) {
  for (const RankFailure& failure : result.failures) {
    fmt::print("{} rank {}: {}\n", red(report, ">>> FAILED"), failure.rank, failure.sentence);
    if (!failure.health.empty()) fmt::print("{}\n", failure.health);
  }
}

/// Empty where nothing was measured.
std::string csv_number(bool is_measured, double number) {
  return is_measured ? fmt::format(",{:.4f}", number) : ",";
}

std::string csv_extras(const Report& report, const RowResult& result) {
  const bool has_nccl = !result.nccl.samples_us.empty();
  const bool has_symmetric = !result.nccl_symmetric.samples_us.empty();
  const bool has_destroy = !result.destroy.samples_us.empty();
  const bool has_floor = result.floor_us != 0;
  const DeviceTimes& device = result.device;
  return csv_number(report.has_collectives(), result.time.host_us) +
         csv_number(device.is_measured, device.p50_us) +
         csv_number(device.is_measured, device.p99_us) +
         csv_number(device.is_measured, device.skew_us) +
         fmt::format(",{},{}", result.rotation.sets, cache_state_name(result.rotation.cache)) +
         csv_number(has_floor, result.floor_us) + csv_number(has_floor, result.over_floor()) +
         csv_number(has_nccl, result.nccl.p50_us) +
         csv_number(has_symmetric, result.nccl_symmetric.p50_us) +
         csv_number(has_nccl, result.ratio(result.nccl)) +
         csv_number(has_symmetric, result.ratio(result.nccl_symmetric)) +
         csv_number(has_destroy, result.destroy.p50_us) +
         csv_number(has_destroy, result.destroy.max_us) + "\n";
}

}  // namespace

void print_header(const Report& report) {
  const Options& options = report.options;
  const RunFacts& facts = report.facts;
  print_comment("lamppost",
                fmt::format("{}, {} backend, {}", facts.version, facts.backend, facts.started_at));
  print_comment("ranks", fmt::format("{}: {}", report.rank_count(), facts.placement));
  for (const std::string& line : describe_places(facts.places)) print_comment("", line);
  print_comment(
      "op",
      fmt::format("{}, {}, {}{}, {}", operation_name(options.operation), type_name(options.type),
                  report.fused() ? fmt::format("hidden {}, ", options.hidden) : "",
                  options.placement == Placement::kInPlace ? "in place" : "out of place",
                  mode_name(options.mode)));
  print_comment("time", facts.how_measured);
  if (report.floor.is_measured) print_comment("floor", floor_sentence(report));
  print_comment("check", facts.how_checked);
  std::string titles =
      fmt::format("#{:>11} {:>11} {:>5}", "bytes", report.fused() ? "tokens" : "count", "type");
  std::string units = fmt::format("#{:>11} {:>11} {:>5}", "", "", "");
  const auto add = [&](const char* title, const char* unit) {
    titles += fmt::format(" {:>{}}", title, width_of(title));
    units += fmt::format(" {:>{}}", unit, width_of(title));
  };
  for (const Column& column : time_columns(report)) add(column.title, column.unit);
  if (report.has_collectives()) {
    add("algbw", "GB/s");
    add("busbw", "GB/s");
    add("wrong", "");
  }
  fmt::print("#\n{}\n{}\n", titles, units);
  std::fflush(stdout);
}

void print_row(const Report& report, const RowResult& result) {
  const Row& row = result.row;
  const std::string start = fmt::format(" {:>11} {:>11} {:>5}", row.bytes, amount(report, row),
                                        type_name(report.options.type));
  if (!result.failures.empty()) {
    fmt::print("{}  {}\n", start, red(report, "failed"));
    print_failures(report, result);
  } else {
    std::string line = start;
    for (const Column& column : time_columns(report)) {
      line += fmt::format(" {:>{}}", column.text(result), width_of(column.title));
    }
    if (report.has_collectives()) {
      line += fmt::format(" {:>9.3f} {:>9.3f} {:>9}", result.algbw_gbps, result.busbw_gbps,
                          wrong_cell(report, result));
    }
    const bool wrong = result.wrong.total() != 0;
    fmt::print("{}\n", wrong ? red(report, line) : line);
    if (wrong) fmt::print("{} {}\n", red(report, ">>> WRONG"), wrong_text(result.wrong));
  }
  std::fflush(stdout);
}

void print_verdict(const Report& report) {
  const bool ok = report.exit_code() == kSuccess;
  const std::string text = fmt::format("# {}: {}", ok ? "ok" : "NOT OK", report.verdict());
  fmt::print("#\n{}\n", ok ? text : red(report, text));
  std::fflush(stdout);
}

Status write_csv(const Report& report, const std::string& path) {
  std::string text =
      "op,type,mode,in_place,ranks,bytes,elements,tokens,hidden,avg_us,p50_us,p99_us,min_us,max_us,"
      "skew_us,algbw_gbps,busbw_gbps,wrong,failed_ranks,host_us,device_p50_us,device_p99_us,"
      "device_skew_us,buffer_sets,cache,floor_us,time_over_floor,nccl_us,nccl_sym_us,"
      "nccl_over_ours,nccl_sym_over_ours,destroy_p50_us,destroy_max_us\n";
  for (const RowResult& result : report.rows) {
    const Row& row = result.row;
    const TimeStats& time = result.time;
    text += fmt::format(
        "{},{},{},{},{},{},{},{},{},{:.4f},{:.4f},{:.4f},{:.4f},{:.4f},{:.4f},{:.6f},"
        "{:.6f},{},{}",
        operation_name(report.options.operation), type_name(report.options.type),
        mode_name(report.options.mode), report.options.placement == Placement::kInPlace ? 1 : 0,
        report.rank_count(), row.bytes, row.elements,
        report.fused() ? std::to_string(row.tokens) : "",
        report.fused() ? std::to_string(row.hidden) : "", time.avg_us, time.p50_us, time.p99_us,
        time.min_us, time.max_us, time.skew_us, result.algbw_gbps, result.busbw_gbps,
        report.options.check == Check::kOn ? std::to_string(result.wrong.total()) : "",
        result.failures.size());
    text += csv_extras(report, result);
  }
  return write_file(text, path);
}

}  // namespace lamppost::bench
