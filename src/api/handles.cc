#include "api/handles.hpp"

#include <fmt/core.h>

namespace lamppost {
namespace {

std::string& thread_error() {
  thread_local std::string error;
  return error;
}

}  // namespace

// Both tables live as long as the process, so that late threads and destructors may ask.
HandleTable<Communicator>& communicators() {
  static auto* table = new HandleTable<Communicator>();
  return *table;
}
HandleTable<std::shared_ptr<HostGraph>>& graphs() {
  static auto* table = new HandleTable<std::shared_ptr<HostGraph>>();
  return *table;
}

Communicator* find_communicator(lpComm_t comm) {
  return communicators().find(reinterpret_cast<std::uintptr_t>(comm));
}

lpResult_t report(Communicator* communicator, const Status& status) {
  if (status.ok()) return LP_SUCCESS;
  thread_error() = status.message();
  if (communicator != nullptr) communicator->last_error() = status.message();
  return status.code();
}

lpResult_t report(const Status& status) { return report(nullptr, status); }

Status not_a_communicator(lpComm_t comm) {
  return Status(LP_ERROR_INVALID_HANDLE,
                fmt::format("comm is {}: not a live communicator (null, destroyed or foreign)",
                            static_cast<const void*>(comm)));
}

const char* last_error_of_thread() { return thread_error().c_str(); }

Result<lpComm_t> publish(std::unique_ptr<Communicator> communicator) {
  const std::uintptr_t handle = communicators().add(communicator.get());
  if (handle == 0) {
    (void)communicator->shut_down();
    return Status(LP_ERROR_RESOURCE_LIMIT, "too many communicators in this process");
  }
  communicator.release();
  return reinterpret_cast<lpComm_t>(handle);
}

}  // namespace lamppost
