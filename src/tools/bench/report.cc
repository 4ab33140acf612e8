#include "tools/bench/report.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <lamppost/types.hpp>

namespace lamppost::bench {
namespace {

/// ISO 8601, to the second.
std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  char text[32] = {};
  if (gmtime_r(&now, &utc) != nullptr)
    std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

RankPlace this_place() {
  RankPlace place;
  gethostname(place.host, sizeof(place.host) - 1);
  place.pid = getpid();
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  // More CPUs than cpu_set_t holds: the kernel refuses, and all online ones are the best guess.
  place.cpu_count = sched_getaffinity(0, sizeof(allowed), &allowed) == 0
                        ? CPU_COUNT(&allowed)
                        : sysconf(_SC_NPROCESSORS_ONLN);
  return place;
}

std::string cpu_model() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  utsname system{};
  uname(&system);
  return system.machine;
}

std::string kernel() {
  utsname system{};
  uname(&system);
  return fmt::format("{} {}", system.sysname, system.release);
}

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string how_batches_are_measured(const Options& options) {
  const char* enqueue = options.mode == Mode::kGraph
                            ? "one replay of a graph that holds {0} captured calls"
                            : "{0} calls enqueued one after the other";
  return fmt::format(
      "A sample is one batch: after a barrier of all ranks, each rank reads the monotonic clock, "
      "enqueues the batch ({1}), waits until its stream has run it, and reads the clock again; the "
      "slowest rank's time divided by {0} is the time of a call. avg, p50 and p99 (nearest rank) "
      "are over {2} batches; bandwidths use p50; skew is the median spread of the ranks' first "
      "clock readings of a batch; host is the enqueueing alone, for one call. device and dev skew "
      "are the same by timestamps that the devices take in front of and behind {2} more batches "
      "(latest end - latest start; latest - earliest start). Before the first sample at least {3} "
      "calls ran in the same mode, on GPUs for 100 ms (the first row 200 ms) unless --warmup-ms says "
      "else. A row is warm if the buffers that a batch goes through fit the device's last-level "
      "cache together, cold if not, - if its size is not known.",
      options.iterations, fmt::format(fmt::runtime(enqueue), options.iterations), options.batches,
      options.warmup);
}

std::string how_measured(const Options& options) {
  switch (options.operation) {
    case Operation::kHostCost:
      return fmt::format(
          "A sample is one call of one rank: with an idle device, the monotonic clock is read "
          "before and after the call that enqueues it, and the stream is waited for behind the "
          "second reading. {} calls on every rank, after {} that do not count.",
          options.iterations * options.batches, options.warmup);
    case Operation::kInit:
      return fmt::format(
          "A sample is the creation of a communicator of all ranks, and apart from it its "
          "destruction: the slowest process's time, {} times, the first included.",
          options.batches);
    default:
      break;
  }
  std::string text = how_batches_are_measured(options);
  if (options.compare == Comparison::kNccl) {
    text +=
        " NCCL's all-reduce ran in the same mode, its batches by turns with ours: on the same "
        "buffers, and (sym) on buffers of its own in symmetric windows; its results are not "
        "checked.";
  }
  return text;
}

std::string how_checked(const Options& options) {
  if (options.check == Check::kOff) return "Nothing was checked.";
  const char* bound =
      options.operation == Operation::kAllReduce
          ? "the exact sum in double precision (N * 2^-24 * sum|x| + half an ulp)"
          : "the exact values in double precision: residual_out against the sums, out against "
            "residual_out's own bits (the bounds in lamppost.h)";
  return fmt::format(
      "Every element of every row on every rank, before the timed calls: within the documented "
      "bound of {}, and bit-equal on all ranks. After the timed calls, on every set of buffers: "
      "bit-equal to the first result, and no byte written past the end of a tensor.",
      bound);
}

}  // namespace

ExitCode Report::exit_code() const {
  ExitCode worst = kSuccess;
  for (const RowResult& row : rows) worst = std::max(worst, row.exit_code());
  return worst;
}

std::string Report::verdict() const {
  std::uint64_t wrong = 0;
  std::size_t wrong_rows = 0;
  for (const RowResult& row : rows) {
    if (!row.failures.empty()) {
      return fmt::format("a call failed at {}; the run stopped there", bytes_text(row.row.bytes));
    }
    wrong += row.wrong.total();
    if (row.wrong.total() != 0) ++wrong_rows;
  }
  if (wrong != 0) {
    return fmt::format("{} wrong value{} in {} of {} row{}", wrong, wrong == 1 ? "" : "s",
                       wrong_rows, rows.size(), rows.size() == 1 ? "" : "s");
  }
  if (options.check == Check::kOff) return "not checked";
  const std::string right =
      rows.size() == 1 ? "the one row is right" : fmt::format("all {} rows are right", rows.size());
  if (rank_count() == 1) return right;
  return fmt::format("{} on all {} ranks, bit for bit the same", right, rank_count());
}

RunFacts gather_facts(World& world, RankSeat& seat, const Options& options,
                      const std::string& placement) {
  RunFacts facts;
  facts.version = version_text(lpGetVersion());
  const Result<lpBackend_t> backend = seat.communicator().backend();
  facts.backend = backend.ok() ? backend_name(backend.value()) : "unknown";
  facts.placement = placement;
  facts.places = world.gather(this_place());
  facts.started_at = utc_now();
  facts.cpu_model = cpu_model();
  facts.kernel = kernel();
  const long pages = sysconf(_SC_PHYS_PAGES);
  facts.memory_bytes = static_cast<std::uint64_t>(std::max(pages, 0L)) *
                       static_cast<std::uint64_t>(std::max(sysconf(_SC_PAGESIZE), 0L));
#ifdef __clang__
  facts.compiler = "clang " __clang_version__;
#else
  facts.compiler = "g++ " __VERSION__;
#endif
  facts.how_measured = how_measured(options);
  facts.how_checked = how_checked(options);
  return facts;
}

std::vector<std::string> describe_places(const std::vector<RankPlace>& places) {
  std::vector<std::string> lines;
  for (std::size_t first = 0; first < places.size();) {
    const RankPlace& place = places[first];
    std::size_t last = first;
    while (last + 1 < places.size() && places[last + 1].pid == place.pid &&
           std::strcmp(places[last + 1].host, place.host) == 0) {
      ++last;
    }
    const std::string ranks =
        first == last ? fmt::format("rank {}", first) : fmt::format("ranks {}-{}", first, last);
    lines.push_back(fmt::format("{}: host {}, pid {}, {} CPU{}", ranks, place.host, place.pid,
                                place.cpu_count, place.cpu_count == 1 ? "" : "s"));
    first = last + 1;
  }
  return lines;
}

Status write_file(const std::string& text, const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  bool ok = file != nullptr;
  if (ok) ok = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr && std::fclose(file) != 0) ok = false;
  if (ok) return Status();
  return Status(LP_ERROR_SYSTEM, fmt::format("cannot write {}: {}", path, std::strerror(errno)));
}

std::string bytes_text(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  auto value = static_cast<double>(bytes);
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.4g} {}", value, kUnits[unit]);
}

std::string microseconds_text(double us) {
  const int decimals = us < 10 ? 3 : us < 100 ? 2 : us < 1000 ? 1 : 0;
  return fmt::format("{:.{}f}", us, decimals);
}

std::string short_number_text(double value) {
  if (value < 1000) return fmt::format("{:.3g}", value);
  const double unit = std::pow(10, std::floor(std::log10(value)) - 2);
  return grouped_text(static_cast<std::uint64_t>(std::round(value / unit) * unit));
}

std::string grouped_text(std::uint64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string wrong_text(const WrongValues& wrong) {
  std::string text;
  const auto add = [&text](std::uint64_t count, const char* what) {
    if (count != 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, what);
  };
  add(wrong.beyond_bound, "beyond the error bound");
  add(wrong.differ_by_rank, "not bit-equal to rank 0's");
  add(wrong.changed_later, "changed after the timed calls");
  add(wrong.guard_bytes, "bytes written past the end");
  return text;
}

}  // namespace lamppost::bench
