#include "tools/bench/session.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <lamppost/types.hpp>
#include <set>
#include <thread>

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

/// Every rank of this process, each with its device.
Result<std::vector<std::unique_ptr<RankSeat>>> seat_threads(const Options& options, int devices) {
  Result<std::vector<Communicator>> created = create_thread_ranks(options, devices);
  if (!created.ok()) return created.status();
  std::vector<std::unique_ptr<RankSeat>> seats;
  for (Communicator& communicator : created.value()) {
    const int device = device_of(communicator.rank(), devices, options.sharing);
    Result<std::unique_ptr<RankSeat>> seat = RankSeat::create(std::move(communicator), device);
    if (!seat.ok()) return seat.status();
    seats.push_back(seat.take());
  }
  return seats;
}

}  // namespace

ExitCode run_session(World& world, RankSeat& seat, const Options& options,
                     const Surroundings& surroundings) {
  const bool first = world.rank() == 0;
  const bool terminal = first && surroundings.may_be_terminal;
  Progress progress(terminal ? Progress::detect() : Progress::Output::kNone);
  Report report;
  report.options = options;
  report.facts = gather_facts(world, seat, options, surroundings.placement);
  report.coloured = terminal && isatty(STDOUT_FILENO) != 0;
  if (first) print_header(report);
  RankContext context{world, seat, options, progress};
  for (const Row& row : plan_rows(options)) {
    report.rows.push_back(measure_row(context, row));
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
  Result<std::vector<std::unique_ptr<RankSeat>>> created = seat_threads(options, devices);
  if (!created.ok()) {
    print_error("creating the communicator", created.status());
    return kCallFailed;
  }
  std::vector<std::unique_ptr<RankSeat>> seats = created.take();
  const std::vector<std::unique_ptr<World>> worlds = make_thread_worlds(options.thread_ranks);
  Surroundings surroundings{"1 thread", true};
  if (options.thread_ranks > 1) {
    surroundings.placement = fmt::format("{} threads of one process", options.thread_ranks);
  }
  std::vector<ExitCode> exit_codes(seats.size(), kSuccess);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < seats.size(); ++rank) {
    threads.emplace_back([&, rank] {
      exit_codes[rank] = run_session(*worlds[rank], *seats[rank], options, surroundings);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(exit_codes.begin(), exit_codes.end());
}

ExitCode run_process(MpiProcess& process, const Options& options) {
  World& world = process.world();
  const int device = device_of(process.local_rank(), prepare_devices(options), options.sharing);
  Result<Communicator> created = process.create_communicator(config_of(options, device));
  Status status = created.status();
  std::unique_ptr<RankSeat> seat;
  if (status.ok()) {
    Result<std::unique_ptr<RankSeat>> seated = RankSeat::create(created.take(), device);
    status = seated.status();
    if (seated.ok()) seat = seated.take();
  }
  if (world.any(!status.ok())) {
    print_creation_errors(world, status);
    return kCallFailed;
  }
  Surroundings surroundings{"1 process (MPI)", false};
  if (world.rank_count() > 1) {
    surroundings.placement = fmt::format("{} processes (MPI)", world.rank_count());
  }
  return run_session(world, *seat, options, surroundings);
}

}  // namespace lamppost::bench
