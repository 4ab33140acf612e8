// From the options to an exit status: the ranks are made, the machine is surveyed, all rows are
// measured, the reports written. Rank 0 prints and writes the files.
#pragma once

#include <lamppost/communicator.hpp>
#include <string>

#include "tools/bench/devices.hpp"
#include "tools/bench/measure.hpp"
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

/// What one rank runs on.
struct RankSeats {
  RankSeat& rows;
  RankSeat* probes;  // null: none are needed
};

/// All rows, and the report files. init_row: of --op init, else null. Collective; the same result
/// on all ranks, but that only rank 0 can return kBadArguments for a report file that cannot be
/// written.
ExitCode run_session(World& world, const RankSeats& seats, const Options& options,
                     const Surroundings& surroundings, const RowResult* init_row);

/// Ranks as threads: makes them all, runs them, returns the worst exit status.
ExitCode run_threads(const Options& options);

/// Ranks as the processes of `process`; this one is one of them.
ExitCode run_process(MpiProcess& process, const Options& options);

}  // namespace lamppost::bench
