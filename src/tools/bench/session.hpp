// One rank's run from its communicator to its exit status. Called on every rank; rank 0 prints and
// writes the files.
#pragma once

#include <lamppost/communicator.hpp>
#include <string>

#include "tools/bench/devices.hpp"
#include "tools/bench/options.hpp"
#include "tools/bench/world.hpp"

namespace lamppost::bench {

/// How the ranks were started, as far as the output cares.
struct Surroundings {
  std::string placement;  // "4 threads of one process", for the header
  /// Whether standard output and error can be a person's terminal. mpirun's are not, though they
  /// may look like one.
  bool may_be_terminal = false;
};

/// All rows, and the report files. Collective; the same result on all ranks, but that only rank 0
/// can return kBadArguments for a report file that cannot be written.
ExitCode run_session(World& world, RankSeat& seat, const Options& options,
                     const Surroundings& surroundings);

/// Ranks as threads: makes them all, runs them, returns the worst exit status.
ExitCode run_threads(const Options& options);

/// Ranks as the processes of `process`; this one is one of them.
ExitCode run_process(MpiProcess& process, const Options& options);

}  // namespace lamppost::bench
