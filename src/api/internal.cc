#include "api/internal.hpp"

#include "api/creation.hpp"
#include "api/handles.hpp"

extern "C" lpResult_t lpInternalCommInit(lpComm_t* comm, lamppost::Bootstrap* bootstrap,
                                         const lpConfig* config) {
  auto created = lamppost::create_communicator(*bootstrap, lamppost::resolve_config(config));
  if (!created.ok()) return lamppost::report(created.status());
  auto handle = lamppost::publish(created.take());
  if (!handle.ok()) return lamppost::report(handle.status());
  *comm = handle.value();
  return LP_SUCCESS;
}

extern "C" lpResult_t lpInternalReport(const lamppost::Status* status) {
  return lamppost::report(*status);
}

extern "C" lpResult_t lpInternalProbe(lpComm_t comm, const lamppost::ProbeRequest* request,
                                      void* stream) {
  lamppost::Communicator* communicator = lamppost::find_communicator(comm);
  if (communicator == nullptr) return lamppost::report(lamppost::not_a_communicator(comm));
  return lamppost::report(communicator, communicator->enqueue_probe(
                                            *request, reinterpret_cast<std::uintptr_t>(stream)));
}

extern "C" lpResult_t lpInternalTicksPerSecond(lpComm_t comm, uint64_t* ticks) {
  lamppost::Communicator* communicator = lamppost::find_communicator(comm);
  if (communicator == nullptr) return lamppost::report(lamppost::not_a_communicator(comm));
  *ticks = communicator->driver().device_facts().ticks_per_second;
  return LP_SUCCESS;
}
