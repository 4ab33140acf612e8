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
