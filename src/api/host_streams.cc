// Streams and graphs of the host backend in the C API.
#include <fmt/core.h>
#include <lamppost/lamppost.h>

#include "api/handles.hpp"
#include "driver/host.hpp"

using lamppost::HostStream;
using lamppost::report;
using lamppost::Status;

namespace {

std::uintptr_t handle_of(const void* handle) { return reinterpret_cast<std::uintptr_t>(handle); }

Status not_a_graph(lpGraph_t graph) {
  return Status(LP_ERROR_INVALID_HANDLE,
                fmt::format("graph is {}: not a live graph (null, destroyed or foreign)",
                            static_cast<const void*>(graph)));
}

Status refused_in_capture(const char* what) {
  return Status(LP_ERROR_NOT_CAPTURABLE, fmt::format("{}: the stream is being captured", what));
}

}  // namespace

extern "C" {

lpResult_t lpStreamCreate(lpComm_t comm, lpStream_t* stream) {
  lamppost::Communicator* communicator = lamppost::find_communicator(comm);
  if (communicator == nullptr) return report(lamppost::not_a_communicator(comm));
  if (stream == nullptr)
    return report(communicator, Status(LP_ERROR_INVALID_ARGUMENT, "stream is null"));
  if (communicator->backend() != LP_BACKEND_HOST) {
    return report(communicator, Status(LP_ERROR_NOT_SUPPORTED,
                                       "lpStreamCreate is for the host backend; use the vendor's "
                                       "streams on GPUs"));
  }
  auto created = communicator->driver().create_stream();
  if (!created.ok()) return report(communicator, created.status());
  *stream = reinterpret_cast<lpStream_t>(created.value());
  return LP_SUCCESS;
}

lpResult_t lpStreamSynchronize(lpStream_t stream) {
  HostStream* found = lamppost::find_host_stream(handle_of(stream));
  if (found == nullptr) return report(lamppost::not_a_host_stream(handle_of(stream)));
  if (found->is_capturing()) return report(refused_in_capture("lpStreamSynchronize"));
  found->synchronize();
  return LP_SUCCESS;
}

lpResult_t lpStreamDestroy(lpStream_t stream) {
  if (stream == nullptr) return LP_SUCCESS;
  HostStream* found = lamppost::find_host_stream(handle_of(stream));
  if (found == nullptr) return report(lamppost::not_a_host_stream(handle_of(stream)));
  if (found->is_capturing()) return report(refused_in_capture("lpStreamDestroy"));
  return report(lamppost::destroy_host_stream(handle_of(stream)));
}

lpResult_t lpCommSynchronize(lpComm_t comm) {
  lamppost::Communicator* communicator = lamppost::find_communicator(comm);
  if (communicator == nullptr) return report(lamppost::not_a_communicator(comm));
  return report(communicator,
                communicator->driver().synchronize_stream(communicator->null_stream()));
}

lpResult_t lpStreamBeginCapture(lpStream_t stream) {
  HostStream* found = lamppost::find_host_stream(handle_of(stream));
  if (found == nullptr) return report(lamppost::not_a_host_stream(handle_of(stream)));
  return report(found->begin_capture());
}

lpResult_t lpStreamEndCapture(lpStream_t stream, lpGraph_t* graph) {
  HostStream* found = lamppost::find_host_stream(handle_of(stream));
  if (found == nullptr) return report(lamppost::not_a_host_stream(handle_of(stream)));
  if (graph == nullptr) return report(Status(LP_ERROR_INVALID_ARGUMENT, "graph is null"));
  auto captured = found->end_capture();
  if (!captured.ok()) return report(captured.status());
  auto owned = std::make_unique<std::shared_ptr<lamppost::HostGraph>>(captured.take());
  const std::uintptr_t handle = lamppost::graphs().add(owned.get());
  if (handle == 0) {
    return report(Status(LP_ERROR_RESOURCE_LIMIT, "too many graphs in this process"));
  }
  owned.release();
  *graph = reinterpret_cast<lpGraph_t>(handle);
  return LP_SUCCESS;
}

lpResult_t lpGraphLaunch(lpGraph_t graph, lpStream_t stream) {
  HostStream* found = lamppost::find_host_stream(handle_of(stream));
  if (found == nullptr) return report(lamppost::not_a_host_stream(handle_of(stream)));
  std::shared_ptr<lamppost::HostGraph>* captured = lamppost::graphs().find(handle_of(graph));
  if (captured == nullptr) return report(not_a_graph(graph));
  if (found->is_capturing()) return report(refused_in_capture("lpGraphLaunch"));
  found->launch_graph(*captured);
  return LP_SUCCESS;
}

lpResult_t lpGraphDestroy(lpGraph_t graph) {
  if (graph == nullptr) return LP_SUCCESS;
  std::unique_ptr<std::shared_ptr<lamppost::HostGraph>> owned(
      lamppost::graphs().remove(handle_of(graph)));
  return owned == nullptr ? report(not_a_graph(graph)) : LP_SUCCESS;
}

}  // extern "C"
