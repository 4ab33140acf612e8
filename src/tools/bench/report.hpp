// What a run found, and the forms it is told in: table (as it goes), CSV, JSON, HTML. Used by rank
// 0 only; no form measures or decides anything.
#pragma once

#include <cstdint>
#include <functional>
#include <lamppost/status.hpp>
#include <string>
#include <vector>

#include "tools/bench/measure.hpp"
#include "tools/bench/options.hpp"

namespace lamppost::bench {

/// Where a rank runs.
struct RankPlace {
  char host[64] = {};
  std::int64_t pid = 0;
  std::int64_t cpu_count = 0;  // CPUs that this process may use
};

/// What does not change from row to row.
struct RunFacts {
  std::string version;    // of the loaded library, "0.1.0"
  std::string backend;    // "host"
  std::string placement;  // "4 threads of one process", "4 processes (MPI)"
  std::vector<RankPlace> places;
  std::string started_at;  // ISO 8601, UTC
  std::string cpu_model;
  std::string kernel;
  std::uint64_t memory_bytes = 0;
  std::string compiler;
  std::string how_measured;  // sentences
  std::string how_checked;
};

struct Report {
  Options options;
  RunFacts facts;
  Floor floor;
  std::vector<RowResult> rows;
  bool coloured = false;  // the table is read on a terminal

  int rank_count() const { return static_cast<int>(facts.places.size()); }
  bool fused() const { return options.operation == Operation::kAllReduceRmsNorm; }
  /// Rows are collectives, and not what one costs besides.
  bool has_collectives() const { return fused() || options.operation == Operation::kAllReduce; }
  /// The worst of all rows.
  ExitCode exit_code() const;
  /// One sentence: what holds for all rows, or what went wrong.
  std::string verdict() const;
};

/// The facts of this run on this machine. Collective: every rank calls it, every rank gets them.
RunFacts gather_facts(World& world, RankSeat& seat, const Options& options,
                      const std::string& placement);

/// "ranks 0-3: host a, pid 17, 2 CPUs"; one line a process.
std::vector<std::string> describe_places(const std::vector<RankPlace>& places);

// ---- Table: standard output, row by row --------------------------------------------------------
void print_header(const Report& report);
/// The row, and whatever is wrong with it in a way that is seen.
void print_row(const Report& report, const RowResult& result);
void print_verdict(const Report& report);

// ---- Files: errors are LP_ERROR_SYSTEM with path and reason ------------------------------------
Status write_csv(const Report& report, const std::string& path);
Status write_json(const Report& report, const std::string& path);
Status write_html(const Report& report, const std::string& path);
/// Writes `text` as the whole file.
Status write_file(const std::string& text, const std::string& path);

// ---- Texts that several forms share ------------------------------------------------------------
struct Column {
  const char* title;
  const char* unit;  // "" for none
  std::function<std::string(const RowResult&)> text;
};
/// What a row says of time, as this run has it (report_columns.cc).
std::vector<Column> time_columns(const Report& report);
/// What --floor measured.
std::string floor_sentence(const Report& report);
/// "0 B", "64 KiB", "1.5 MiB".
std::string bytes_text(std::uint64_t bytes);
/// Microseconds with four significant digits: "1.760", "17.60", "1760".
std::string microseconds_text(double us);
/// Three significant digits without an exponent: "0.0342", "30,600".
std::string short_number_text(double value);
/// "524,288".
std::string grouped_text(std::uint64_t value);
/// "3 beyond the bound, 1 differs between ranks"; empty if nothing is wrong.
std::string wrong_text(const WrongValues& wrong);

}  // namespace lamppost::bench
