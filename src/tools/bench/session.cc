#include "tools/bench/session.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <lamppost/types.hpp>
#include <set>
#include <thread>

#include "tools/bench/costs.hpp"
#include "tools/bench/measure.hpp"
#include "tools/bench/report.hpp"

namespace lamppost::bench {
namespace {

void print_error(const std::string& what, const Status& status) {
  fmt::print(stderr, "lamppost-bench: {}: {} ({})\n", what, status.message(),
             lpGetErrorString(status.code()));
}

/// Rank 0 prints every rank's error; one that several ranks share, once. Collective.
void print_creation_errors(World& world, const Status& status) {
  const std::string mine =
      status.ok() ? "" : fmt::format("{} ({})", status.message(), lpGetErrorString(status.code()));
  const std::vector<std::string> sentences = world.gather_texts(mine);
  if (world.rank() != 0) return;
  const std::set<std::string> different(sentences.begin(), sentences.end());
  for (const std::string& sentence : different) {
    if (sentence.empty()) continue;
    fmt::print(stderr, "lamppost-bench: creating the communicator: {}\n", sentence);
  }
}

/// Writes the files that were asked for. All are tried.
ExitCode write_files(const Report& report) {
  using Writer = Status (*)(const Report&, const std::string&);
  const std::pair<Writer, const std::string&> files[] = {
      {write_csv, report.options.csv_path},
      {write_json, report.options.json_path},
      {write_html, report.options.html_path},
  };
  ExitCode exit_code = kSuccess;
  for (const auto& [write, path] : files) {
    if (path.empty()) continue;
    const Status status = write(report, path);
    if (status.ok()) continue;
    print_error("report", status);
    exit_code = kBadArguments;
  }
  return exit_code;
}

/// What a rank does with its seats, which are destroyed afterwards.
using RankBody = std::function<ExitCode(World&, const RankSeats&)>;

/// Why `--compare` cannot be had here, if so.
Status prepare_comparison(const Options& options, int devices) {
  if (options.compare == Comparison::kNone) return {};
  if (devices == 0) {
    return Status(LP_ERROR_NOT_SUPPORTED, "NCCL needs GPUs, and this run is on the host backend");
  }
  return load_nccl();
}

RowResult measure(RankContext& context, const Row& row, const RowResult* init_row) {
  if (init_row != nullptr) return *init_row;
  if (context.options.operation == Operation::kHostCost) return measure_host_cost(context, row);
  return measure_row(context, row);
}

using ThreadSeats = std::vector<std::unique_ptr<RankSeat>>;

/// One communicator's ranks, each with its device.
Result<ThreadSeats> seat_threads(const Options& options, int devices) {
  Result<std::vector<Communicator>> created = create_thread_ranks(options, devices);
  if (!created.ok()) return created.status();
  ThreadSeats seats;
  for (Communicator& communicator : created.value()) {
    const int device = device_of(communicator.rank(), devices, options.sharing);
    Result<std::unique_ptr<RankSeat>> seat = RankSeat::create(std::move(communicator), device);
    if (!seat.ok()) return seat.status();
    seats.push_back(seat.take());
  }
  return seats;
}

/// Makes the ranks of this process as threads, runs `body` on each, destroys them.
ExitCode on_threads(const Options& options, int devices, const RankBody& body) {
  const bool has_probes = needs_probes(options, devices);
  Result<ThreadSeats> probes = has_probes ? seat_threads(options, devices) : ThreadSeats();
  Result<ThreadSeats> rows =
      probes.ok() ? seat_threads(options, devices) : Result<ThreadSeats>(probes.status());
  if (!rows.ok()) {
    print_error("creating the communicator", rows.status());
    return kCallFailed;
  }
  const std::vector<std::unique_ptr<World>> worlds = make_thread_worlds(options.thread_ranks);
  std::vector<ExitCode> exit_codes(worlds.size(), kSuccess);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < worlds.size(); ++rank) {
    threads.emplace_back([&, rank] {
      const RankSeats seats{*rows.value()[rank], has_probes ? probes.value()[rank].get() : nullptr};
      exit_codes[rank] = body(*worlds[rank], seats);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(exit_codes.begin(), exit_codes.end());
}

/// This process's rank of one communicator. Collective; null, and the error told, if any rank has
/// none.
std::unique_ptr<RankSeat> seat_process(MpiProcess& process, const lpConfig& config) {
  Result<Communicator> created = process.create_communicator(config);
  Status status = created.status();
  std::unique_ptr<RankSeat> seat;
  if (status.ok()) {
    Result<std::unique_ptr<RankSeat>> seated = RankSeat::create(created.take(), config.device);
    status = seated.status();
    if (seated.ok()) seat = seated.take();
  }
  if (!process.world().any(!status.ok())) return seat;
  print_creation_errors(process.world(), status);
  return nullptr;
}

/// What --op init creates again and again.
Result<std::vector<Communicator>> one_rank(MpiProcess& process, const lpConfig& config) {
  Result<Communicator> created = process.create_communicator(config);
  if (!created.ok()) return created.status();
  std::vector<Communicator> ranks;
  ranks.push_back(created.take());
  return ranks;
}

/// --floor on this rank's probes; kSuccess without it. Errors are told by the rank that has one.
ExitCode prepare_floor(World& world, const RankSeats& seats, const Options& options, Floor& floor) {
  if (!options.floor) return kSuccess;
  Result<Floor> measured = measure_floor(world, *seats.probes, options);
  if (measured.ok()) {
    floor = measured.take();
    return kSuccess;
  }
  if (measured.status().code() != LP_ERROR_ABORTED) {
    print_error(fmt::format("rank {}: --floor", world.rank()), measured.status());
  }
  return kCallFailed;
}

}  // namespace

ExitCode run_session(World& world, const RankSeats& seats, const Options& options,
                     const Surroundings& surroundings, const RowResult* init_row) {
  const bool first = world.rank() == 0;
  const bool terminal = first && surroundings.may_be_terminal;
  Progress progress(terminal ? Progress::detect() : Progress::Output::kNone);
  Report report;
  report.options = options;
  report.facts = gather_facts(world, seats.rows, options, surroundings.placement);
  report.coloured = terminal && isatty(STDOUT_FILENO) != 0;
  const ExitCode prepared = prepare_floor(world, seats, options, report.floor);
  if (prepared != kSuccess) return prepared;
  std::unique_ptr<NcclRank> nccl;
  if (options.compare == Comparison::kNccl) {
    Result<std::unique_ptr<NcclRank>> created = NcclRank::create(world, seats.rows);
    if (!created.ok()) {
      print_error(fmt::format("rank {}: starting NCCL", world.rank()), created.status());
      return kCallFailed;
    }
    nccl = created.take();
  }
  if (first) print_header(report);
  const bool has_clocks = seats.rows.workbench().backend() != LP_BACKEND_HOST;
  RankContext context{world,     seats.rows,   options,
                      progress,  report.floor, has_clocks ? seats.probes : nullptr,
                      nccl.get()};
  for (const Row& row : plan_rows(options)) {
    report.rows.push_back(measure(context, row, init_row));
    progress.clear();
    if (first) print_row(report, report.rows.back());
    if (!report.rows.back().failures.empty()) break;  // the communicator's errors are sticky
  }
  if (!first) return report.exit_code();
  print_verdict(report);
  return std::max(report.exit_code(), write_files(report));
}

ExitCode run_threads(const Options& given) {
  Options options = given;
  const int devices = prepare_devices(options);
  if (devices != 0 && !options.thread_ranks_given && options.sharing == Sharing::kExclusive) {
    options.thread_ranks = std::min(devices, LP_MAX_WORLD_TODAY);
  }
  Status status = prepare_comparison(options, devices);
  if (!status.ok()) {
    print_error("--compare nccl", status);
    return kBadArguments;
  }
  Surroundings surroundings{"1 thread", true};
  if (options.thread_ranks > 1) {
    surroundings.placement = fmt::format("{} threads of one process", options.thread_ranks);
  }
  RowResult init_row;
  const bool is_init = options.operation == Operation::kInit;
  if (is_init) {
    Result<RowResult> row =
        measure_init(nullptr, options, [&] { return create_thread_ranks(options, devices); });
    if (!row.ok()) {
      print_error("creating the communicator", row.status());
      return kCallFailed;
    }
    init_row = row.take();
  }
  return on_threads(options, devices, [&](World& world, const RankSeats& seats) {
    return run_session(world, seats, options, surroundings, is_init ? &init_row : nullptr);
  });
}

ExitCode run_process(MpiProcess& process, const Options& options) {
  World& world = process.world();
  const int devices = prepare_devices(options);
  const lpConfig config =
      config_of(options, device_of(process.local_rank(), devices, options.sharing));
  Status status = prepare_comparison(options, devices);
  if (world.any(!status.ok())) {
    if (!status.ok()) print_error(fmt::format("rank {}: --compare nccl", world.rank()), status);
    return kBadArguments;
  }
  Surroundings surroundings{"1 process (MPI)", false};
  if (world.rank_count() > 1) {
    surroundings.placement = fmt::format("{} processes (MPI)", world.rank_count());
  }
  RowResult init_row;
  const bool is_init = options.operation == Operation::kInit;
  if (is_init) {
    Result<RowResult> row =
        measure_init(&world, options, [&] { return one_rank(process, config); });
    if (world.any(!row.ok())) {
      print_creation_errors(world, row.status());
      return kCallFailed;
    }
    init_row = row.take();
  }
  const bool has_probes = world.any(needs_probes(options, devices));
  const std::unique_ptr<RankSeat> probes = has_probes ? seat_process(process, config) : nullptr;
  if (has_probes && probes == nullptr) return kCallFailed;
  const std::unique_ptr<RankSeat> rows = seat_process(process, config);
  if (rows == nullptr) return kCallFailed;
  return run_session(world, {*rows, probes.get()}, options, surroundings,
                     is_init ? &init_row : nullptr);
}

}  // namespace lamppost::bench
