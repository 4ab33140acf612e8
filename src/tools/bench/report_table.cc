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
  print_comment("check", facts.how_checked);
  fmt::print("#\n#{:>11} {:>11} {:>5} {:>10} {:>10} {:>10} {:>9} {:>9} {:>9} {:>7}\n", "bytes",
             report.fused() ? "tokens" : "count", "type", "avg us", "p50 us", "p99 us", "skew us",
             "algbw", "busbw", "wrong");
  fmt::print("#{:>11} {:>11} {:>5} {:>10} {:>10} {:>10} {:>9} {:>9} {:>9} {:>7}\n", "", "", "", "",
             "", "", "", "GB/s", "GB/s", "");
  std::fflush(stdout);
}

void print_row(const Report& report, const RowResult& result) {
  const Row& row = result.row;
  const TimeStats& time = result.time;
  const std::string start = fmt::format(" {:>11} {:>11} {:>5}", row.bytes, amount(report, row),
                                        type_name(report.options.type));
  if (!result.failures.empty()) {
    fmt::print("{}  {}\n", start, red(report, "failed"));
    print_failures(report, result);
  } else {
    const std::string line =
        fmt::format("{} {:>10} {:>10} {:>10} {:>9} {:>9.3f} {:>9.3f} {:>7}", start,
                    microseconds_text(time.avg_us), microseconds_text(time.p50_us),
                    microseconds_text(time.p99_us), microseconds_text(time.skew_us),
                    result.algbw_gbps, result.busbw_gbps, wrong_cell(report, result));
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
      "skew_us,algbw_gbps,busbw_gbps,wrong,failed_ranks\n";
  for (const RowResult& result : report.rows) {
    const Row& row = result.row;
    const TimeStats& time = result.time;
    text += fmt::format(
        "{},{},{},{},{},{},{},{},{},{:.4f},{:.4f},{:.4f},{:.4f},{:.4f},{:.4f},{:.6f},"
        "{:.6f},{},{}\n",
        operation_name(report.options.operation), type_name(report.options.type),
        mode_name(report.options.mode), report.options.placement == Placement::kInPlace ? 1 : 0,
        report.rank_count(), row.bytes, row.elements,
        report.fused() ? std::to_string(row.tokens) : "",
        report.fused() ? std::to_string(row.hidden) : "", time.avg_us, time.p50_us, time.p99_us,
        time.min_us, time.max_us, time.skew_us, result.algbw_gbps, result.busbw_gbps,
        report.options.check == Check::kOn ? std::to_string(result.wrong.total()) : "",
        result.failures.size());
  }
  return write_file(text, path);
}

}  // namespace lamppost::bench
