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

/// What a rank does with its seat, which is destroyed afterwards.
using RankBody = std::function<ExitCode(World&, RankSeat&)>;

/// Why `--compare` cannot be had here, if so.
Status prepare_comparison(const Options& options, int devices) {
  if (options.compare == Comparison::kNone) return {};
  if (devices == 0) {
    return Status(LP_ERROR_NOT_SUPPORTED, "NCCL needs GPUs, and this run is on the host backend");
  }
  return load_nccl();
}

RowResult measure(RankContext& context, const Row& row, const Prepared& prepared) {
  if (prepared.init_row) return *prepared.init_row;
  if (context.options.operation == Operation::kHostCost) return measure_host_cost(context, row);
  return measure_row(context, row);
}

/// Runs `on_ranks` once for the survey, if there is to be one, and once for the rows. `prepared`
/// has a place for every rank of this process, found by `place_of`.
ExitCode survey_and_run(const Options& options, int devices, const Surroundings& surroundings,
                        std::vector<Prepared>& prepared,
                        const std::function<ExitCode(const RankBody&)>& on_ranks) {
  const auto place_of = [&prepared](World& world) -> Prepared& {
    return prepared[static_cast<std::size_t>(world.rank()) % prepared.size()];
  };
  if (needs_survey(options, devices)) {
    const ExitCode exit_code = on_ranks([&](World& world, RankSeat& seat) {
      Result<Survey> survey = survey_machine(world, seat, options);
      if (survey.ok()) place_of(world).survey = survey.take();
      if (!survey.ok() && survey.status().code() != LP_ERROR_ABORTED) {
        print_error(fmt::format("rank {}: surveying the machine", world.rank()), survey.status());
      }
      return survey.ok() ? kSuccess : kCallFailed;
    });
    if (exit_code != kSuccess) return exit_code;
  }
  return on_ranks([&](World& world, RankSeat& seat) {
    return run_session(world, seat, options, surroundings, place_of(world));
  });
}

/// Makes the ranks of this process as threads, runs `body` on each, destroys them.
ExitCode on_threads(const Options& options, int devices, const RankBody& body) {
  std::vector<std::unique_ptr<RankSeat>> seats;
  Result<std::vector<Communicator>> created = create_thread_ranks(options, devices);
  Status status = created.status();
  for (std::size_t rank = 0; status.ok() && rank < created.value().size(); ++rank) {
    const int device = device_of(static_cast<int>(rank), devices, options.sharing);
    Result<std::unique_ptr<RankSeat>> seat =
        RankSeat::create(std::move(created.value()[rank]), device);
    status = seat.status();
    if (seat.ok()) seats.push_back(seat.take());
  }
  if (!status.ok()) {
    print_error("creating the communicator", status);
    return kCallFailed;
  }
  const std::vector<std::unique_ptr<World>> worlds = make_thread_worlds(options.thread_ranks);
  std::vector<ExitCode> exit_codes(seats.size(), kSuccess);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < seats.size(); ++rank) {
    threads.emplace_back([&, rank] { exit_codes[rank] = body(*worlds[rank], *seats[rank]); });
  }
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(exit_codes.begin(), exit_codes.end());
}

/// Makes this process's rank, runs `body` on it, destroys it. Collective.
ExitCode on_process(MpiProcess& process, const lpConfig& config, const RankBody& body) {
  World& world = process.world();
  Result<Communicator> created = process.create_communicator(config);
  Status status = created.status();
  std::unique_ptr<RankSeat> seat;
  if (status.ok()) {
    Result<std::unique_ptr<RankSeat>> seated = RankSeat::create(created.take(), config.device);
    status = seated.status();
    if (seated.ok()) seat = seated.take();
  }
  if (world.any(!status.ok())) {
    print_creation_errors(world, status);
    return kCallFailed;
  }
  return body(world, *seat);
}

}  // namespace

ExitCode run_session(World& world, RankSeat& seat, const Options& options,
                     const Surroundings& surroundings, const Prepared& prepared) {
  const bool first = world.rank() == 0;
  const bool terminal = first && surroundings.may_be_terminal;
  Progress progress(terminal ? Progress::detect() : Progress::Output::kNone);
  Report report;
  report.options = options;
  report.facts = gather_facts(world, seat, options, surroundings.placement);
  report.floor = prepared.survey.floor;
  report.coloured = terminal && isatty(STDOUT_FILENO) != 0;
  std::unique_ptr<NcclRank> nccl;
  if (options.compare == Comparison::kNccl) {
    Result<std::unique_ptr<NcclRank>> created = NcclRank::create(world, seat);
    if (!created.ok()) {
      print_error(fmt::format("rank {}: starting NCCL", world.rank()), created.status());
      return kCallFailed;
    }
    nccl = created.take();
  }
  if (first) print_header(report);
  RankContext context{world, seat, options, progress, prepared.survey, nccl.get()};
  for (const Row& row : plan_rows(options)) {
    report.rows.push_back(measure(context, row, prepared));
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
  std::vector<Prepared> prepared(static_cast<std::size_t>(options.thread_ranks));
  if (options.operation == Operation::kInit) {
    Result<RowResult> row =
        measure_init(nullptr, options, [&] { return create_thread_ranks(options, devices); });
    if (!row.ok()) {
      print_error("creating the communicator", row.status());
      return kCallFailed;
    }
    for (Prepared& one : prepared) one.init_row = row.value();
  }
  return survey_and_run(options, devices, surroundings, prepared,
                        [&](const RankBody& body) { return on_threads(options, devices, body); });
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
  std::vector<Prepared> prepared(1);
  if (options.operation == Operation::kInit) {
    Result<RowResult> row =
        measure_init(&world, options, [&]() -> Result<std::vector<Communicator>> {
          Result<Communicator> created = process.create_communicator(config);
          if (!created.ok()) return created.status();
          std::vector<Communicator> one;
          one.push_back(created.take());
          return one;
        });
    if (world.any(!row.ok())) {
      print_creation_errors(world, row.status());
      return kCallFailed;
    }
    prepared[0].init_row = row.take();
  }
  return survey_and_run(options, devices, surroundings, prepared,
                        [&](const RankBody& body) { return on_process(process, config, body); });
}

}  // namespace lamppost::bench
