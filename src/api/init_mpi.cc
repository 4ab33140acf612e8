// lpCommInitMPI. Compiled into liblamppost_mpi with src/bootstrap/mpi_*.cc.
#include <lamppost/lamppost_mpi.h>

#include "api/internal.hpp"
#include "bootstrap/mpi_bootstrap.hpp"

extern "C" lpResult_t lpCommInitMPI(lpComm_t* comm, MPI_Comm mpi_comm, const lpConfig* config) {
  using lamppost::Status;
  if (comm == nullptr) {
    const Status status(LP_ERROR_INVALID_ARGUMENT, "comm is null");
    return lpInternalReport(&status);
  }
  auto bootstrap = lamppost::make_mpi_bootstrap(mpi_comm);
  if (!bootstrap.ok()) return lpInternalReport(&bootstrap.status());
  return lpInternalCommInit(comm, bootstrap.value().get(), config);
}
