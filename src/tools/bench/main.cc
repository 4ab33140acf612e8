// lamppost-bench: measures and checks Lamppost's collectives. How a run goes: options.hpp (what was
// asked) -> launch.hpp (threads or processes) -> session.hpp (all rows) -> measure.hpp (one row) ->
// report.hpp (what is told).
#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "tools/bench/launch.hpp"
#include "tools/bench/options.hpp"
#include "tools/bench/session.hpp"

namespace lamppost::bench {
namespace {

ExitCode refuse(ExitCode exit_code, const std::string& why) {
  fmt::print(stderr, "lamppost-bench: {}\n", why);
  return exit_code;
}

ExitCode run(const Options& options) {
  const Launcher launcher = find_launcher([](const char* name) { return std::getenv(name); });
  if (launcher.process_count == 0 || !has_mpi()) {
    const std::optional<std::string> problem = launch_problem(launcher, has_mpi(), 1);
    return problem ? refuse(kBadLaunch, *problem) : run_threads(options);
  }
  MpiProcess process;
  const std::optional<std::string> problem =
      launch_problem(launcher, has_mpi(), process.world().rank_count());
  if (problem) return refuse(kBadLaunch, *problem);
  if (options.thread_ranks_given) {
    return refuse(kBadArguments,
                  "--ranks is for threads; under mpirun every process is one rank (mpirun -n N)");
  }
  return run_process(process, options);
}

}  // namespace
}  // namespace lamppost::bench

int main(int argc, char** argv) {
  using namespace lamppost::bench;
  const ParsedOptions parsed = parse_options(argc, argv);
  if (parsed.options) return run(*parsed.options);
  fmt::print(parsed.exit_code == kSuccess ? stdout : stderr, "{}", parsed.text);
  return parsed.exit_code;
}
