#include "tools/bench/launch.hpp"

#include <fmt/core.h>

#include <charconv>
#include <cstring>

namespace lamppost::bench {
namespace {

/// The number in `variable`; nothing if it is unset or no number.
std::optional<int> number_in(const Environment& environment, const char* variable) {
  const char* text = environment(variable);
  if (text == nullptr) return {};
  int number = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, number);
  if (error != std::errc() || stop != end) return {};
  return number;
}

}  // namespace

Launcher find_launcher(const Environment& environment) {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE"}) {
    const std::optional<int> size = number_in(environment, variable);
    if (size && *size > 0) return {variable, *size};
  }
  // PMIx tells a process its rank but no size; a rank above 0 is not alone.
  const std::optional<int> pmix_rank = number_in(environment, "PMIX_RANK");
  if (pmix_rank && *pmix_rank >= 0) return {"PMIX_RANK", *pmix_rank + 1};
  const std::optional<int> slurm_rank = number_in(environment, "SLURM_PROCID");
  const std::optional<int> slurm_size = number_in(environment, "SLURM_STEP_NUM_TASKS");
  if (slurm_rank && slurm_size && *slurm_size > 0) return {"SLURM_STEP_NUM_TASKS", *slurm_size};
  return {};
}

std::optional<std::string> launch_problem(const Launcher& launcher, bool has_mpi,
                                          int mpi_rank_count) {
  if (launcher.process_count <= 1 || mpi_rank_count > 1) return {};
  const std::string found =
      fmt::format("{} says that this is one of {}{} processes, but it ", launcher.variable,
                  launcher.variable == "PMIX_RANK" ? "at least " : "", launcher.process_count);
  if (!has_mpi) {
    return found +
           "was built without MPI: each would measure a world of its own.\n"
           "Either build it with MPI (install libopenmpi-dev, configure again), or start it once, "
           "without mpirun or srun: -t N runs N ranks as threads.";
  }
  return found +
         "sees itself alone: the launcher and the MPI library do not belong together.\n"
         "Either start it with the mpirun of the MPI it was built with (ldd lamppost-bench shows "
         "which; under srun try --mpi=pmix), or start it once, without a launcher: -t N runs N "
         "ranks as threads.";
}

}  // namespace lamppost::bench
