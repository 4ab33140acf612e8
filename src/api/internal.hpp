// What liblamppost_mpi and lamppost-bench need of liblamppost. Exported, but no part of the API: they are
// built together, and nothing else may call this.
#pragma once

#include <lamppost/lamppost.h>
#include <lamppost/status.hpp>

namespace lamppost {
class Bootstrap;
struct ProbeRequest;
}

/// Collective over the bootstrap's ranks; blocks. `bootstrap` is not kept.
extern "C" LAMPPOST_API lpResult_t lpInternalCommInit(lpComm_t* comm, lamppost::Bootstrap* bootstrap,
                                                      const lpConfig* config);
/// Records `status` for lpGetLastError(NULL) and returns its code.
extern "C" LAMPPOST_API lpResult_t lpInternalReport(const lamppost::Status* status);
/// Enqueues a probe (collectives/probe/args.hpp) on `stream`, which is as for a collective. kOneWay*:
/// every rank makes the same request, before the communicator's first collective. kPush: the communicator
/// takes no collective afterwards. The others do not touch it. Errors: INVALID_ARGUMENT, and a
/// collective's.
extern "C" LAMPPOST_API lpResult_t lpInternalProbe(lpComm_t comm,
                                                   const lamppost::ProbeRequest* request,
                                                   void* stream);
/// Of the clock that probes read.
extern "C" LAMPPOST_API lpResult_t lpInternalTicksPerSecond(lpComm_t comm, uint64_t* ticks);
