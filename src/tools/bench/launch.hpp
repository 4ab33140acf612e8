// How this process was started, and whether that fits the ranks it has: a benchmark that was built
// without MPI (or with another MPI) makes every process of an mpirun rank 0 of 1, and the numbers
// look fine. Pure functions of the environment.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace lamppost::bench {

/// std::getenv, or a test's stand-in.
using Environment = std::function<const char*(const char*)>;

/// What a launcher left in the environment.
struct Launcher {
  std::string variable;   // where the size was read ("OMPI_COMM_WORLD_SIZE"); empty: no launcher
  int process_count = 0;  // at least this many processes; 0: no launcher
};

/// Looks for Open MPI, PMI and PMIx, and for Slurm only inside a step of srun (a batch script has
/// SLURM_NTASKS without being one of them).
Launcher find_launcher(const Environment& environment);

/// Why these ranks are not what the launcher started, and what to do about it; nothing if all fits.
/// mpi_rank_count: of MPI_COMM_WORLD; 1 in a build without MPI.
std::optional<std::string> launch_problem(const Launcher& launcher, bool has_mpi,
                                          int mpi_rank_count);

}  // namespace lamppost::bench
