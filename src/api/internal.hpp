// What liblamppost_mpi needs of liblamppost. Exported, but no part of the API: both libraries are built
// together, and nothing else may call this.
#pragma once

#include <lamppost/lamppost.h>
#include <lamppost/status.hpp>

namespace lamppost {
class Bootstrap;
}

/// Collective over the bootstrap's ranks; blocks. `bootstrap` is not kept.
extern "C" LAMPPOST_API lpResult_t lpInternalCommInit(lpComm_t* comm, lamppost::Bootstrap* bootstrap,
                                                      const lpConfig* config);
/// Records `status` for lpGetLastError(NULL) and returns its code.
extern "C" LAMPPOST_API lpResult_t lpInternalReport(const lamppost::Status* status);
