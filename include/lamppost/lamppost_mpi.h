/* Lamppost communicators from an MPI communicator. Lives in liblamppost_mpi; the core library never
 * links MPI. */
#ifndef LAMPPOST_LAMPPOST_MPI_H_
#define LAMPPOST_LAMPPOST_MPI_H_

#include <lamppost/lamppost.h>

/* Only MPI's C interface is used; its old C++ one would have to be linked too. */
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes one Lamppost rank of each rank of `mpi_comm`, with the same numbers. Collective over
 * mpi_comm; blocks, at most setup_timeout_ms a step; a rank that does not come is named.
 * MPI must be initialised (any thread level: MPI is called from this thread only) and is never
 * initialised or finalised here. Messages go over mpi_comm itself (MPI_Comm_dup could wait for ever
 * for a rank that does not come), by point-to-point calls with tags 32,512 to 32,767: during init
 * the caller has no message with these tags and no receive with MPI_ANY_TAG pending on mpi_comm.
 * mpi_comm's error handler is MPI_ERRORS_RETURN meanwhile, and afterwards the caller's again. After
 * init MPI is not used again, so lpCommDestroy may follow MPI_Finalize. After an init that failed
 * for a missing rank mpi_comm may still carry its messages: retry on a duplicate (INVALID_USAGE
 * otherwise). All ranks must be on one node in this version (NOT_SUPPORTED otherwise).
 * comm: written only on success. config: may be NULL. Errors: as lpCommInitAll, INVALID_USAGE (MPI
 * not initialised, or finalised). */
LAMPPOST_API lpResult_t lpCommInitMPI(lpComm_t* comm, MPI_Comm mpi_comm, const lpConfig* config);

#ifdef __cplusplus
}
#endif
#endif /* LAMPPOST_LAMPPOST_MPI_H_ */
