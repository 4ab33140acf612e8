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

lpConfig config_of(const Options& options) {
  lpConfig config = LP_CONFIG_INITIALIZER;
  config.backend = options.backend;
  config.timeout_ms = options.timeout_ms;
  config.slot_bytes = options.slot_bytes;
  return config;
}

void print_error(const std::string& what, const Status& status) {
  fmt::print(stderr, "lamppost-bench: {}: {} ({})\n", what, status.message(),
             lpGetErrorString(status.code()));
}

/// The buffers are ordinary memory, so only the host backend can read them.
Status check_backend(const Communicator& communicator) {
  const Result<lpBackend_t> backend = communicator.backend();
  if (!backend.ok()) return backend.status();
  if (backend.value() == LP_BACKEND_HOST) return Status();
  return Status(LP_ERROR_NOT_SUPPORTED,
                fmt::format("this version measures the host backend, not {}: use --backend host",
                            backend_name(backend.value())));
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

}  // namespace

ExitCode run_session(World& world, Communicator& communicator, const Options& options,
                     const Surroundings& surroundings) {
  const bool first = world.rank() == 0;
  const bool terminal = first && surroundings.may_be_terminal;
  Progress progress(terminal ? Progress::detect() : Progress::Output::kNone);
  Report report;
  report.options = options;
  report.facts = gather_facts(world, communicator, options, surroundings.placement);
  report.coloured = terminal && isatty(STDOUT_FILENO) != 0;
  if (first) print_header(report);
  RankContext context{world, communicator, options, progress};
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

ExitCode run_threads(const Options& options) {
  const lpConfig config = config_of(options);
  Result<std::vector<Communicator>> created =
      Communicator::create_all(options.thread_ranks, &config);
  if (created.ok()) {
    const Status backend = check_backend(created.value()[0]);
    if (!backend.ok()) created = backend;
  }
  if (!created.ok()) {
    print_error("creating the communicator", created.status());
    return kCallFailed;
  }
  std::vector<Communicator> communicators = created.take();
  const std::vector<std::unique_ptr<World>> worlds = make_thread_worlds(options.thread_ranks);
  Surroundings surroundings{"1 thread", true};
  if (options.thread_ranks > 1) {
    surroundings.placement = fmt::format("{} threads of one process", options.thread_ranks);
  }
  std::vector<ExitCode> exit_codes(communicators.size(), kSuccess);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < communicators.size(); ++rank) {
    threads.emplace_back([&, rank] {
      exit_codes[rank] = run_session(*worlds[rank], communicators[rank], options, surroundings);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(exit_codes.begin(), exit_codes.end());
}

ExitCode run_process(MpiProcess& process, const Options& options) {
  World& world = process.world();
  Result<Communicator> created = process.create_communicator(config_of(options));
  Status status = created.status();
  if (status.ok()) status = check_backend(created.value());
  if (world.any(!status.ok())) {
    print_creation_errors(world, status);
    return kCallFailed;
  }
  Communicator communicator = created.take();
  Surroundings surroundings{"1 process (MPI)", false};
  if (world.rank_count() > 1) {
    surroundings.placement = fmt::format("{} processes (MPI)", world.rank_count());
  }
  return run_session(world, communicator, options, surroundings);
}

}  // namespace lamppost::bench
