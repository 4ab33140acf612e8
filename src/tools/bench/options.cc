#include "tools/bench/options.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace lamppost::bench {
namespace {

constexpr std::uint64_t kMostRotationSets = 1 << 20;

/// Texts of options that need a second look after CLI11 has split the command line.
struct RawOptions {
  std::string min_bytes, max_bytes, step_bytes, slot_bytes, rotate;
  int check = 1;
  bool graph = false;
  bool eager = false;
  bool in_place = false;
  bool share_devices = false;
};

/// Turns a name of `names`, in any case, into its number; the error lists the names.
template <class Enum>
CLI::Validator one_of(const std::vector<std::pair<std::string, Enum>>& names) {
  const auto transform = [names](std::string& text) -> std::string {
    std::string known;
    for (const auto& [name, value] : names) {
      if (CLI::detail::to_lower(text) == name) {
        text = std::to_string(static_cast<int>(value));
        return {};
      }
      known += (known.empty() ? "" : ", ") + name;
    }
    return fmt::format("'{}' is none of {}", text, known);
  };
  return CLI::Validator(transform, "");
}

template <class Number>
CLI::Validator in_range(Number low, Number high) {
  return CLI::Range(low, high).description("");
}

std::string version_text() {
  return fmt::format("lamppost-bench {}.{}.{}", LP_VERSION_MAJOR, LP_VERSION_MINOR,
                     LP_VERSION_PATCH);
}

void declare_sweep(CLI::App& app, Options& options, RawOptions& raw) {
  const char* group = "Sizes";
  app.add_option("-b,--min-bytes,--minbytes", raw.min_bytes,
                 "Smallest message; K, M, G suffixes; 0 allowed (default 1K)")
      ->type_name("SIZE")
      ->group(group);
  app.add_option("-e,--max-bytes,--maxbytes", raw.max_bytes, "Largest message (default 1M)")
      ->type_name("SIZE")
      ->group(group);
  auto* factor = app.add_option("-f,--step-factor,--stepfactor", options.step_factor,
                                "Multiply the size by this from row to row (default 4)");
  factor->type_name("N")->group(group)->check(
      in_range(std::uint64_t{2}, std::numeric_limits<std::uint64_t>::max()));
  app.add_option("-i,--step-bytes,--stepbytes", raw.step_bytes,
                 "Add this to the size from row to row instead")
      ->type_name("SIZE")
      ->group(group)
      ->excludes(factor);
  app.add_option("--tokens", options.tokens,
                 "Fused: rows of these tokens, comma-separated, instead of the byte sweep")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false)
      ->type_name("LIST")
      ->group(group)
      ->check(in_range(std::int64_t{0}, std::int64_t{1} << 40));
  app.add_option("--hidden", options.hidden, "Fused: hidden size in elements (default 7168)")
      ->type_name("N")
      ->group(group)
      ->check(in_range(std::int64_t{1}, std::int64_t{LP_MAX_HIDDEN}));
}

void declare_workload(CLI::App& app, Options& options, RawOptions& raw) {
  const char* group = "Workload";
  app.add_option("--op", options.operation,
                 "all_reduce (default), all_reduce_rmsnorm, host_cost (host time to enqueue one "
                 "call) or init (time to create and destroy a communicator)")
      ->transform(one_of<Operation>({{"all_reduce", Operation::kAllReduce},
                                     {"all_reduce_rmsnorm", Operation::kAllReduceRmsNorm},
                                     {"host_cost", Operation::kHostCost},
                                     {"init", Operation::kInit}}))
      ->type_name("OP")
      ->group(group);
  app.add_option("--dtype", options.type, "bf16 (default), fp16 or fp32")
      ->transform(
          one_of<lpDataType_t>({{"bf16", LP_BFLOAT16}, {"fp16", LP_FLOAT16}, {"fp32", LP_FLOAT32}}))
      ->type_name("TYPE")
      ->group(group);
  app.add_flag("--in-place", raw.in_place, "out = in (fused: residual_out = residual_in too)")
      ->group(group);
  app.add_option("-c,--check", raw.check, "Check every row (default 1) or none (0)")
      ->type_name("0|1")
      ->group(group)
      ->check(in_range(0, 1));
  app.add_option("--seed", options.seed, "Seed of the inputs (default 1)")
      ->type_name("N")
      ->group(group);
}

void declare_measurement(CLI::App& app, Options& options, RawOptions& raw) {
  const char* group = "Measurement";
  const CLI::Validator at_least_one = in_range(1, 1 << 30);
  auto* graph = app.add_flag("--graph", raw.graph, "Capture a batch as one graph and replay it");
  graph->group(group);
  app.add_flag("--eager", raw.eager, "Enqueue call by call (default)")
      ->group(group)
      ->excludes(graph);
  app.add_option("-n,--iters", options.iterations, "Calls of one batch (default 20)")
      ->type_name("N")
      ->group(group)
      ->check(at_least_one);
  app.add_option("--batches", options.batches, "Batches of one row: its samples (default 20)")
      ->type_name("N")
      ->group(group)
      ->check(at_least_one);
  app.add_option("-w,--warmup", options.warmup,
                 "Calls before the first batch, in the same mode (default 5)")
      ->type_name("N")
      ->group(group)
      ->check(in_range(0, 1 << 30));
  app.add_option("--warmup-ms", options.warmup_ms,
                 "And at least this long, twice for what comes first (default: 100 on GPUs, whose "
                 "clocks rise with work; host 0)")
      ->type_name("MS")
      ->group(group)
      ->check(in_range(0, 60'000));
  app.add_option("--rotate", raw.rotate,
                 "Sets of buffers that a batch goes through: auto (default; enough for twice the "
                 "device's cache), off, or a number")
      ->type_name("N")
      ->group(group);
  app.add_flag("--floor", options.floor,
               "Measure latency, launch and link first, and show each row against their sum")
      ->group(group);
  app.add_option("--compare", options.compare, "nccl: time it too, batch by batch beside ours")
      ->transform(one_of<Comparison>({{"nccl", Comparison::kNccl}}))
      ->type_name("LIB")
      ->group(group);
}

void declare_ranks(CLI::App& app, Options& options, RawOptions& raw) {
  const char* group = "Ranks";
  app.add_option(
         "-t,--ranks", options.thread_ranks,
         "Ranks as threads of this process (default: the GPUs, 4 on the host); under mpirun "
         "one rank a process")
      ->type_name("N")
      ->group(group)
      ->check(in_range(1, LP_MAX_WORLD_TODAY));
  app.add_option("--backend", options.backend, "auto (default), host, cuda or hip")
      ->transform(one_of<lpBackend_t>({{"auto", LP_BACKEND_AUTO},
                                       {"host", LP_BACKEND_HOST},
                                       {"cuda", LP_BACKEND_CUDA},
                                       {"hip", LP_BACKEND_HIP}}))
      ->type_name("NAME")
      ->group(group);
  app.add_flag("--share-devices", raw.share_devices, "Several ranks on one GPU, by turns")
      ->group(group);
  app.add_flag("--early-launch", options.early_launch,
               "Kernels may start before their predecessor ends, where devices can")
      ->group(group);
  app.add_option("--timeout-ms", options.timeout_ms,
                 "Time that a call may wait for a peer; 0: for ever")
      ->type_name("MS")
      ->group(group)
      ->check(in_range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()));
  app.add_option("--slot-bytes", raw.slot_bytes, "Largest message of one launch (default 2M)")
      ->type_name("SIZE")
      ->group(group);
}

void declare_reports(CLI::App& app, Options& options) {
  const char* group = "Reports";
  app.add_option("--json", options.json_path, "Write everything, samples included, as JSON")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--csv", options.csv_path, "Write the table as CSV")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--html", options.html_path, "Write a report with plots, one file")
      ->type_name("FILE")
      ->group(group);
}

/// Writes the size `text` into *bytes; an empty text leaves it. Returns what is wrong, if anything.
std::string take_size(const char* option, const std::string& text, std::uint64_t* bytes) {
  if (text.empty()) return {};
  const std::optional<std::uint64_t> size = parse_size(text);
  if (!size) return fmt::format("{}: '{}' is no size (64, 4K, 16M, 1G)", option, text);
  *bytes = *size;
  return {};
}

/// Writes the number of sets into *sets (auto: 0, off: 1). Returns what is wrong, if anything.
std::string take_rotation(const std::string& text, int* sets) {
  const std::string lower = CLI::detail::to_lower(text);
  if (text.empty() || lower == "auto") return {};
  const std::optional<std::uint64_t> number = lower == "off" ? 1 : parse_size(text);
  if (!number || *number == 0 || *number > kMostRotationSets) {
    return fmt::format("--rotate: '{}' is none of auto, off, 1 to {}", text, kMostRotationSets);
  }
  *sets = static_cast<int>(*number);
  return {};
}

/// Options that do not go together. Returns what is wrong, if anything.
std::string find_conflict(const Options& options) {
  const bool fused = options.operation == Operation::kAllReduceRmsNorm;
  if (!options.tokens.empty() && !fused) return "--tokens goes with --op all_reduce_rmsnorm";
  if (options.compare == Comparison::kNccl) {
    if (options.operation != Operation::kAllReduce) {
      return "--compare nccl goes with --op all_reduce: NCCL has nothing else to compare with";
    }
    if (options.backend == LP_BACKEND_HOST) {
      return "--compare nccl: NCCL needs GPUs, not the host backend";
    }
    if (options.sharing == Sharing::kShared) {
      return "--compare nccl: NCCL refuses ranks that share a device (--share-devices)";
    }
  }
  const bool is_cost =
      options.operation == Operation::kHostCost || options.operation == Operation::kInit;
  if (is_cost && options.mode == Mode::kGraph) {
    return fmt::format("--op {} has no --graph", operation_name(options.operation));
  }
  if (is_cost && options.floor) {
    return fmt::format("--op {} has no --floor", operation_name(options.operation));
  }
  return {};
}

/// Moves `raw` into `options`. Returns what is wrong, if anything.
std::string finish(const RawOptions& raw, Options& options) {
  for (const std::string& problem : {take_size("--min-bytes", raw.min_bytes, &options.min_bytes),
                                     take_size("--max-bytes", raw.max_bytes, &options.max_bytes),
                                     take_size("--step-bytes", raw.step_bytes, &options.step_bytes),
                                     take_size("--slot-bytes", raw.slot_bytes, &options.slot_bytes),
                                     take_rotation(raw.rotate, &options.rotate_sets)}) {
    if (!problem.empty()) return problem;
  }
  if (!raw.step_bytes.empty() && options.step_bytes == 0) {
    return "--step-bytes: 0 would never end";
  }
  if (raw.max_bytes.empty()) options.max_bytes = std::max(options.max_bytes, options.min_bytes);
  if (raw.min_bytes.empty()) options.min_bytes = std::min(options.max_bytes, options.min_bytes);
  if (options.min_bytes > options.max_bytes) {
    return fmt::format("--min-bytes {} is above --max-bytes {}", raw.min_bytes, raw.max_bytes);
  }
  const bool has_outputs = options.operation == Operation::kAllReduce ||
                           options.operation == Operation::kAllReduceRmsNorm;
  options.check = raw.check == 1 && has_outputs ? Check::kOn : Check::kOff;
  options.mode = raw.graph ? Mode::kGraph : Mode::kEager;
  options.placement = raw.in_place ? Placement::kInPlace : Placement::kOutOfPlace;
  options.sharing = raw.share_devices ? Sharing::kShared : Sharing::kExclusive;
  return find_conflict(options);
}

}  // namespace

ParsedOptions parse_options(int argc, const char* const* argv) {
  Options options;
  RawOptions raw;
  CLI::App app(
      "Measures and checks Lamppost's collectives. Ranks are threads of this process, or, under\n"
      "mpirun, processes. Exit status: 0 all right, 1 bad arguments, 2 wrong values, 3 a call\n"
      "failed, 4 launched by mpirun or srun but alone.",
      "lamppost-bench");
  app.set_version_flag("--version", version_text());
  app.get_formatter()->column_width(34);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  declare_sweep(app, options, raw);
  declare_workload(app, options, raw);
  declare_measurement(app, options, raw);
  declare_ranks(app, options, raw);
  declare_reports(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return {std::nullopt, kSuccess, app.help()};
  } catch (const CLI::CallForVersion&) {
    return {std::nullopt, kSuccess, version_text() + "\n"};
  } catch (const CLI::ParseError& error) {
    return {std::nullopt, kBadArguments, fmt::format("lamppost-bench: {}\n", error.what())};
  }
  options.thread_ranks_given = app.count("--ranks") > 0;
  const std::string problem = finish(raw, options);
  if (!problem.empty()) {
    return {std::nullopt, kBadArguments, fmt::format("lamppost-bench: {}\n", problem)};
  }
  for (int i = 0; i < argc; ++i) {
    options.command_line += (i == 0 ? "" : " ") + std::string(argv[i]);
  }
  return {options, kSuccess, {}};
}

}  // namespace lamppost::bench
