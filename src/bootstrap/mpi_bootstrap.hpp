// Bootstrap over an MPI communicator, for liblamppost_mpi. Point-to-point messages only, polled
// until a deadline: MPI's collectives, MPI_Comm_dup among them, cannot time out, so the caller's
// communicator is used as it is, with a reserved range of tags. One thread, the one that may call
// MPI.
#pragma once

#include <mpi.h>

#include <memory>

#include "bootstrap/bootstrap.hpp"

namespace lamppost {

/// Tags kMpiFirstTag .. kMpiFirstTag + kMpiTagCount - 1 are Lamppost's: the highest 256 that every
/// MPI has (MPI_TAG_UB is at least 32,767). Receives are for exact ranks and tags.
inline constexpr int kMpiFirstTag = 32'512;
inline constexpr int kMpiTagCount = 256;

/// Makes this process' rank of `comm`, with the same number. Local, does not block or communicate.
/// MPI must be initialised and not finalised; neither is done here. Around MPI calls the error
/// handler of `comm` is MPI_ERRORS_RETURN; the caller's is put back. `comm` must live as long as
/// the object; the object may be destroyed after MPI_Finalize. After a failed all_gather messages
/// may still be on their way, so `comm` is marked, and further objects for it are refused: retry on
/// a duplicate. Errors: LP_ERROR_INVALID_USAGE (MPI not initialised, finalised, `comm` marked);
/// LP_ERROR_INVALID_ARGUMENT (null, intercommunicator, more than LP_MAX_RANKS); LP_ERROR_SYSTEM.
/// Of all_gather: LP_ERROR_TIMEOUT naming the missing ranks; LP_ERROR_BOOTSTRAP (ranks made
/// different calls); LP_ERROR_SYSTEM (MPI's own text). MPI does not tell of dead ranks: they time
/// out.
Result<std::unique_ptr<Bootstrap>> make_mpi_bootstrap(MPI_Comm comm);

}  // namespace lamppost
