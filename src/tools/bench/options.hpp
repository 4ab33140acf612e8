// What the user asked lamppost-bench for, and the rows that follow from it. parse_options is called
// once by main; the rest is pure.
#pragma once

#include <lamppost/lamppost.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lamppost::bench {

/// Exit statuses of lamppost-bench; the worst of all rows wins (kCallFailed over kWrongValues).
enum ExitCode : int {
  kSuccess = 0,
  kBadArguments = 1,
  kWrongValues = 2,
  kCallFailed = 3,
  kBadLaunch = 4,
};

enum class Operation { kAllReduce, kAllReduceRmsNorm, kHostCost, kInit };
enum class Mode { kEager, kGraph };
enum class Placement { kOutOfPlace, kInPlace };
enum class Check { kOff, kOn };
/// Whether several ranks may be on one device.
enum class Sharing { kExclusive, kShared };
enum class Comparison { kNone, kNccl };

struct Options {
  std::uint64_t min_bytes = 1024;
  std::uint64_t max_bytes = 1 << 20;
  std::uint64_t step_factor = 4;
  std::uint64_t step_bytes = 0;  // 0: multiply by step_factor instead
  int iterations = 20;           // calls of one batch
  int batches = 20;              // samples of one row
  int warmup = 5;                // calls before the first sample, at least
  std::int64_t warmup_ms = LP_DEFAULT;  // and at least this long; see warmup_ms_of
  int rotate_sets = 0;           // sets of buffers that a batch goes through; 0: chosen
  bool floor = false;            // measure what the machine allows, too
  Comparison compare = Comparison::kNone;
  int thread_ranks = 4;
  bool thread_ranks_given = false;
  Check check = Check::kOn;
  Operation operation = Operation::kAllReduce;
  lpDataType_t type = LP_BFLOAT16;
  std::vector<std::int64_t> tokens;  // empty: from the byte sweep
  std::int64_t hidden = 7168;
  lpBackend_t backend = LP_BACKEND_AUTO;
  Mode mode = Mode::kEager;
  Sharing sharing = Sharing::kExclusive;
  bool early_launch = false;
  Placement placement = Placement::kOutOfPlace;
  std::int64_t timeout_ms = LP_DEFAULT;
  std::uint64_t slot_bytes = 0;
  std::uint64_t seed = 1;
  std::string json_path;
  std::string html_path;
  std::string csv_path;
  std::string command_line;
};

/// One line of the table: one shape of the collective.
struct Row {
  int index = 0;            // 0, 1, ... of the run; seeds the inputs
  std::int64_t tokens = 0;  // plain all-reduce: 1
  std::int64_t hidden = 0;  // plain all-reduce: the element count
  std::uint64_t elements = 0;
  std::uint64_t bytes = 0;
};

struct ParsedOptions {
  std::optional<Options> options;  // empty: print `text` and exit with `exit_code`
  int exit_code = kSuccess;        // kSuccess for --help and --version
  std::string text;
};

/// Never exits, never prints.
ParsedOptions parse_options(int argc, const char* const* argv);

/// "0", "8", "64K", "4M", "1g" in bytes (K = 1024); nothing for any other text or above 2^63 - 1.
std::optional<std::uint64_t> parse_size(std::string_view text);

/// The rows of a run, smallest first; sizes are rounded down to whole elements (plain) or up to
/// whole tokens (fused), and equal neighbours are merged.
std::vector<Row> plan_rows(const Options& options);

/// How long a row is warmed up at least: what was asked for, else 100 ms on GPUs and 0 on the host.
/// Twice as long for what comes first, --floor or a row: it finds the device idle, at a low clock.
std::int64_t warmup_ms_of(const Options& options, lpBackend_t backend, bool is_first);

/// "all_reduce", "all_reduce_rmsnorm", "host_cost" or "init"; "eager" or "graph".
const char* operation_name(Operation operation);
const char* mode_name(Mode mode);

}  // namespace lamppost::bench
